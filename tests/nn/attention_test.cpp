// MultiheadAttention and the transformer's encoder: values and gradients against PyTorch, masks, dropout,
// names, dtypes, and what is refused.
#include "mezzo/nn/attention.h"

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/transformer.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

constexpr MultiheadAttentionOptions kInF64{.dtype = DType::f64};

Tensor bools(const Shape& shape, const std::vector<int>& values) {
  return mezzo::tensor(std::vector<std::int64_t>(values.begin(), values.end()), shape).to(DType::boolean);
}
/// True above the diagonal.
Tensor later(std::int64_t size) { return triu(ones({size, size}), 1).to(DType::boolean); }

// The numbers are digests(m, inputs, outputs) of tests/nn/digests.h, with m, inputs and outputs as in the
// comments.

TEST(MultiheadAttention, IsTorchs) {
  // m = model(nn.MultiheadAttention(4, 2)); y, w = m(x, x, x)
  MultiheadAttention self(4, 2, kInF64);
  fill(self);
  const Tensor x = made({3, 2, 4}, 1);
  const AttentionOutput found = self(x, x, x, {.need_weights = true});
  EXPECT_EQ(found.weights.shape(), Shape({2, 3, 3}));
  expect_digests(self, {x}, {found.output, found.weights},
                 {1.1885527363402715, -0.034829203717679585, -1.9113045481738629, 0.1147899596820145,
                  1.5820374901069076, 0.47451734583262684, 2.019777635364756});
  // m = model(nn.MultiheadAttention(4, 2, bias=False, kdim=3, vdim=5, batch_first=True))
  // y, w = m(q, k, v, key_padding_mask=torch.zeros(2, 4).masked_fill(padding, -torch.inf),
  //          attn_mask=fill(torch.empty(3, 4), 4), average_attn_weights=False)
  MultiheadAttention cross(4, 2,
                           {.bias = false, .kdim = 3, .vdim = 5, .batch_first = true, .dtype = DType::f64});
  fill(cross);
  const Tensor q = made({2, 3, 4}, 1), k = made({2, 4, 3}, 2), v = made({2, 4, 5}, 3);
  const AttentionOutput both = cross(q, k, v,
                                     {.key_padding_mask = bools({2, 4}, {0, 1, 0, 0, 0, 0, 0, 1}),
                                      .need_weights = true,
                                      .attn_mask = fill(empty({3, 4}, kF64), 4),
                                      .average_attn_weights = false});
  EXPECT_EQ(both.weights.shape(), Shape({2, 2, 3, 4}));
  expect_digests(cross, {q, k, v}, {both.output, both.weights},
                 {-0.06838163719604323, -0.5882683194167166, -0.3407429996487291, 0.004594857970798942,
                  0.09983322125695786, 0.06328136413087082, -0.1270243821417, 0.10951628512199103,
                  0.026098196600549378});
}

TEST(MultiheadAttention, IsTorchsWithMasks) {
  // m = model(nn.MultiheadAttention(4, 2)); y, w = m(x, x, x, attn_mask=causal, is_causal=True)
  for (const bool by_mask : {false, true}) {
    MultiheadAttention layer(4, 2, kInF64);
    fill(layer);
    const Tensor x = made({3, 2, 4}, 1);
    const AttentionMasks masks{.attn_mask = by_mask ? later(3) : Tensor(), .is_causal = !by_mask};
    const AttentionOutput found = layer(x, x, x, masks);
    EXPECT_FALSE(found.weights.defined());
    expect_digests(layer, {x}, {found.output},
                   {1.3737841029391187, -2.2297519799800276, 0.4122973589977654, 1.4385923546850186,
                    0.6419928179762924, 2.019777635364756});
  }
  // y, w = m(q, k, k, attn_mask=mask), of one sample
  MultiheadAttention layer(4, 2, kInF64);
  fill(layer);
  const Tensor q = made({3, 4}, 1), k = made({2, 4}, 2);
  const Tensor mask = bools({2, 3, 2}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0});
  const AttentionOutput found = layer(q, k, k, {.need_weights = true, .attn_mask = mask});
  EXPECT_EQ(found.output.shape(), Shape({3, 4}));
  EXPECT_EQ(found.weights.shape(), Shape({3, 2}));
  expect_digests(layer, {q, k}, {found.output, found.weights},
                 {0.21170570952793605, -0.17422180845756538, 0.05880440680992288, 0.10468109636315091,
                  -0.9196740800666066, 0.8489026619955932, -0.15275134332573292, 1.6472926008285715});
}

