// RotaryEmbedding and ALiBi: values and gradients against PyTorch, positions and offsets, dtypes, and what is
// refused.
#include "mezzo/nn/positions.h"

#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/attention.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Doubles = std::vector<double>;

// The numbers are digests(nn.Identity(), [x], [y]) of tests/nn/digests.h, with
//   def angles(pos, dim, base=10000.): return pos[..., None] * base ** (-torch.arange(0, dim, 2) / dim)
//   def paper(x, pos, dim):
//     z = torch.view_as_complex(x[..., :dim].unflatten(-1, (dim // 2, 2)).contiguous()); a = angles(pos, dim)
//     y = torch.view_as_real(z * torch.polar(torch.ones_like(a), a)).flatten(-2)
//     return torch.cat([y, x[..., dim:]], -1)
//   def half(x): return torch.cat([-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]], -1)
//   def llama(x, pos, dim, base=10000.):
//     a = torch.cat([angles(pos, dim, base)] * 2, -1); r = x[..., :dim]
//     return torch.cat([r * a.cos() + half(r) * a.sin(), x[..., dim:]], -1)

TEST(RotaryEmbedding, IsThePapers) {
  // y = paper(x, torch.arange(5.), 4); x = made((2, 3, 5, 4), 1)
  RotaryEmbedding rotary(4, {.interleaved = true});
  const Tensor x = made({2, 3, 5, 4}, 1);
  expect_digests(rotary, {x}, {rotary(x)}, {7.552349421845169, 29.701741348169406});
  // y = paper(x, torch.arange(5.), 6); x = made((2, 3, 5, 7), 1)
  RotaryEmbedding partial(6, {.interleaved = true});
  const Tensor wide = made({2, 3, 5, 7}, 1);
  expect_digests(partial, {wide}, {partial(wide)}, {1.438142007052361, 68.91621474134843});
}

TEST(RotaryEmbedding, IsLlamas) {
  // y = llama(x, torch.arange(5.) + 3, 4, 500.); x = made((2, 3, 5, 4), 1)
  RotaryEmbedding rotary(4, {.base = 500});
  const Tensor x = made({2, 3, 5, 4}, 1);
  expect_digests(rotary, {x}, {rotary(x, 3)}, {-2.978965527115349, 32.108457582144155});
  // y = llama(x, torch.arange(5.), 4); x = made((2, 3, 5, 7), 1)
  RotaryEmbedding partial(4);
  const Tensor wide = made({2, 3, 5, 7}, 1);
  expect_digests(partial, {wide}, {partial(wide)}, {1.6170357875524206, 67.259850245});
  // y = llama(x, torch.tensor([[[0., 1.]], [[7., 8.]]]), 4); x = made((2, 3, 2, 4), 1)
  const Tensor pairs = made({2, 3, 2, 4}, 1);
  const Tensor positions = mezzo::tensor({0, 1, 7, 8}, {2, 1, 2});
  expect_digests(partial, {pairs}, {partial(pairs, positions)}, {0.12389289685656513, 18.34424213207281});
}

TEST(RotaryEmbedding, DependsOnDistancesOnly) {
  RotaryEmbedding rotary(8);
  const Tensor q = made({1, 8}, 1), k = made({1, 8}, 2);
  const auto score = [&](std::int64_t a, std::int64_t b) { return sum(rotary(q, a) * rotary(k, b)).item(); };
  EXPECT_NEAR(score(3, 1), score(1002, 1000), 1e-12);
  EXPECT_GT(std::abs(score(3, 1) - score(4, 1)), 1e-3);
}

TEST(RotaryEmbedding, SharesTablesAndIsThatOfEachStep) {
  RotaryEmbedding rotary(4);
  const Tensor x = made({3, 6, 4}, 1).detach();
  const auto [cosines, sines] = rotary.tables(arange(6), DType::f64);
  EXPECT_EQ(cosines.shape(), Shape({6, 2}));
  EXPECT_EQ(apply_rotary(x, cosines, sines).to_vector<double>(), rotary(x).to_vector<double>());
  for (std::int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(rotary(narrow(x, 1, step, 1), step).to_vector<double>(),
              narrow(rotary(x), 1, step, 1).to_vector<double>());
  }
  // Far positions are exact to f32, where f32 angles would be off by a hundredth.
  const double far = 123456;
  const Tensor sine = rotary.tables(full({1}, far, {.dtype = DType::f64})).sin;
  EXPECT_NEAR(sine.to_vector<float>()[0], std::sin(far), 1e-7);
}

TEST(RotaryEmbedding, KeepsItsAnglesIn16Bits) {
  RotaryEmbedding rotary(4);
  const Tensor x = counting({300, 4}) * 0.001;
  const Tensor wanted = rotary(x.to(DType::bf16).to(DType::f32)).to(DType::bf16);
  rotary.to(DType::bf16);
  EXPECT_EQ(values(rotary(x.to(DType::bf16)).to(DType::f32)), values(wanted.to(DType::f32)));
  const amp::Autocast region(Device::cpu(), DType::bf16);
  EXPECT_EQ(rotary(x.to(DType::bf16)).dtype(), DType::bf16);
}

