// Attention and its gradients on the device against a plain composition in f64 on the CPU: sizes on both
// sides of the tiles' edges, every width of result, masks, dropout with the words of the CPU, heads that lie
// apart.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/ops/attention.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaAttention = CudaTwin;

constexpr std::int64_t kBatch = 2, kHeads = 2;
constexpr std::uint64_t kSeed = 11;

struct Case {
  std::int64_t queries, keys, size, value_size;
  DType dtype = DType::f32;
  bool causal = false;
  double dropout_p = 0;
  Shape mask = {};  ///< none when empty
  DType mask_dtype = DType::boolean;
  bool heads_inside = false;  ///< q, k, v and the gradient are views of [B, L, H, E]
};

struct Found {
  Tensor out, dq, dk, dv;
};

/// [B, H, rows, columns] with values of the case's dtype, in `dtype`, as the case has it in memory.
Tensor heads(const Case& c, std::uint64_t seed, std::int64_t rows, std::int64_t columns, DType dtype,
             Device device) {
  const Shape shape =
      c.heads_inside ? Shape{kBatch, rows, kHeads, columns} : Shape{kBatch, kHeads, rows, columns};
  const Tensor all = values(seed, shape, c.dtype, device).to(dtype).detach();
  return c.heads_inside ? transpose(all, 1, 2) : all;
}

/// A bool mask leaves out about a third of the keys, and all of query 1.
Tensor mask_of(const Case& c) {
  if (c.mask.empty()) return {};
  const Tensor noise = values(5, c.mask, DType::f64, Device::cpu());
  if (c.mask_dtype != DType::boolean) return noise.to(c.mask_dtype);
  const Tensor mask = gt(noise, -0.3).detach();
  if (c.mask[c.mask.size() - 2] > 1) select(mask, -2, 1).fill_(false);
  return mask;
}

/// What dropout multiplies weights by: [B, H, L, S] in f64.
Tensor kept_weights(const Case& c) {
  Generator generator(kSeed);
  const Tensor seed = randint(0, std::numeric_limits<std::int64_t>::max(), {2}, {}, generator);
  const std::vector<std::int64_t> numbers = seed.to_vector<std::int64_t>();
  const kernels::AttentionWords words(numbers.data());
  const std::uint64_t threshold = kernels::keep_threshold(c.dropout_p);
  std::vector<double> factors(static_cast<std::size_t>(kBatch * kHeads * c.queries * c.keys));
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const bool kept = words.of(static_cast<std::int64_t>(i)) < threshold;
    factors[i] = kept ? kernels::keep_factor(c.dropout_p) : 0;
  }
  return tensor(factors, Shape{kBatch, kHeads, c.queries, c.keys}, {.dtype = DType::f64});
}

/// The formula, in f64.
Tensor plain(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  Tensor scores = matmul(q, transpose(k, -2, -1)) / std::sqrt(static_cast<double>(c.size));
  Tensor part = full_like(scores, true, DType::boolean);
  if (c.causal) part = ge(unsqueeze(arange(c.queries), 1), arange(c.keys));
  if (mask.defined() && c.mask_dtype == DType::boolean) part = mask;
  if (mask.defined() && c.mask_dtype != DType::boolean) scores = scores + mask.to(DType::f64);
  // A query without keys has weights of 0; elsewhere exp(-1e300) is 0.
  const Tensor weights = where(part, softmax(where(part, scores, -1e300), -1), 0.0);
  return matmul(c.dropout_p > 0 ? weights * kept_weights(c) : weights, v);
}

template <class F>
Found run(const Case& c, DType dtype, Device device, const F& attend) {
  const auto input = [&](std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
    return heads(c, seed, rows, columns, dtype, device).requires_grad_();
  };
  const Tensor q = input(1, c.queries, c.size), k = input(2, c.keys, c.size),
               v = input(3, c.keys, c.value_size);
  const Tensor mask = mask_of(c), out = attend(q, k, v, mask.defined() ? mask.to(device) : mask);
  const Tensor grad = heads(c, 4, c.queries, c.value_size, dtype, device);
  sum(out * grad).backward();
  return {out, q.grad(), k.grad(), v.grad()};
}

/// `scale`: how large the terms are that a gradient adds up.
void expect_near(const char* what, const Tensor& got, const Tensor& expected, double scale) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const std::vector<double> a = got.detach().to_vector<double>(), b = expected.detach().to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(agrees(a[i], b[i], tolerance(got.dtype()), scale))
        << what << ", element " << i << ": " << a[i] << ", expected " << b[i];
  }
}

