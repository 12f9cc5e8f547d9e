// Each layer of nn by itself.
#include <algorithm>

#include "onnx/cases.h"

namespace mezzo::onnx::testing {

namespace {

struct Inputs {
  Tensor x, rows, image;
};
Inputs inputs() { return {randn({2, 6}), randn({2, 5, 6}), randn({2, 4, 8, 8})}; }

/// Activations.
void add_activations(Cases& list) {
  const auto [x, rows, image] = inputs();
  list.layer("relu", nn::ReLU(), x);
  list.layer("gelu", nn::GELU(), x);
  list.layer("gelu_tanh", nn::GELU(GeluApproximation::tanh), x);
  list.layer("sigmoid", nn::Sigmoid(), x);
  list.layer("tanh", nn::Tanh(), x);
  list.layer("silu", nn::SiLU(), x);
  list.layer("softmax", nn::Softmax(-1), x);
  list.layer("log_softmax", nn::LogSoftmax(1), x);
  list.layer("relu6", nn::ReLU6(), x * 3);
  list.layer("hardsigmoid", nn::Hardsigmoid(), x * 3);
  list.layer("hardswish", nn::Hardswish(), x * 3);
  list.layer("selu", nn::SELU(), x);
  list.layer("logsigmoid", nn::LogSigmoid(), x);
  list.layer("softsign", nn::Softsign(), x);
  list.layer("mish", nn::Mish(), x);
  list.layer("leaky", nn::LeakyReLU(0.2), x);
  list.layer("hardtanh", nn::Hardtanh(-0.5, 0.7), x);
  list.layer("softshrink", nn::Softshrink(0.3), x);
  list.layer("hardshrink", nn::Hardshrink(0.3), x);
  list.layer("tanhshrink", nn::Tanhshrink(), x);
  list.layer("threshold", nn::Threshold(0.1, -2), x);
  list.layer("rrelu", nn::RReLU(), x);
  list.layer("elu", nn::ELU(0.7), x);
  list.layer("celu", nn::CELU(0.7), x);
  list.layer("softplus", nn::Softplus(), x);
  list.layer("softplus2", nn::Softplus(2, 1), x);
  list.layer("prelu", nn::PReLU(), x);
  list.layer("prelu4", nn::PReLU(4), image);
  list.layer("softmax2d", nn::Softmax2d(), image);
  list.layer("glu", nn::GLU(), x);
  list.layer("softmin", nn::Softmin(-1), x);
}

/// Plain and transposed convolutions.
void add_convolutions(Cases& list) {
  const auto [x, rows, image] = inputs();
  list.layer("conv1", nn::Conv1d(5, 4, 3, {.padding = 1}), rows);
  list.layer("conv2", nn::Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}), image);
  list.layer("conv2same", nn::Conv2d(4, 6, 4, {.padding = "same"}), image);
  list.layer("conv2circ", nn::Conv2d(4, 6, 3, {.padding = 1, .padding_mode = PadMode::circular}), image);
  list.layer("conv3", nn::Conv3d(4, 3, 2, {.dilation = 2}), randn({2, 4, 5, 6, 7}));
  list.layer("convt1", nn::ConvTranspose1d(5, 4, 3, {.stride = 2}), rows);
  list.layer("convt2",
             nn::ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}),
             image);
  list.layer("convt3", nn::ConvTranspose3d(4, 3, 2), randn({2, 4, 3, 4, 5}));
}

/// Norms, those with statistics of the input too.
void add_norms(Cases& list) {
  const auto [x, rows, image] = inputs();
  list.layer("bn1", nn::BatchNorm1d(6), x);
  list.layer("bn2", nn::BatchNorm2d(4), image);
  list.layer("in2", nn::InstanceNorm2d(4, {.affine = true}), image);
  list.layer("bn_batch", nn::BatchNorm2d(4, {.track_running_stats = false}), image);
  list.layer("gn", nn::GroupNorm(2, 4), image);
  list.layer("ln", nn::LayerNorm(6), x);
  list.layer("ln2", nn::LayerNorm(Shape{5, 6}), rows);
  list.layer("ln_plain", nn::LayerNorm(6, {.elementwise_affine = false}), x);
  list.layer("rms", nn::RMSNorm(6), x);
}

