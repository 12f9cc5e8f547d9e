// scaled_dot_product_attention with enable_gqa: against PyTorch's digits, and against keys and values that
// are repeated for every head; memory, dropout, tensors without elements, and what is refused.
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/loss_support.h"
#include "support/message_of.h"

namespace mezzo {
namespace {

using namespace test;

Tensor made(const Shape& shape, double k, DType dtype = DType::f64) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  const Tensor x = reshape(sin(arange(count, DType::f64) * 0.37 + k) * 0.5, shape).to(dtype);
  return x.detach().requires_grad_();
}
Tensor digest(const Tensor& x) { return sum(reshape(x, {-1}) * cos(arange(x.numel(), DType::f64) * 0.9)); }

/// The result and the gradients of its digest by the inputs.
Tensors results(const Tensor& out, TensorList inputs) {
  Tensors all{out.detach()};
  for (const Tensor& g : grad(digest(out), inputs)) all.push_back(g);
  return all;
}
/// Each head of key or value as often as heads of the query read it.
Tensor repeated(const Tensor& x, std::int64_t heads) {
  std::vector<Tensor> all;
  for (std::int64_t h = 0; h < heads; ++h) all.push_back(select(x, -3, h / (heads / x.size(-3))));
  return stack(all, -3);
}
void expect_all_near(const Tensors& got, const Tensors& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), want[i].shape());
    EXPECT_TRUE(allclose(got[i].to(DType::f64), want[i].to(DType::f64), tolerance, tolerance)) << i;
  }
}

// Digests of the output and of the gradients by q, k and v, as in tests/nn/digests.h, with
// q = made((2, 4, 3, 5), 1); k = made((2, 2, 6, 5), 2); v = made((2, 2, 6, 3), 3)
TEST(GroupedAttention, IsTorchs) {
  const auto expect = [](const Tensor& v, const AttentionOptions& options, const Doubles& want) {
    const Tensor q = made({2, 4, 3, 5}, 1), k = made({2, 2, 6, 5}, 2);
    const Tensors got = results(scaled_dot_product_attention(q, k, v, options), {q, k, v});
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(digest(got[i]).item(), want[i], 1e-13) << i;
  };
  // y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
  expect(made({2, 2, 6, 3}, 3), {.enable_gqa = true},
         {-0.06376768939926583, 0.12862906931159804, -0.14629177565416035, 1.074958053696574});
  // The same with is_causal=True
  expect(made({2, 2, 6, 3}, 3), {.is_causal = true, .enable_gqa = true},
         {-0.19977575948249304, -0.518496585061734, -0.07051910695900622, 4.1299978397044415});
  // The same with attn_mask=fill(torch.empty(4, 3, 6), 4) and v = made((2, 1, 6, 3), 3)
  expect(made({2, 1, 6, 3}, 3), {.attn_mask = made({4, 3, 6}, 4).detach(), .enable_gqa = true},
         {0.08900926536134468, 0.07032242605357994, 0.02293231626767274, -0.1524827553641515});
}

TEST(GroupedAttention, IsAttentionToRepeatedHeads) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t queries : {1, 140}) {
      const Tensor q = made({2, 6, queries, 8}, 1, dtype), k = made({2, 3, 300, 8}, 2, dtype),
                   v = made({2, 2, 300, 5}, 3, dtype);
      const Tensor mask = gt(made({2, 1, queries, 300}, 4).detach(), -0.3);
      // In 16 bits the shares of a group are added up before they are rounded here, and rounded first there.
      const double tolerance = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-5 : 0.03;
      for (AttentionOptions options :
           std::vector<AttentionOptions>{{}, {.is_causal = true}, {.attn_mask = mask}}) {
        const Tensor wanted = scaled_dot_product_attention(q, repeated(k, 6), repeated(v, 6), options);
        options.enable_gqa = true;
        const Tensor out = scaled_dot_product_attention(q, k, v, options);
        EXPECT_TRUE(same_bits(out.detach(), wanted.detach()));
        expect_all_near(results(out, {q, k, v}), results(wanted, {q, k, v}), tolerance);
      }
    }
  }
}

TEST(GroupedAttention, ReadsHeadsWhereTheyLie) {
  // [B, L, H, E], as a projection gives it; repeated keys alone would take twice the result's memory.
  const Tensor q = made({2, 64, 8, 16}, 1, DType::f32).detach(),
               k = made({2, 64, 2, 16}, 2, DType::f32).detach();
  const auto heads = [](const Tensor& x) { return transpose(x, 1, 2); };
  const std::int64_t before = memory_stats(Device::cpu()).current;
  reset_peak_memory_stats(Device::cpu());
  const Tensor out = scaled_dot_product_attention(heads(q), heads(k), heads(k), {.enable_gqa = true});
  const std::int64_t bytes = memory_stats(Device::cpu()).peak - before;
  EXPECT_LE(bytes, (out.numel() + out.numel() / 8) * 4 + 4096);  // the result and logsumexp
  const Tensor dense = repeated(heads(k), 8);
  EXPECT_TRUE(same_bits(out, scaled_dot_product_attention(heads(q).contiguous(), dense, dense)));
}