TEST(MultiheadAttention, IsTheSameWithAndWithoutWeights) {
  const Tensor q = made({3, 2, 4}, 1), k = made({5, 2, 4}, 2), v = made({5, 2, 4}, 3);
  const Tensor padding = bools({2, 5}, {0, 1, 0, 1, 0, 1, 0, 0, 0, 0}),
               each = bools({4, 3, 5}, [] {
                 std::vector<int> all(60, 0);
                 for (std::size_t i = 0; i < 60; i += 7) all[i] = 1;
                 return all;
               }());
  const Tensor added = fill(empty({3, 5}, kF64), 5);
  const std::vector<AttentionMasks> cases{
      {},
      {.is_causal = true},
      {.key_padding_mask = padding},
      {.key_padding_mask = padding, .is_causal = true},
      {.key_padding_mask = padding, .attn_mask = each},
      {.key_padding_mask = padding, .attn_mask = added, .is_causal = true},
      {.key_padding_mask = fill(empty({2, 5}, kF64), 6), .attn_mask = each},
      {.key_padding_mask = fill(empty({2, 5}, kF64), 6), .attn_mask = added},
  };
  std::vector<double> outputs;
  for (AttentionMasks masks : cases) {
    const auto run = [&](bool need_weights) {
      MultiheadAttention layer(4, 2, kInF64);
      fill(layer);
      masks.need_weights = need_weights;
      const Tensor total = digest(layer(q, k, v, masks).output);
      std::vector<double> all{total.item()};
      for (const Tensor& g : grad(total, {q, k, v, layer.in_proj_weight})) all.push_back(digest(g).item());
      return all;
    };
    const std::vector<double> fast = run(false), plain = run(true);
    for (std::size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], plain[i], 1e-13);
    outputs.push_back(plain[0]);
  }
  std::sort(outputs.begin(), outputs.end());
  for (std::size_t i = 1; i < outputs.size(); ++i)
    EXPECT_NE(outputs[i - 1], outputs[i]);  // masks do something
}

TEST(MultiheadAttention, GivesZeroWhereNoKeyTakesPart) {
  MultiheadAttention layer(4, 2, {.bias = false, .batch_first = true});
  const Tensor x = counting({2, 2, 4});
  x.requires_grad_();
  for (const bool need_weights : {false, true}) {
    const Tensor nothing = bools({2, 2}, {1, 1, 0, 0});
    const AttentionOutput found = layer(x, x, x, {.key_padding_mask = nothing, .need_weights = need_weights});
    EXPECT_EQ(values(select(found.output, 0, 0)), std::vector<float>(8, 0.0F));
    const Tensor gradient = grad(sum(found.output), {x})[0];
    EXPECT_EQ(values(select(gradient, 0, 0)), std::vector<float>(8, 0.0F));
    EXPECT_NE(values(select(gradient, 0, 1)), std::vector<float>(8, 0.0F));
  }
}

TEST(MultiheadAttention, DropsOutInTraining) {
  Generator own(5), same(5);
  MultiheadAttention layer(4, 2, {.dropout = 0.5, .dropout_generator = &own});
  const Tensor x = counting({4, 2, 4}, -12) * 0.1;
  const Tensor trained = layer(x, x, x, {.need_weights = true, .average_attn_weights = false}).weights;
  layer.eval();
  const Tensor weights = layer(x, x, x, {.need_weights = true, .average_attn_weights = false}).weights;
  EXPECT_EQ(values(trained), values(dropout(weights, 0.5, true, same)));
  const std::vector<float> expected = values(layer(x, x, x).output);
  EXPECT_EQ(expected, values(layer(x, x, x).output));
  layer.train();
  EXPECT_NE(expected, values(layer(x, x, x).output));
}

