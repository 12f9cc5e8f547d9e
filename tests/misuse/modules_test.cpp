// Layers and losses: constructors with bad sizes and options, forward with bad input, children that are taken
// away.
#include <gtest/gtest.h>

#include <memory>

#include "misuse/members.h"
#include "misuse/misuse.h"

namespace mezzo::misuse {
namespace {

using namespace nn;

/// forward with one to three tensors, whichever the module takes.
template <class M>
void run_forward(M& module, Draw& draw) {
  for (int i = 0; i < 3; ++i) {
    const Tensor a = draw_tensor(draw), b = draw_tensor(draw), c = draw_tensor(draw);
    if constexpr (requires { module.forward(a, b, c); })
      static_cast<void>(module.forward(a, b, c));
    else if constexpr (requires { module.forward(a, LstmState{b, c}); })
      static_cast<void>(module.forward(a, LstmState{b, c}));
    else if constexpr (requires { module.forward(a, b); })
      static_cast<void>(module.forward(a, b));
    else
      static_cast<void>(module.forward(a));
  }
}

/// A module of type M made of arguments of types A, drawn.
template <class M, class... A>
Function module_of(const char* name) {
  return {name, [](Draw& draw) {
            const auto use = [&draw](auto&... arguments) {
              M module(arguments...);
              static_cast<void>(nn::to_string(module));
              // Half of the time: a member that refuses would hide what forward does.
              if (draw.once_in(2)) use_members(module, draw);
              run_forward(module, draw);
            };
            WithArguments<A...>{use, kept<A>(draw)...};
          }};
}

using Int = std::int64_t;

TEST(Misuse, OfOptionsOfLayers) {
  sweep(
      {module_of<Linear, Int, Int, LinearOptions>("Linear with options"),
       module_of<Bilinear, Int, Int, Int, BilinearOptions>("Bilinear with options"),
       module_of<Conv1d, Int, Int, SpatialSizes, ConvLayerOptions>("Conv1d with options"),
       module_of<Conv2d, Int, Int, SpatialSizes, ConvLayerOptions>("Conv2d with options"),
       module_of<ConvTranspose2d, Int, Int, SpatialSizes, ConvTransposeLayerOptions>(
           "ConvTranspose2d with options"),
       module_of<MaxPool2d, SpatialSizes, MaxPoolLayerOptions>("MaxPool2d with options"),
       module_of<AvgPool2d, SpatialSizes, AvgPoolLayerOptions>("AvgPool2d with options"),
       module_of<LayerNorm, Shape, LayerNormOptions>("LayerNorm with options"),
       module_of<RMSNorm, Shape, RMSNormOptions>("RMSNorm with options"),
       module_of<GroupNorm, Int, Int, GroupNormOptions>("GroupNorm with options"),
       module_of<BatchNorm2d, Int, RunningNormOptions>("BatchNorm2d with options"),
       module_of<InstanceNorm1d, Int, InstanceNormOptions>("InstanceNorm1d with options"),
       module_of<Embedding, Int, Int, EmbeddingOptions>("Embedding with options"),
       module_of<GRUCell, Int, Int, RecurrentCellOptions>("GRUCell with options"),
       module_of<LSTM, Int, Int, RecurrentOptions>("LSTM with options"),
       module_of<MultiheadAttention, Int, Int, MultiheadAttentionOptions>("MultiheadAttention with options"),
       module_of<TransformerEncoderLayer, Int, Int, TransformerEncoderLayerOptions>(
           "TransformerEncoderLayer, options"),
       module_of<NLLLoss, NLLLossOptions>("NLLLoss with options"),
       module_of<CrossEntropyLoss, CrossEntropyLossOptions>("CrossEntropyLoss with options"),
       module_of<BCELoss, BCELossOptions>("BCELoss with options"),
       module_of<BCEWithLogitsLoss, BCEWithLogitsLossOptions>("BCEWithLogitsLoss with options"),
       module_of<MultiMarginLoss, MultiMarginLossOptions>("MultiMarginLoss with options")},
      120);
}

TEST(Misuse, OfEveryLayerWithParameters) {
  sweep({module_of<Linear, Int, Int>("Linear"),
         module_of<Bilinear, Int, Int, Int>("Bilinear"),
         module_of<Conv1d, Int, Int, SpatialSizes>("Conv1d"),
         module_of<Conv2d, Int, Int, SpatialSizes>("Conv2d"),
         module_of<Conv3d, Int, Int, SpatialSizes>("Conv3d"),
         module_of<ConvTranspose1d, Int, Int, SpatialSizes>("ConvTranspose1d"),
         module_of<ConvTranspose2d, Int, Int, SpatialSizes>("ConvTranspose2d"),
         module_of<ConvTranspose3d, Int, Int, SpatialSizes>("ConvTranspose3d"),
         module_of<LayerNorm, Int>("LayerNorm"),
         module_of<LayerNorm, Shape>("LayerNorm of a shape"),
         module_of<RMSNorm, Int>("RMSNorm"),
         module_of<RMSNorm, Shape>("RMSNorm of a shape"),
         module_of<GroupNorm, Int, Int>("GroupNorm"),
         module_of<BatchNorm1d, Int>("BatchNorm1d"),
         module_of<BatchNorm2d, Int>("BatchNorm2d"),
         module_of<BatchNorm3d, Int>("BatchNorm3d"),
         module_of<InstanceNorm1d, Int>("InstanceNorm1d"),
         module_of<InstanceNorm2d, Int>("InstanceNorm2d"),
         module_of<InstanceNorm3d, Int>("InstanceNorm3d"),
         module_of<MaxPool1d, SpatialSizes>("MaxPool1d"),
         module_of<MaxPool2d, SpatialSizes>("MaxPool2d"),
         module_of<MaxPool3d, SpatialSizes>("MaxPool3d"),
         module_of<AvgPool1d, SpatialSizes>("AvgPool1d"),
         module_of<AvgPool2d, SpatialSizes>("AvgPool2d"),
         module_of<AvgPool3d, SpatialSizes>("AvgPool3d"),
         module_of<AdaptiveMaxPool1d, SpatialSizes>("AdaptiveMaxPool1d"),
         module_of<AdaptiveMaxPool2d, SpatialSizes>("AdaptiveMaxPool2d"),
         module_of<AdaptiveMaxPool3d, SpatialSizes>("AdaptiveMaxPool3d"),
         module_of<AdaptiveAvgPool1d, SpatialSizes>("AdaptiveAvgPool1d"),
         module_of<AdaptiveAvgPool2d, SpatialSizes>("AdaptiveAvgPool2d"),
         module_of<AdaptiveAvgPool3d, SpatialSizes>("AdaptiveAvgPool3d"),
         module_of<RNNCell, Int, Int>("RNNCell"),
         module_of<GRUCell, Int, Int>("GRUCell"),
         module_of<LSTMCell, Int, Int>("LSTMCell"),
         module_of<RNN, Int, Int>("RNN"),
         module_of<GRU, Int, Int>("GRU"),
         module_of<LSTM, Int, Int>("LSTM"),
         module_of<Embedding, Int, Int>("Embedding"),
         module_of<EmbeddingBag, Int, Int>("EmbeddingBag"),
         module_of<MultiheadAttention, Int, Int>("MultiheadAttention"),
         module_of<TransformerEncoderLayer, Int, Int>("TransformerEncoderLayer")},
        60);
}

TEST(Misuse, OfEveryLayerWithout) {
  sweep({module_of<Dropout, double>("Dropout"),
         module_of<Dropout1d, double>("Dropout1d"),
         module_of<Dropout2d, double>("Dropout2d"),
         module_of<Dropout3d, double>("Dropout3d"),
         module_of<LeakyReLU, double>("LeakyReLU"),
         module_of<Hardtanh, double, double>("Hardtanh"),
         module_of<Softshrink, double>("Softshrink"),
         module_of<Hardshrink, double>("Hardshrink"),
         module_of<Tanhshrink>("Tanhshrink"),
         module_of<Threshold, double, double>("Threshold"),
         module_of<RReLU, double, double>("RReLU"),
         module_of<Softmax2d>("Softmax2d"),
         module_of<AlphaDropout, double>("AlphaDropout"),
         module_of<FeatureAlphaDropout, double>("FeatureAlphaDropout"),
         module_of<ELU, double>("ELU"),
         module_of<CELU, double>("CELU"),
         module_of<Softplus, double, double>("Softplus"),
         module_of<PReLU, Int, double>("PReLU"),
         module_of<Softmax, Int>("Softmax"),
         module_of<LogSoftmax, Int>("LogSoftmax"),
         module_of<Softmin, Int>("Softmin"),
         module_of<GLU, Int>("GLU"),
         module_of<PixelShuffle, Int>("PixelShuffle"),
         module_of<Upsample, InterpolateOptions>("Upsample"),
         module_of<ConstantPad2d, SpatialSizes, double>("ConstantPad2d"),
         module_of<ZeroPad1d, SpatialSizes>("ZeroPad1d"),
         module_of<ReflectionPad2d, SpatialSizes>("ReflectionPad2d"),
         module_of<ReplicationPad3d, SpatialSizes>("ReplicationPad3d"),
         module_of<CircularPad1d, SpatialSizes>("CircularPad1d"),
         module_of<GELU, GeluApproximation>("GELU"),
         module_of<ReLU>("ReLU"),
         module_of<ReLU6>("ReLU6"),
         module_of<SELU>("SELU"),
         module_of<SiLU>("SiLU"),
         module_of<Sigmoid>("Sigmoid"),
         module_of<Hardsigmoid>("Hardsigmoid"),
         module_of<Hardswish>("Hardswish"),
         module_of<LogSigmoid>("LogSigmoid"),
         module_of<Mish>("Mish"),
         module_of<Softsign>("Softsign"),
         module_of<Tanh>("Tanh"),
         module_of<Identity>("Identity"),
         module_of<Flatten, Int, Int>("Flatten"),
         module_of<Unflatten, Int, Shape>("Unflatten")},
        60);
}

TEST(Misuse, OfEveryLossEndsInSuccessOrOneLine) {
  sweep({module_of<MSELoss, Reduction>("MSELoss"), module_of<L1Loss>("L1Loss"),
         module_of<SmoothL1Loss, Reduction, double>("SmoothL1Loss"), module_of<NLLLoss>("NLLLoss"),
         module_of<CrossEntropyLoss>("CrossEntropyLoss"), module_of<BCELoss>("BCELoss"),
         module_of<BCEWithLogitsLoss>("BCEWithLogitsLoss"),
         module_of<HuberLoss, Reduction, double>("HuberLoss"), module_of<SoftMarginLoss>("SoftMarginLoss"),
         module_of<KLDivLoss>("KLDivLoss"), module_of<HingeEmbeddingLoss, double>("HingeEmbeddingLoss"),
         module_of<MultiLabelMarginLoss>("MultiLabelMarginLoss"),
         module_of<PoissonNLLLoss, PoissonNllLossAttrs>("PoissonNLLLoss"),
         module_of<MultiMarginLoss>("MultiMarginLoss"),
         module_of<CosineEmbeddingLoss, double>("CosineEmbeddingLoss"),
         module_of<MarginRankingLoss, double>("MarginRankingLoss"),
         module_of<TripletMarginLoss, TripletMarginLossAttrs>("TripletMarginLoss")},
        60);
}

TEST(Misuse, OfModulesWithoutChildrenOrParameters) {
  const Tensor x = ones({2, 3});
  expect_sound("Sequential()", [&] { static_cast<void>(Sequential()(x)); });
  expect_sound("Sequential(nullptr)", [] { Sequential(std::shared_ptr<Linear>()); });
  expect_sound("Sequential[7]", [] { static_cast<void>(Sequential(nn::make<ReLU>())[7]); });
  expect_sound("Residual(nullptr)", [&] { static_cast<void>(Residual(nullptr)(x)); });
  expect_sound("ModuleDict[]", [] { static_cast<void>(ModuleDict().at("none")); });
  expect_sound("ModuleList[]", [] { static_cast<void>(ModuleList()[0]); });
  expect_sound("TransformerEncoder(nullptr)", [] { TransformerEncoder(nullptr, 2); });
  expect_sound("a slot without a child", [&] {
    struct Empty final : Layer {
      Tensor forward(const Tensor& input) override { return fc(input); }
      Child<Linear> fc{*this, "fc", nullptr};
    } empty;
    static_cast<void>(empty(x));
  });
  Linear fc(3, 2);
  expect_sound("load_state_dict of nothing", [&] { static_cast<void>(fc.load_state_dict({})); });
  expect_sound("to a device that is not there", [&] { fc.to(Device::cuda(99)); });
  expect_sound("to an integer dtype", [&] { fc.to(DType::i64); });
  EXPECT_EQ(fc(x).shape(), (Shape{2, 2})) << "what was refused changed nothing";
  expect_sound("summary of a shape of zeros", [&] { static_cast<void>(nn::summary(fc, Shape{0, 0})); });
  expect_sound("summary of a huge shape", [&] {
    static_cast<void>(nn::summary(fc, Shape{std::int64_t{1} << 62, std::int64_t{1} << 62}));
  });
}

TEST(Misuse, OfNormsInLowPrecision) {
  const auto forward = [](const char* name, auto make) {
    return Function{name, [make](Draw& draw) {
                      const auto layer = make();
                      const amp::Autocast region(Device::cpu(), draw.once_in(2) ? DType::f16 : DType::bf16);
                      if (draw.once_in(2)) use_members(*layer, draw);
                      run_forward(*layer, draw);
                    }};
  };
  sweep({forward("LPLayerNorm", [] { return nn::make<amp::LPLayerNorm>(LayerNorm(3)); }),
         forward("LPGroupNorm", [] { return nn::make<amp::LPGroupNorm>(GroupNorm(1, 2)); }),
         forward("FusedLayerNorm", [] { return nn::make<amp::FusedLayerNorm>(LayerNorm(3)); })},
        60);
}

TEST(Misuse, SurgeryOnNothing) {
  Linear fc(3, 2);
  for (const auto apply :
       {amp::apply_low_precision_layernorm, amp::apply_low_precision_groupnorm, amp::apply_fused_layernorm}) {
    expect_sound("surgery on a leaf", [&] { static_cast<void>(apply(fc, {}, {}, {})); });
    expect_sound("surgery with a null optimizer", [&] { static_cast<void>(apply(fc, {}, {nullptr}, {})); });
    expect_sound("surgery in an unknown mode", [&] { static_cast<void>(apply(fc, "nothing", {}, {})); });
  }
}

template <class L>
void misuse_adapters(const L& layer) {
  for (const LoraOptions& options :
       {LoraOptions{}, LoraOptions{.rank = -1}, LoraOptions{.rank = 2, .alpha = NAN},
        LoraOptions{.dropout = 7}, LoraOptions{.rank = 1, .dtype = DType::u8},
        LoraOptions{.rank = 1, .dtype = DType::f8_e4m3}}) {
    expect_sound("adapters of a layer", [&] {
      Lora<L> lora(layer, options);
      static_cast<void>(lora.lora_options());
      static_cast<void>(lora.scaling());
      lora.merge();
      static_cast<void>(lora.is_merged());
      expect_sound("a second merge", [&] { lora.require_mergeable(); });
      expect_sound("a merged layer", [&] { static_cast<void>(lora.forward(Tensor())); });
      static_cast<void>(lora.plain());
      lora.unmerge();
      expect_sound("an unmerged layer", [&] { lora.unmerge(); });
      static_cast<void>(lora.module().named_parameters());
      static_cast<void>(lora.forward(zeros({1})));
    });
    expect_sound("sums of adapters", [&] { static_cast<void>(Lora<L>(layer, options).delta_weight()); });
  }
}

TEST(Misuse, OfAdapters) {
  misuse_adapters(Linear(3, 2));
  misuse_adapters(Embedding(3, 2));
  misuse_adapters(Conv2d(2, 4, 3, {.groups = 2}));
  Linear leaf(3, 2);
  Sequential net(Linear(3, 2), ReLU());
  for (const std::vector<std::string>& targets : std::vector<std::vector<std::string>>{
           {}, {""}, {"nothing"}, {"(("}, {"0", "0"}, {"1"}, {"0"}, {".*"}}) {
    expect_sound("adapters of a leaf", [&] { apply_lora(leaf, {.targets = targets}); });
    expect_sound("adapters of a model", [&] { apply_lora(net, {.rank = 1, .targets = targets}); });
  }
  for (Module* const module : {static_cast<Module*>(&leaf), static_cast<Module*>(&net)}) {
    static_cast<void>(has_lora(*module));
    expect_sound("lora_state_dict", [&] { static_cast<void>(lora_state_dict(*module)); });
    expect_sound("load_lora", [&] { load_lora(*module, {{"", Tensor()}, {"0.lora_A.weight", zeros({})}}); });
    expect_sound("unmerge_lora", [&] { unmerge_lora(*module); });
    expect_sound("merge_lora", [&] { merge_lora(*module); });
    expect_sound("merge_lora again", [&] { merge_lora(*module); });
    expect_sound("remove_lora", [&] { remove_lora(*module); });
  }
}

}  // namespace
}  // namespace mezzo::misuse