/// Poolings and paddings.
void add_pools_and_pads(Cases& list) {
  const auto [x, rows, image] = inputs();
  list.layer("maxpool", nn::MaxPool2d(3, {.stride = 2, .padding = 1}), image);
  list.layer("maxpool_ceil", nn::MaxPool2d(3, {.stride = 2, .ceil_mode = true}), image);
  list.layer("maxpool1", nn::MaxPool1d(2), rows);
  list.layer("maxpool3", nn::MaxPool3d(2, {.stride = 1, .dilation = 2}), randn({2, 4, 5, 6, 7}));
  list.layer("avgpool", nn::AvgPool2d(3, {.stride = 2, .padding = 1}), image);
  list.layer("avgpool_nopad", nn::AvgPool2d(3, {.stride = 2, .padding = 1, .count_include_pad = false}),
             image);
  list.layer("avgpool_div", nn::AvgPool2d(3, {.stride = 2, .divisor_override = 5}), image);
  list.layer("avgpool_ceil", nn::AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true}), image);
  list.layer("aavg1", nn::AdaptiveAvgPool2d(1), image);
  list.layer("aavg4", nn::AdaptiveAvgPool2d(4), image);
  list.layer("aavg3", nn::AdaptiveAvgPool2d({3, 5}), image);
  list.layer("amax1", nn::AdaptiveMaxPool2d(1), image);
  list.layer("amax2", nn::AdaptiveMaxPool2d(2), image);
  list.layer("refl", nn::ReflectionPad2d(2), image);
  list.layer("repl", nn::ReplicationPad2d({1, 2, 3, 0}), image);
  list.layer("zero", nn::ZeroPad2d({1, -1, 2, 0}), image);
  list.layer("circ", nn::CircularPad2d(2), image);
  list.layer("constpad", nn::ConstantPad1d(1, 2.5), rows);
}

/// Poolings and norms over other numbers of dims, without parameters, with statistics that are tracked.
void add_variants(Cases& list) {
  const auto [x, rows, image] = inputs();
  const Tensor volume = randn({2, 4, 6, 6, 6}), wide = randn({2, 4, 9, 7}), line = randn({2, 4, 12});
  list.layer("aavg1d", nn::AdaptiveAvgPool1d(5), line);
  list.layer("aavg3d", nn::AdaptiveAvgPool3d(4), volume);
  list.layer("amax1d", nn::AdaptiveMaxPool1d(4), line);
  list.layer("amax3d", nn::AdaptiveMaxPool3d(1), volume);
  list.layer("aavg_kept", nn::AdaptiveAvgPool2d({std::nullopt, 1}), wide);
  list.layer("avg1d", nn::AvgPool1d(3, {.stride = 2, .padding = 1}), line);
  list.layer("avg3d", nn::AvgPool3d(2), volume);
  list.layer("avg_ceil_nopad",
             nn::AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
             wide);
  list.layer("max_ceil_pad", nn::MaxPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true}), wide);
  list.layer("max_ceil_drops", nn::MaxPool1d(2, {.stride = 3, .padding = 1, .ceil_mode = true}),
             randn({2, 4, 9}));
  list.layer("avg_ceil_drops", nn::AvgPool1d(2, {.stride = 3, .padding = 1, .ceil_mode = true}),
             randn({2, 4, 9}));
  list.layer("amax_uneven", nn::AdaptiveMaxPool2d({4, 3}), wide);
  list.layer("circular_cut", nn::CircularPad1d({2, -1}), line);
  list.layer("in1", nn::InstanceNorm1d(4), line);
  list.layer("in3", nn::InstanceNorm3d(4, {.affine = true}), volume);
  list.layer("in_tracked", nn::InstanceNorm2d(4, {.affine = true, .track_running_stats = true}), wide);
  list.layer("bn3", nn::BatchNorm3d(4), volume);
  list.layer("bn_plain", nn::BatchNorm2d(4, {.affine = false}), wide);
  list.layer("gn_plain", nn::GroupNorm(2, 4, {.affine = false}), wide);
  list.layer("gn_rows", nn::GroupNorm(2, 6), x);
  list.layer("rms_plain", nn::RMSNorm(12, {.elementwise_affine = false}), line);
  list.layer("ln_nobias", nn::LayerNorm(12, {.bias = false}), line);
  list.layer("conv_valid", nn::Conv2d(4, 6, 3, {.padding = "valid", .dilation = 2}), wide);
  list.layer("conv_reflect", nn::Conv1d(4, 6, 3, {.padding = 1, .padding_mode = PadMode::reflect}), line);
  list.layer("conv_depthwise", nn::Conv2d(4, 8, 3, {.groups = 4}), wide);
}