TEST(GroupedAttention, DropsWhatTheSameSeedDropsElsewhere) {
  const Tensor q = made({4, 9, 3}, 1), k = made({2, 20, 3}, 2);
  Generator one(3), other(3);
  const Tensor out = scaled_dot_product_attention(q, k, k, {.dropout_p = 0.4, .enable_gqa = true}, one);
  const Tensor wanted =
      scaled_dot_product_attention(q, repeated(k, 4), repeated(k, 4), {.dropout_p = 0.4}, other);
  EXPECT_TRUE(same_bits(out.detach(), wanted.detach()));
  expect_all_near(results(out, {q, k}), results(wanted, {q, k}), 1e-12);
}

TEST(GroupedAttention, HasSecondGradients) {
  const auto squares = [](bool grouped, TensorList x) {
    const Tensor k = grouped ? x[1] : repeated(x[1], 4), v = grouped ? x[2] : repeated(x[2], 4);
    const Tensor out = scaled_dot_product_attention(x[0], k, v, {.is_causal = true, .enable_gqa = grouped});
    Tensor total = zeros({}, DType::f64);
    for (const Tensor& g : grad(digest(out), x, {.create_graph = true})) total = total + sum(g * g);
    Tensors all;
    for (const Tensor& g : grad(total, x)) all.push_back(g);
    return all;
  };
  const std::vector<Tensor> x{made({1, 4, 3, 2}, 1), made({1, 2, 5, 2}, 2), made({1, 1, 5, 3}, 3)};
  expect_all_near(squares(true, x), squares(false, x), 1e-12);
}

TEST(GroupedAttention, TakesTensorsWithoutElements) {
  const auto shape_of = [](const Shape& q, const Shape& k) {
    return scaled_dot_product_attention(zeros(q), zeros(k), zeros(k), {.enable_gqa = true}).shape();
  };
  EXPECT_EQ(shape_of({0, 4, 2, 3}, {0, 2, 5, 3}), (Shape{0, 4, 2, 3}));
  EXPECT_EQ(shape_of({1, 4, 0, 3}, {1, 2, 5, 3}), (Shape{1, 4, 0, 3}));
  EXPECT_EQ(shape_of({1, 4, 2, 3}, {1, 2, 0, 3}), (Shape{1, 4, 2, 3}));
  EXPECT_EQ(shape_of({0, 2, 3}, {0, 5, 3}), (Shape{0, 2, 3}));
  EXPECT_EQ(shape_of({0, 2, 3}, {4, 5, 3}), (Shape{0, 2, 3}));
}

TEST(GroupedAttention, RunsInTheLowPrecisionOfAutocast) {
  const Tensor q = made({4, 3, 5}, 1, DType::f32), k = made({2, 6, 5}, 2, DType::f32);
  Tensor out;
  {
    const amp::Autocast autocast(Device::cpu(), DType::bf16);
    out = scaled_dot_product_attention(q, k, k, {.enable_gqa = true});
  }
  EXPECT_EQ(out.dtype(), DType::bf16);
  EXPECT_EQ(grad(sum(out.to(DType::f32)), {k})[0].dtype(), DType::f32);
}

TEST(GroupedAttention, RefusesHeadsThatDoNotDivide) {
  const auto message = [](const Shape& q, const Shape& k, const Shape& v) {
    return message_of<ShapeError>(
        [&] { (void)scaled_dot_product_attention(zeros(q), zeros(k), zeros(v), {.enable_gqa = true}); });
  };
  EXPECT_NE(
      message({4, 2, 3}, {3, 5, 3}, {3, 5, 3})
          .find("scaled_dot_product_attention: expected heads of key and value that divide the query's 4, "
                "got 3"),
      std::string::npos);
  EXPECT_NE(message({4, 2, 3}, {2, 5, 3}, {0, 5, 3}).find("got 0"), std::string::npos);
  EXPECT_NE(message({2, 3}, {2, 5, 3}, {2, 5, 3}).find("at least 3 dims for enable_gqa"), std::string::npos);
  EXPECT_NE(message({4, 2, 3}, {5, 3}, {2, 5, 3}).find("at least 3 dims for enable_gqa"), std::string::npos);
  // Without it the heads must be equal in number.
  EXPECT_THROW((void)scaled_dot_product_attention(zeros({4, 2, 3}), zeros({2, 5, 3}), zeros({2, 5, 3})),
               ShapeError);
}

}  // namespace
}  // namespace mezzo