TEST(MultiheadAttention, BeginsAsTorchs) {
  Generator generator(3), oracle(3);
  const MultiheadAttention packed(6, 2, {.generator = &generator});
  EXPECT_EQ(names(packed.state_dict()),
            (Names{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(values(packed.out_proj->weight), values(Linear(6, 6, {.generator = &oracle}).weight));
  EXPECT_EQ(values(packed.in_proj_weight), values(init::xavier_uniform_(empty({18, 6}), 1, oracle)));
  EXPECT_EQ(values(packed.in_proj_bias), std::vector<float>(18, 0.0F));
  EXPECT_EQ(values(packed.out_proj->bias), std::vector<float>(6, 0.0F));
  MultiheadAttention apart(6, 2, {.kdim = 4, .vdim = 3});
  EXPECT_EQ(names(apart.state_dict()), (Names{"q_proj_weight", "k_proj_weight", "v_proj_weight",
                                              "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(apart.k_proj_weight->shape(), Shape({6, 4}));
  EXPECT_EQ(apart.v_proj_weight->shape(), Shape({6, 3}));
  const std::vector<float> before = values(apart.out_proj->weight);
  apart.reset_parameters();
  EXPECT_NE(values(apart.out_proj->weight), before);
  EXPECT_EQ(names(MultiheadAttention(6, 2, {.bias = false}).state_dict()),
            (Names{"in_proj_weight", "out_proj.weight"}));
  EXPECT_EQ(to_string(packed),
            "MultiheadAttention(\n  (out_proj): Linear(in_features=6, out_features=6, bias=true)\n)");
}

TEST(MultiheadAttention, RunsIn16Bits) {
  MultiheadAttention layer(4, 2);
  const Tensor x = counting({3, 2, 4}, -12) * 0.1;
  for (const bool need_weights : {false, true}) {
    Tensor y;
    {
      const amp::Autocast region(Device::cpu(), DType::bf16);
      y = layer(x, x, x, {.need_weights = need_weights, .attn_mask = zeros({3, 3})}).output;
    }
    EXPECT_EQ(y.dtype(), DType::bf16);
    layer.zero_grad();
    sum(y.to(DType::f32)).backward();
    for (const Tensor& parameter : layer.parameters()) EXPECT_EQ(parameter.grad().dtype(), DType::f32);
  }
  layer.to(DType::f16);
  const Tensor half = x.to(DType::f16);
  for (const bool need_weights : {false, true}) {
    const AttentionMasks masks{.need_weights = need_weights, .attn_mask = zeros({3, 3})};
    EXPECT_EQ(layer(half, half, half, masks).output.dtype(), DType::f16);
  }
}

TEST(MultiheadAttention, RefusesBadSizes) {
  EXPECT_TRUE(contains(message_of<ValueError>([] { MultiheadAttention(5, 2); }),
                       "an embed_dim that num_heads divides, got 5 and 2"));
  EXPECT_THROW(MultiheadAttention(0, 1), ValueError);
  EXPECT_THROW(MultiheadAttention(4, 0), ValueError);
  EXPECT_THROW(MultiheadAttention(4, 2, {.kdim = 0}), ValueError);
  EXPECT_THROW(MultiheadAttention(4, 2, {.dropout = -1}), ValueError);
  EXPECT_THROW(MultiheadAttention(std::int64_t{1} << 40, 2), ShapeError);
}

TEST(MultiheadAttention, RefusesInputsThatDoNotFit) {
  MultiheadAttention layer(4, 2, {.kdim = 3});
  const Tensor q = zeros({5, 2, 4}), k = zeros({6, 2, 3}), v = zeros({6, 2, 4});
  EXPECT_EQ(layer(q, k, v).output.shape(), q.shape());
  const auto message = [&](const Tensor& a, const Tensor& b, const Tensor& c,
                           const AttentionMasks& masks = {}) {
    return message_of<ShapeError>([&] { (void)layer(a, b, c, masks); });
  };
  EXPECT_TRUE(contains(message(k, k, v), "MultiheadAttention: expected a query of 2 dims (one sample) or 3"));
  EXPECT_TRUE(contains(message(q, v, v), "of which the last is 3, got [6, 2, 4]"));
  EXPECT_TRUE(contains(message(q, select(k, 1, 0), v), "a key of 2 dims"));
  EXPECT_TRUE(contains(message(q, k, zeros({5, 2, 4})), "as many keys as values"));
  EXPECT_TRUE(contains(message(zeros({5, 1, 4}), k, v), "of one batch"));
  EXPECT_TRUE(contains(message(q, k, v, {.attn_mask = zeros({6, 5})}), "an attn_mask [5, 6] or [4, 5, 6]"));
  EXPECT_TRUE(contains(message(q, k, v, {.key_padding_mask = zeros({6})}), "a key_padding_mask [2, 6]"));
  EXPECT_THROW((void)layer(q, k, v, {.attn_mask = zeros({5, 6}).to(DType::i64)}), DTypeError);
  EXPECT_THROW((void)layer(q, Tensor(), v), ValueError);
  EXPECT_THROW((void)layer(q.to(DType::i64), k, v), DTypeError);
}

// --- the transformer

TEST(TransformerEncoderLayer, IsTorchs) {
  const auto expect = [](TransformerEncoderLayerOptions options, const std::vector<double>& wanted) {
    options.dim_feedforward = 7, options.dropout = 0.25, options.dtype = DType::f64;
    TransformerEncoderLayer layer(4, 2, options);
    fill(layer);
    layer.eval();
    const Tensor x = made({3, 2, 4}, 1);
    expect_digests(layer, {x}, {layer(x)}, wanted);
  };
  // m = model(nn.TransformerEncoderLayer(4, 2, 7, dropout=0.25)).eval(); y = m(x)
  expect({}, {-2.0740869930520778, -1.2596159533172344, 0.06993932177467435, -0.21667673093550285,
              0.23929806047422042, -0.6685825163370642, -0.09445909665471948, 0.3599383274582473,
              -0.008672726081190857, 0.15523659923337474, -0.5951229879526864, -0.13561454596949013,
              -0.17604408006004524, 2.0197776353647554});
  // The same with norm_first=True, activation=torch.nn.functional.gelu, batch_first=True.
  expect(
      {.activation = [](const Tensor& x) { return gelu(x); }, .batch_first = true, .norm_first = true},
      {1.2904319902933141, 11.37123309270954, 0.013803565898155484, 1.2960031360949689, 0.16794717640242887,
       2.0722641487442317, 0.09937484126269724, -0.18662917675260468, -0.35052604403310406, 2.019777635364756,
       -0.10183133761685734, -0.47706522194431317, 0.0997647228021708, -0.0011012116769502783});
  // The same with bias=False, layer_norm_eps=0.5.
  expect({.layer_norm_eps = 0.5, .bias = false},
         {-0.01345276641717642, 1.9849613683265233, -0.05422602857161943, 0.13931463217151147,
          -0.009064876516085226, -0.000578646080709011, 0.08175266689249708, 0.12753672705350327});
}

TEST(TransformerEncoder, IsTorchs) {
  // m = model(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 7), 2, nn.LayerNorm(4))).eval()
  // y = m(x, mask=causal, src_key_padding_mask=padding, is_causal=True)
  const auto layer = make<TransformerEncoderLayer>(
      4, 2, TransformerEncoderLayerOptions{.dim_feedforward = 7, .dtype = DType::f64});
  TransformerEncoder encoder(layer, 2, make<LayerNorm>(4, LayerNormOptions{.dtype = DType::f64}));
  fill(encoder);
  encoder.eval();
  const Tensor x = made({3, 2, 4}, 1);
  const TransformerMasks masks{.src_key_padding_mask = bools({2, 3}, {0, 0, 1, 0, 0, 0}), .is_causal = true};
  expect_digests(encoder, {x}, {encoder(x, masks)},
                 {-0.6972067969289724,   0.8743491129387047,    0.19122976454816132, -0.027133915026179636,
                  -0.3007373833125438,   0.0047895274944436406, 0.16473472960809182, -0.01229665815163112,
                  -0.000823233263780903, 0.08467176707013499,   0.6861640543093973,  0.4064699767228143,
                  -1.1343014567388274,   0.1260391990383546,    -0.8710905539124054, 1.3233244293076607,
                  3.4451025282982464,    0.40074620995141963,   0.06774460751583519, -0.03676328722312257,
                  -0.002931600800660128, 0.49667194777349954,   0.24658677943526155, 0.5246846143396315,
                  -0.43294809970416354,  -0.43005594333729513,  0.5955193805550706,  2.0197776353647554});
}

TEST(TransformerEncoder, HasTorchsNamesAndCopiesItsLayer) {
  const auto layer =
      make<TransformerEncoderLayer>(4, 2, TransformerEncoderLayerOptions{.dim_feedforward = 3});
  TransformerEncoder encoder(layer, 2, make<RMSNorm>(4));
  Names expected;
  for (const char* number : {"0", "1"}) {
    for (const char* part :
         {"self_attn.in_proj_", "self_attn.out_proj.", "linear1.", "linear2.", "norm1.", "norm2."}) {
      for (const char* what : {"weight", "bias"})
        expected.push_back(std::string("layers.") + number + "." + part + what);
    }
  }
  expected.emplace_back("norm.weight");
  EXPECT_EQ(names(encoder.state_dict()), expected);
  EXPECT_EQ(encoder.parameters().size(), expected.size());  // nothing is shared
  EXPECT_EQ(values((*encoder.layers)[1]->linear1->weight), values(layer->linear1->weight));
  EXPECT_TRUE(
      contains(to_string(encoder), "(0): TransformerEncoderLayer(\n      (self_attn): MultiheadAttention("));
  // What surgery puts into a norm's slot is what is called.
  encoder.eval();
  const Tensor x = counting({2, 1, 4});
  const std::vector<float> before = values(encoder(x));
  struct Doubled final : LayerNorm {
    Doubled() : LayerNorm(4) {}
    Tensor forward(const Tensor& input) override { return LayerNorm::forward(input) * 2; }
  };
  (*encoder.layers)[1]->norm1.replace(make<Doubled>());
  EXPECT_NE(values(encoder(x)), before);
}

TEST(TransformerEncoderLayer, DropsOutInTraining) {
  Generator own(5);
  TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 3, .dropout = 1, .dropout_generator = &own});
  const Tensor x = counting({3, 2, 4});
  // Nothing is left of both branches.
  EXPECT_EQ(values(layer(x)), values(layer.norm2(layer.norm1(x))));
  layer.eval();
  EXPECT_NE(values(layer(x)), values(layer.norm2(layer.norm1(x))));
}

TEST(TransformerEncoderLayer, RunsUnderAutocastAndClones) {
  TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 3, .dropout = 0, .norm_first = true});
  const Tensor x = counting({3, 2, 4}) * 0.1;
  EXPECT_EQ(values(clone(layer)->forward(x)), values(layer(x)));
  Tensor y;
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    y = layer(x);
  }
  EXPECT_EQ(y.dtype(), DType::f32);  // the sum with x, which is f32
  sum(y).backward();
  for (const Tensor& parameter : layer.parameters()) EXPECT_EQ(parameter.grad().dtype(), DType::f32);
}

TEST(TransformerEncoder, IsTheSameOnADevice) {
  const Device device = Device::best();
  if (device.is_cpu()) GTEST_SKIP() << "no device";
  const auto layer = make<TransformerEncoderLayer>(
      4, 2, TransformerEncoderLayerOptions{.dim_feedforward = 7, .dropout = 0, .dtype = DType::f64});
  TransformerEncoder encoder(layer, 2);
  fill(encoder);
  const Tensor x = made({3, 2, 4}, 1), padding = bools({2, 3}, {0, 0, 1, 0, 0, 0});
  const std::vector<double> wanted =
      encoder(x, {.src_key_padding_mask = padding, .is_causal = true}).to_vector<double>();
  encoder.to(device);
  const std::vector<double> got =
      encoder(x.to(device), {.src_key_padding_mask = padding.to(device), .is_causal = true})
          .to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-13);
}

TEST(TransformerEncoder, RefusesWhatDoesNotFit) {
  EXPECT_THROW(TransformerEncoder(nullptr, 2), ValueError);
  const auto layer =
      make<TransformerEncoderLayer>(4, 2, TransformerEncoderLayerOptions{.dim_feedforward = 3});
  EXPECT_THROW(TransformerEncoder(layer, 0), ValueError);
  EXPECT_THROW(TransformerEncoderLayer(4, 3), ValueError);
  EXPECT_THROW(TransformerEncoderLayer(4, 2, {.dim_feedforward = 0}), ValueError);
  EXPECT_THROW(TransformerEncoderLayer(4, 2, {.dropout = 2}), ValueError);
  EXPECT_THROW(TransformerEncoderLayer(4, 2, {.activation = nullptr}), ValueError);
  TransformerEncoder encoder(layer, 2);
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)encoder(zeros({3, 2, 5}));
                       }),
                       "MultiheadAttention 'layers.0.self_attn': expected a query"));
}

}  // namespace
}  // namespace mezzo::nn