/// Attention with its options, in each of them for one tensor.
struct SelfAttention final : nn::Module {
  SelfAttention(const nn::MultiheadAttentionOptions& options, nn::AttentionMasks given)
      : attention(*this, "attention", nn::make<nn::MultiheadAttention>(8, 2, options)),
        masks(std::move(given)) {}
  auto forward(const Tensor& x) { return attention(x, x, x, masks); }
  nn::Child<nn::MultiheadAttention> attention;
  nn::AttentionMasks masks;
};
void add_attention(Cases& list) {
  const auto add = [&](const char* name, const nn::AttentionMasks& masks,
                       const nn::MultiheadAttentionOptions& options = {.batch_first = true}) {
    list.add(std::string("mha_") + name, nn::make<SelfAttention>(options, masks), {randn({2, 5, 8})});
  };
  add("weights", {.need_weights = true});
  add("weights_of_heads", {.need_weights = true, .average_attn_weights = false});
  add("causal", {.is_causal = true});
  add("causal_weights", {.need_weights = true, .is_causal = true});
  add("mask", {.attn_mask = triu(ones({5, 5}, DType::boolean), 1)});
  add("added_mask", {.attn_mask = randn({5, 5})});
  add("added_keys", {}, {.add_bias_kv = true, .add_zero_attn = true, .batch_first = true});
}

/// Each mode, by factors and by sizes.
void add_resampling(Cases& list) {
  const auto [x, rows, image] = inputs();
  for (const auto mode : {InterpolateMode::nearest, InterpolateMode::nearest_exact, InterpolateMode::bilinear,
                          InterpolateMode::bicubic}) {
    std::string name(kEnumNames<InterpolateMode>[static_cast<std::size_t>(mode)]);
    std::ranges::replace(name, '-', '_');
    list.layer("up_" + name, nn::Upsample({.scale_factor = 2.0, .mode = mode}), image);
    list.layer("up_by_two_factors_" + name, nn::Upsample({.scale_factor = {1.5, 0.7}, .mode = mode}), image);
    list.layer("up_to_size_" + name, nn::Upsample({.size = {11, 5}, .mode = mode}), image);
    if (mode != InterpolateMode::bilinear && mode != InterpolateMode::bicubic) continue;
    const io::OnnxOptions options{.opset = 18};
    list.layer("smoothed_" + name, nn::Upsample({.size = {4, 5}, .mode = mode, .antialias = true}), image,
               options);
    list.layer("smoothed_by_factor_" + name,
               nn::Upsample({.scale_factor = 0.6, .mode = mode, .antialias = true}), image, options);
  }
  list.layer("up_trilinear", nn::Upsample({.scale_factor = 2.0, .mode = InterpolateMode::trilinear}),
             randn({2, 2, 3, 4, 5}));
}