void expect_formula(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.queries << " queries, " << c.keys << " keys, sizes " << c.size
                                    << " and " << c.value_size << ", " << to_string(c.dtype));
  const Found expected = run(c, DType::f64, Device::cpu(),
                             [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
                               return plain(c, q, k, v, mask);
                             });
  Generator generator(kSeed);
  const AttentionOptions options{.dropout_p = c.dropout_p, .is_causal = c.causal};
  const Found got = run(c, c.dtype, Device::cuda(0),
                        [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
                          AttentionOptions with = options;
                          with.attn_mask = mask;
                          return scaled_dot_product_attention(q, k, v, with, generator);
                        });
  expect_near("result", got.out, expected.out, 1);
  expect_near("gradient of q", got.dq, expected.dq, 2);
  expect_near("gradient of k", got.dk, expected.dk, 8);
  expect_near("gradient of v", got.dv, expected.dv, 8);
}

TEST_F(CudaAttention, SizesAroundTheEdgesOfTiles) {
  for (const std::int64_t queries : {1, 64, 65}) {
    for (const std::int64_t keys : {1, 63, 129}) expect_formula({queries, keys, 7, 5});
  }
}
TEST_F(CudaAttention, HeadsOfEverySize) {
  for (const std::int64_t size : {1, 3, 32, 33, 64, 100, 128, 200}) expect_formula({5, 70, size, size});
  expect_formula({3, 6, 40, 140});
  expect_formula({3, 6, 140, 2});
}
TEST_F(CudaAttention, EveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    expect_formula({65, 33, 36, 20, dtype});
    expect_formula({31, 66, 9, 70, dtype});
    expect_formula({70, 70, 16, 16, dtype, true, 0.25});
  }
}
TEST_F(CudaAttention, CausalOfAnyLengths) {
  for (const auto& [queries, keys] : {std::pair{130, 130}, {40, 100}, {100, 40}, {1, 70}})
    expect_formula({queries, keys, 6, 6, DType::f32, true});
}
TEST_F(CudaAttention, Masks) {
  for (const DType dtype : {DType::boolean, DType::f32}) {
    expect_formula({66, 68, 8, 8, DType::f32, false, 0, {66, 68}, dtype});
    expect_formula({3, 68, 8, 8, DType::f32, false, 0, {kBatch, 1, 1, 68}, dtype});
    expect_formula({5, 7, 8, 8, DType::f32, false, 0, {kBatch, kHeads, 5, 7}, dtype});
  }
  expect_formula({5, 7, 8, 8, DType::f16, false, 0, {5, 1}, DType::f16});
}
TEST_F(CudaAttention, DropoutWithTheWordsOfTheCpu) {
  expect_formula({66, 70, 8, 8, DType::f32, false, 0.3});
  expect_formula({5, 7, 8, 8, DType::f64, false, 0.5, {5, 7}});
  expect_formula({5, 7, 8, 8, DType::f32, false, 1});
}
TEST_F(CudaAttention, HeadsThatLieApart) {
  expect_formula({65, 66, 12, 8, DType::f32, false, 0, {}, {}, true});
  expect_formula({5, 66, 3, 70, DType::bf16, true, 0.1, {}, {}, true});
}
// 16-bit heads of up to 128 numbers; without masks and dropout, and with rows of aligned vectors, they have
// kernels of their own.
TEST_F(CudaAttention, AlignedHalves) {
  for (const std::int64_t size : {8, 40, 128}) expect_formula({33, 70, size, size, DType::f16});
  for (const std::int64_t size : {32, 64, 72}) expect_formula({70, 70, size, size, DType::bf16, true});
  expect_formula({66, 100, 64, 16, DType::f16, true, 0, {}, {}, true});
  expect_formula({64, 64, 16, 64, DType::bf16, false, 0, {}, {}, true});
  expect_formula({40, 65, 136, 136, DType::bf16});
}
TEST_F(CudaAttention, MaskedAndDroppedHalves) {
  expect_formula({66, 68, 16, 16, DType::f16, false, 0, {66, 68}});
  expect_formula({40, 68, 64, 64, DType::bf16, false, 0.2, {kBatch, 1, 1, 68}, DType::f32});
  expect_formula({34, 40, 128, 128, DType::f16, true, 0.3});
}
// Each gradient alone has the bits that it has beside the others.
TEST_F(CudaAttention, GradientsOneByOne) {
  const Device device = Device::cuda(0);
  for (const std::int64_t size : {16, 128}) {
    const auto input = [&](std::uint64_t seed) {
      return values(seed, {1, 2, 70, size}, DType::f16, device).detach();
    };
    const auto gradients = [&](bool q, bool k, bool v) {
      const Tensor x = input(1).requires_grad_(q), y = input(2).requires_grad_(k),
                   z = input(3).requires_grad_(v);
      scaled_dot_product_attention(x, y, z, {.is_causal = true}).backward(input(4), {});
      return std::vector<Tensor>{x.grad(), y.grad(), z.grad()};
    };
    const std::vector<Tensor> all = gradients(true, true, true);
    for (std::size_t i = 0; i < 3; ++i) {
      const Tensor alone = gradients(i == 0, i == 1, i == 2)[i];
      EXPECT_EQ(alone.to_vector<double>(), all[i].to_vector<double>()) << "of input " << i;
    }
  }
}
// Rows that begin at no multiple of 16 bytes take another kernel and have the same bits.
TEST_F(CudaAttention, BitsDoNotDependOnAlignment) {
  const auto run = [](std::int64_t offset) {
    const auto placed = [&](std::uint64_t seed) {
      const Tensor room = zeros({2 * 40 * 16 + offset}, {.dtype = DType::f16, .device = Device::cuda(0)});
      return reshape(narrow(room, 0, offset, 2 * 40 * 16), {1, 2, 40, 16})
          .copy_(values(seed, {1, 2, 40, 16}, DType::f16, Device::cuda(0)))
          .detach();
    };
    const Tensor q = placed(1).requires_grad_(), k = placed(2).requires_grad_(),
                 v = placed(3).requires_grad_();
    const Tensor out = scaled_dot_product_attention(q, k, v);
    out.backward(placed(4), {});
    return std::array{out.detach().to_vector<float>(), q.grad().to_vector<float>(),
                      k.grad().to_vector<float>(), v.grad().to_vector<float>()};
  };
  EXPECT_EQ(run(0), run(1));
}
/// Result and gradients where 6 heads of q read 3 of k and 2 of v, views of [B, L, H, E]; or, where these are
/// not grouped, copies for each head of q.
Found run_groups(DType stored, DType dtype, Device device, bool grouped, bool causal) {
  const auto input = [&](std::uint64_t seed, std::int64_t count, std::int64_t rows, std::int64_t columns) {
    const Tensor all = values(seed, {kBatch, rows, count, columns}, stored, device).to(dtype).detach();
    return transpose(all, 1, 2).detach().requires_grad_();
  };
  const auto all_heads = [&](const Tensor& x) {
    std::vector<Tensor> each;
    for (std::int64_t h = 0; h < 6; ++h) each.push_back(select(x, 1, h / (6 / x.size(1))));
    return grouped ? x : stack(each, 1);
  };
  const Tensor q = input(1, 6, 70, 12), k = input(2, 3, 66, 12), v = input(3, 2, 66, 5);
  const Tensor out = scaled_dot_product_attention(q, all_heads(k), all_heads(v),
                                                  {.is_causal = causal, .enable_gqa = grouped});
  sum(out * input(4, 6, 70, 5).detach()).backward();
  return {out, q.grad(), k.grad(), v.grad()};
}

