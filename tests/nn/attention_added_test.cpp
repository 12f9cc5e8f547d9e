// MultiheadAttention's add_bias_kv and add_zero_attn: values and gradients against PyTorch, with every kind
// of mask, and with and without weights.
#include "mezzo/amp/autocast.h"
#include "mezzo/nn/attention.h"
#include "mezzo/nn/init.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

Tensor bools(const Shape& shape, const std::vector<int>& values) {
  return mezzo::tensor(std::vector<std::int64_t>(values.begin(), values.end()), shape).to(DType::boolean);
}
/// True at every seventh place.
Tensor some(const Shape& shape) {
  const std::int64_t count = shape[0] * shape[1] * shape[2];
  return reshape(eq(remainder(arange(count), 7), 0), shape);
}

// The numbers are digests(m, inputs, outputs) of tests/nn/digests.h, with m, inputs and outputs as in the
// comments.

TEST(AttentionWithAddedKeys, IsTorchs) {
  // m = model(nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True)); y, w = m(q, k, k)
  MultiheadAttention both(4, 2, {.add_bias_kv = true, .add_zero_attn = true, .dtype = DType::f64});
  fill(both);
  const Tensor q = made({3, 2, 4}, 1), k = made({5, 2, 4}, 2);
  const AttentionOutput found = both(q, k, k, {.need_weights = true});
  EXPECT_EQ(found.weights.shape(), Shape({2, 3, 7}));
  expect_digests(both, {q, k}, {found.output, found.weights},
                 {-0.16048516760565107, -0.111999532368184, -0.1063267888563416, 0.14610590900819012,
                  0.11464695135806655, -0.13124080020587398, -0.027431151388924022, -0.13816082056125775,
                  0.3745146589393892, 2.019777635364756});
}

TEST(AttentionWithAddedKeys, IsTorchsWithMasks) {
  // m = model(nn.MultiheadAttention(4, 2, add_bias_kv=True, kdim=3, vdim=5, batch_first=True, bias=False))
  // y, w = m(q, k, v, key_padding_mask=padding, attn_mask=each, average_attn_weights=False), where
  // each = torch.zeros(4, 3, 5).bool(); each.view(-1)[::7] = True
  MultiheadAttention learned(
      4, 2,
      {.bias = false, .add_bias_kv = true, .kdim = 3, .vdim = 5, .batch_first = true, .dtype = DType::f64});
  fill(learned);
  const Tensor q = made({2, 3, 4}, 1), k = made({2, 5, 3}, 2), v = made({2, 5, 5}, 3);
  const AttentionOutput found = learned(q, k, v,
                                        {.key_padding_mask = bools({2, 5}, {0, 1, 0, 0, 0, 0, 0, 0, 0, 1}),
                                         .need_weights = true,
                                         .attn_mask = some({4, 3, 5}),
                                         .average_attn_weights = false});
  EXPECT_EQ(found.weights.shape(), Shape({2, 2, 3, 6}));
  expect_digests(learned, {q, k, v}, {found.output, found.weights},
                 {-0.3360181881035279, -0.4131411831651955, 0.11912786694229639, -0.008644877285416276,
                  0.16956131372663236, 0.5459820941011494, -0.6207167361369829, 0.053216668363830766,
                  0.07852613991657201, -0.29557710282324906, 0.26198735892102987});
}

TEST(AttentionWithAddedKeys, IsTorchsWithOneOfZerosForASample) {
  // m = model(nn.MultiheadAttention(4, 2, add_zero_attn=True)); y, _ = m(x, x, x, attn_mask=causal,
  //   need_weights=False)
  MultiheadAttention zero(4, 2, {.add_zero_attn = true, .dtype = DType::f64});
  fill(zero);
  for (const bool by_mask : {false, true}) {
    const Tensor x = made({3, 4}, 1);
    const Tensor causal = triu(ones({3, 3}), 1).to(DType::boolean);
    const AttentionMasks masks{.attn_mask = by_mask ? causal : Tensor(), .is_causal = !by_mask};
    expect_digests(zero, {x}, {zero(x, x, x, masks).output},
                   {0.40752968206482393, -0.5747352336929398, -0.13679047173261935, 0.4655104378694046,
                    0.11515884880127045, 1.6472926008285715});
  }
  // The same with attn_mask=fill(torch.empty(3, 3), 4)
  const Tensor x = made({3, 4}, 1);
  expect_digests(zero, {x}, {zero(x, x, x, {.attn_mask = fill(empty({3, 3}, kF64), 4)}).output},
                 {0.3627662089219158, -0.23788110064680912, -0.16671828518770446, 0.563563711420667,
                  0.10321391463704518, 1.6472926008285715});
}

TEST(AttentionWithAddedKeys, IsTheSameWithAndWithoutWeights) {
  const Tensor q = made({3, 2, 4}, 1), k = made({5, 2, 4}, 2);
  const std::vector<AttentionMasks> cases{
      {},
      {.is_causal = true},
      {.key_padding_mask = ones({2, 5}).to(DType::boolean)},  // only those that were added are left
      {.key_padding_mask = fill(empty({2, 5}, kF64), 6), .attn_mask = some({4, 3, 5}), .is_causal = true},
  };
  for (AttentionMasks masks : cases) {
    const auto run = [&](bool need_weights) {
      MultiheadAttention layer(4, 2, {.add_bias_kv = true, .add_zero_attn = true, .dtype = DType::f64});
      fill(layer);
      masks.need_weights = need_weights;
      const Tensor total = digest(layer(q, k, k, masks).output);
      std::vector<double> all{total.item()};
      for (const Tensor& g : grad(total, {q, layer.bias_k, layer.bias_v})) all.push_back(digest(g).item());
      return all;
    };
    const std::vector<double> fast = run(false), plain = run(true);
    for (std::size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], plain[i], 1e-13);
  }
}

TEST(AttentionWithAddedKeys, BeginsAsTorchs) {
  Generator generator(3), oracle(3);
  const MultiheadAttention layer(6, 2, {.add_bias_kv = true, .generator = &generator});
  EXPECT_EQ(names(layer.state_dict()), (Names{"in_proj_weight", "in_proj_bias", "bias_k", "bias_v",
                                              "out_proj.weight", "out_proj.bias"}));
  static_cast<void>(Linear(6, 6, {.generator = &oracle}));
  init::xavier_uniform_(empty({18, 6}), 1, oracle);
  EXPECT_EQ(values(layer.bias_k), values(init::xavier_normal_(empty({1, 1, 6}), 1, oracle)));
  EXPECT_EQ(values(layer.bias_v), values(init::xavier_normal_(empty({1, 1, 6}), 1, oracle)));
}

TEST(AttentionWithAddedKeys, RunsUnderAutocast) {
  MultiheadAttention layer(4, 2, {.add_bias_kv = true, .add_zero_attn = true});
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
}

TEST(AttentionWithAddedKeys, MasksAreAboutTheKeysThatArePassed) {
  MultiheadAttention layer(4, 2, {.add_zero_attn = true});
  const Tensor x = zeros({3, 2, 4});
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)layer(x, x, x, {.attn_mask = zeros({3, 4})});
                       }),
                       "an attn_mask [3, 3]"));
}

}  // namespace
}  // namespace mezzo::nn