/// The rest.
void add_others(Cases& list) {
  const auto [x, rows, image] = inputs();
  list.layer("linear", nn::Linear(6, 3), x);
  list.layer("linear_nobias", nn::Linear(6, 3, {.bias = false}), rows);
  list.layer("linear3", nn::Linear(6, 3), rows);
  list.layer("up_align",
             nn::Upsample({.scale_factor = 2.0, .mode = InterpolateMode::bilinear, .align_corners = true}),
             image);
  list.layer("up1_linear", nn::Upsample({.size = 9, .mode = InterpolateMode::linear}), rows);
  list.layer("pixelshuffle", nn::PixelShuffle(2), image);
  list.layer("flatten", nn::Flatten(), image);
  list.layer("unflatten", nn::Unflatten(1, {2, 3}), x);
  list.layer("identity", nn::Identity(), x);
  list.layer("dropout", nn::Dropout(0.5), x);
  list.layer("dropout2", nn::Dropout2d(0.5), image);
  list.layer("alphadrop", nn::AlphaDropout(0.5), x);
  list.layer("embedding", nn::Embedding(10, 4), randint(0, 10, {2, 5}));
  list.add("weightnorm", nn::weight_norm(nn::Linear(6, 3)), {x});
  list.add("spectral", nn::spectral_norm(nn::Conv2d(4, 6, 3)), {image});
  list.add("embedding_bag", nn::make<nn::EmbeddingBag>(10, 4), {randint(0, 10, {2, 5})});
  list.add("bilinear", nn::make<nn::Bilinear>(6, 4, 3), {x, randn({2, 4})});
  list.add("rotary", nn::make<nn::RotaryEmbedding>(4), {randn({2, 3, 5, 4})});
  list.add("mha", nn::make<nn::MultiheadAttention>(8, 2, nn::MultiheadAttentionOptions{.batch_first = true}),
           {randn({2, 5, 8}), randn({2, 4, 8}), randn({2, 4, 8})});
  list.add("encoder_layer",
           nn::make<nn::TransformerEncoderLayer>(
               8, 2, nn::TransformerEncoderLayerOptions{.dim_feedforward = 16, .batch_first = true}),
           {randn({2, 5, 8})});
  list.add(
      "transformer",
      nn::make<nn::Transformer>(
          8, 2,
          nn::TransformerOptions{
              .num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 16, .batch_first = true}),
      {randn({2, 5, 8}), randn({2, 4, 8})});
  list.add("rotary_len", nn::make<nn::RotaryEmbedding>(4), {randn({2, 3, 5, 4})},
           {.second_example = {randn({3, 3, 7, 4})}});
}

/// Recurrent layers and cells.
void add_recurrent(Cases& list) {
  const auto [x, rows, image] = inputs();
  list.add("rnn", nn::make<nn::RNN>(6, 4, nn::RecurrentOptions{.batch_first = true}), {rows});
  list.add("rnn_relu",
           nn::make<nn::RNN>(
               6, 4, nn::RecurrentOptions{.num_layers = 2, .batch_first = true, .bidirectional = true},
               nn::RNNNonlinearity::relu),
           {rows});
  list.add("gru",
           nn::make<nn::GRU>(
               6, 4, nn::RecurrentOptions{.num_layers = 2, .batch_first = true, .bidirectional = true}),
           {rows});
  list.add("lstm",
           nn::make<nn::LSTM>(
               6, 4, nn::RecurrentOptions{.num_layers = 2, .batch_first = true, .bidirectional = true}),
           {rows});
  list.add("lstm_nobias", nn::make<nn::LSTM>(6, 4, nn::RecurrentOptions{.bias = false, .batch_first = true}),
           {rows});
  list.add("lstm_proj", nn::make<nn::LSTM>(6, 4, nn::RecurrentOptions{.batch_first = true, .proj_size = 2}),
           {rows});
  list.add("rnncell", nn::make<nn::RNNCell>(6, 4), {x});
  list.add("grucell", nn::make<nn::GRUCell>(6, 4), {x});
  list.add("lstmcell", nn::make<nn::LSTMCell>(6, 4), {x});
}

}  // namespace

std::vector<Case> layer_cases() {
  manual_seed(1);
  Cases list;
  for (const auto add : {add_activations, add_convolutions, add_norms, add_pools_and_pads, add_variants,
                         add_attention, add_resampling, add_others, add_recurrent})
    add(list);
  return list.all;
}

}  // namespace mezzo::onnx::testing