TEST_F(CudaAttention, GroupsOfHeads) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const bool causal : {false, true}) {
      const Found expected = run_groups(dtype, DType::f64, Device::cpu(), false, causal);
      const Found got = run_groups(dtype, dtype, Device::cuda(0), true, causal);
      expect_near("result", got.out, expected.out, 1);
      expect_near("gradient of q", got.dq, expected.dq, 2);
      expect_near("gradient of k", got.dk, expected.dk, 16);
      expect_near("gradient of v", got.dv, expected.dv, 24);
    }
  }
}

TEST_F(CudaAttention, NothingToAttendTo) {
  expect_formula({3, 0, 4, 4});
  expect_formula({0, 3, 4, 4});
  expect_formula({3, 4, 4, 0});
}

TEST_F(CudaAttention, QueriesWhoseKeysHaveScoresOfMinusInfinity) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor q = leaf(1, {1, 2, 5, 4}, dtype, Device::cuda(0)),
                 k = leaf(2, {1, 2, 7, 4}, dtype, Device::cuda(0));
    const Tensor mask = full({5, 7}, -kInf, {.device = Device::cuda(0)});
    const Tensor out = scaled_dot_product_attention(q, k, k, {.attn_mask = mask});
    sum(out).backward();
    for (const Tensor& x : {out.detach(), q.grad(), k.grad()}) EXPECT_EQ(sum(abs(x)).item<double>(), 0);
  }
}

// The kernels are taken, and not the composition: one forward, two for a gradient.
TEST_F(CudaAttention, NumberOfKernels) {
  const Device device = Device::cuda(0);
  const Tensor q = leaf(1, {1, 1, 3, 4}, DType::f32, device),
               grad = values(2, {1, 1, 3, 4}, DType::f32, device);
  std::uint64_t before = cuda::launches();
  const Tensor out = scaled_dot_product_attention(q, q.detach(), q.detach());
  EXPECT_EQ(cuda::launches() - before, 1U);
  before = cuda::launches();
  out.backward(grad, {});
  EXPECT_EQ(cuda::launches() - before, 2U) << "delta and the gradient of q alone";
}

}  // namespace
}  // namespace mezzo