TEST(RotaryEmbedding, Prints) {
  EXPECT_EQ(to_string(RotaryEmbedding(4)), "RotaryEmbedding(4)");
  EXPECT_EQ(to_string(RotaryEmbedding(4, {.base = 500, .interleaved = true})),
            "RotaryEmbedding(4, base=500.0, interleaved=true)");
  EXPECT_EQ(RotaryEmbedding(4).dim(), 4);
  EXPECT_TRUE(RotaryEmbedding(4).state_dict().empty());
}

TEST(RotaryEmbedding, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(contains(message_of<ValueError>([] { RotaryEmbedding(3); }),
                       "RotaryEmbedding: expected an even dim of at least 2, got 3"));
  EXPECT_THROW(RotaryEmbedding(0), ValueError);
  EXPECT_THROW(RotaryEmbedding(4, {.base = 0}), ValueError);
  EXPECT_THROW(RotaryEmbedding(4, {.base = std::numeric_limits<double>::infinity()}), ValueError);
  RotaryEmbedding rotary(4);
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)rotary(zeros({5, 3}));
                       }),
                       "RotaryEmbedding: expected an x [.., L, D] with D of at least 4, got [5, 3]"));
  EXPECT_THROW((void)rotary(zeros({4})), ShapeError);
  EXPECT_THROW((void)rotary(Tensor()), ValueError);
  EXPECT_THROW((void)rotary(zeros({5, 4}).to(DType::i64)), DTypeError);
  EXPECT_THROW((void)rotary(zeros({5, 4}), zeros({4})), ShapeError);
  EXPECT_THROW((void)rotary(zeros({5, 4}), Tensor()), ValueError);
  EXPECT_THROW((void)rotary(zeros({5, 4}), std::numeric_limits<std::int64_t>::max()), ValueError);
  EXPECT_THROW((void)rotary.tables(zeros({2}).to(DType::boolean)), DTypeError);
  EXPECT_THROW((void)rotary.tables(arange(2), DType::i64), DTypeError);
}

// get_slopes(8), get_slopes(6), get_slopes(3) of the paper's
// github.com/ofirpress/attention_with_linear_biases
TEST(Alibi, HasThePapersSlopes) {
  const auto slopes = [](std::int64_t heads) {
    return alibi_slopes(heads, {.dtype = DType::f64}).to_vector<double>();
  };
  EXPECT_EQ(slopes(8), (Doubles{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}));
  EXPECT_EQ(slopes(6), (Doubles{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  EXPECT_EQ(slopes(3), (Doubles{0.0625, 0.00390625, 0.25}));
  EXPECT_EQ(slopes(1), (Doubles{0.00390625}));
}

TEST(Alibi, AddsDistances) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor bias = alibi_bias(2, 2, 3, {.dtype = DType::f64});
  EXPECT_EQ(bias.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(bias.to_vector<double>(), (Doubles{-0.0625, 0, -0.0625, -0.125, -0.0625, 0, -0.00390625, 0,
                                               -0.00390625, -0.0078125, -0.00390625, 0}));
  EXPECT_EQ(alibi_bias(1, 2, 3, {.is_causal = true, .dtype = DType::f64}).to_vector<double>(),
            (Doubles{-0.00390625, 0, -inf, -0.0078125, -0.00390625, 0}));
  EXPECT_EQ(alibi_bias(2, 0, 3).shape(), Shape({2, 0, 3}));
  // As attention reads it: the last queries of a sequence are the last rows of all.
  const Tensor q = made({1, 2, 4, 3}, 1), k = made({1, 2, 4, 3}, 2);
  const auto attend = [&](const Tensor& queries) {
    const Tensor mask = alibi_bias(2, queries.size(2), 4, {.is_causal = true, .dtype = DType::f64});
    return scaled_dot_product_attention(queries, k, k, {.attn_mask = mask});
  };
  EXPECT_TRUE(allclose(attend(narrow(q, 2, 3, 1)), narrow(attend(q), 2, 3, 1), 0, 1e-15));
}

TEST(Alibi, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(
      contains(message_of<ValueError>([] { (void)alibi_slopes(0); }), "alibi_slopes: expected num_heads"));
  EXPECT_THROW((void)alibi_slopes(std::int64_t{1} << 40), ValueError);
  EXPECT_THROW((void)alibi_slopes(2, {.dtype = DType::i64}), DTypeError);
  EXPECT_THROW((void)alibi_bias(2, -1, 3), ValueError);
  EXPECT_THROW((void)alibi_bias(2, 1, 3, {.dtype = DType::boolean}), DTypeError);
}

}  // namespace
}  // namespace mezzo::nn
