// scaled_dot_product_attention where it goes by panels of 32 rows (kernels/attention/cpu_panels.h): against
// the plain composition in f64 around the edges of panels, strips and tiles, on every instruction set
// and in both ways of bf16 products; special values, and the same bits on every number of threads.
#include <gtest/gtest.h>

#include "mezzo/autograd/registry.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/attention_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;
using namespace test::attention;
using kernels::cpu::Bf16Gemm;
using kernels::cpu::Isa;
using kernels::cpu::IsaGuard;
using test::attention::evaluate, test::attention::expect_close, test::attention::plainly;

struct Sizes {
  std::int64_t queries, keys, size, value_size;
};
/// One way of calling it, by name and with the tensors that the reference takes.
struct Way {
  std::string name;
  Tensor mask;
  Value::Map attrs;
  Tensor seed;
};

/// The result, then the gradients of q, k and v.
Tensors all_of(const Evaluated& found) {
  Tensors all{found.out};
  for (const Tensor& gradient : found.gradients) all.push_back(gradient);
  return all;
}
Tensors evaluate(const Tensors& in, const Way& way) {
  return all_of(evaluate(
      [&](const Tensors& x) {
        return Tensor(call_op(kName, {x[0], x[1], x[2], way.mask, way.seed}, Value(way.attrs)));
      },
      in));
}
Tensors plainly(const Tensors& in, const Way& way) {
  return all_of(plainly(in, way.mask, way.attrs, way.seed));
}
void expect_close(const Tensors& got, const Tensors& want, double tolerance) {
  for (std::size_t t = 0; t < want.size(); ++t) {
    SCOPED_TRACE("tensor " + std::to_string(t));
    expect_close(got[t], want[t], tolerance);
  }
}

Tensors inputs(const Sizes& s, DType dtype, std::int64_t heads = 2) {
  return {random({heads, s.queries, s.size}, dtype, -1, 1),
          random({heads, s.keys, s.size}, dtype, -1, 1, 0.4),
          random({heads, s.keys, s.value_size}, dtype, -1, 1, 0.7)};
}
std::vector<Way> ways(const Sizes& s) {
  const Tensor seed = indices({2}, {-5, 77});
  const Tensor by_query = random({2, s.queries, s.keys}, DType::f32, -2, 2, 0.2);
  const Tensor by_key = random({2, 1, s.keys}, DType::f32, -1, 2, 0.2);
  const Tensor column = random({s.queries, 1}, DType::f32, -2, 2, 0.1);
  return {{"plain", {}, {}, {}},
          {"causal", {}, {{"is_causal", true}}, {}},
          {"negative scale", {}, {{"scale", -0.7}}, {}},
          {"chosen", gt(by_query, -1.0), {}, {}},
          {"chosen keys", gt(by_key, 0.0), {}, {}},
          {"added", by_query, {}, {}},
          {"added to keys", by_key, {}, {}},
          {"added to queries", column, {}, {}},
          {"dropout", {}, {{"dropout_p", 0.3}}, seed},
          {"causal dropout", {}, {{"dropout_p", 0.3}, {"is_causal", true}}, seed},
          {"dropout of chosen", gt(by_query, -1.0), {{"dropout_p", 0.3}}, seed}};
}

std::vector<Isa> instruction_sets() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::base, Isa::v3, Isa::v4}) {
    if (isa <= kernels::cpu::best_isa()) all.push_back(isa);
  }
  return all;
}

/// While it lives, bf16 products go this way.
class WayOfBf16 {
 public:
  explicit WayOfBf16(Bf16Gemm way) { kernels::cpu::set_bf16_gemm(way); }
  ~WayOfBf16() { kernels::cpu::set_bf16_gemm(Bf16Gemm::automatic); }
  WayOfBf16(const WayOfBf16&) = delete;
  WayOfBf16& operator=(const WayOfBf16&) = delete;
};
/// Both ways, or one where the processor has no other.
std::vector<Bf16Gemm> ways_of_bf16() {
  try {
    const WayOfBf16 native(Bf16Gemm::native);
    return {Bf16Gemm::widened, Bf16Gemm::native};
  } catch (const ValueError&) {
    return {Bf16Gemm::widened};
  }
}

TEST(AttentionPanels, AgreeWithTheCompositionAroundTheirEdges) {
  for (const Sizes& s : {Sizes{8, 300, 16, 16},
                         {16, 128, 32, 16},
                         {17, 129, 33, 20},
                         {31, 15, 32, 64},
                         {33, 32, 40, 7},
                         {47, 48, 64, 32},
                         {64, 64, 32, 32},
                         {65, 66, 5, 48},
                         {96, 17, 80, 80},
                         {129, 140, 24, 40},
                         {200, 270, 6, 8},
                         {300, 130, 17, 3}}) {
    const Tensors in = inputs(s, DType::f32);
    for (const Way& way : ways(s)) {
      SCOPED_TRACE(to_string(Shape{s.queries, s.keys, s.size, s.value_size}) + " " + way.name);
      const Tensors want = plainly(in, way);
      for (const Isa isa : instruction_sets()) {
        const IsaGuard guard(isa);
        expect_close(evaluate(in, way), want, 1e-5);
      }
    }
  }
}

TEST(AttentionPanels, AgreeWithTheCompositionIn16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    // Odd sizes cannot be taken in pairs.
    for (const Sizes& s : {Sizes{2, 300, 32, 32},
                           {5, 130, 16, 48},
                           {33, 47, 64, 64},
                           {65, 66, 33, 20},
                           {129, 140, 18, 7},
                           {130, 150, 9, 16}}) {
      const Tensors in = inputs(s, dtype);
      for (const Way& way : ways(s)) {
        SCOPED_TRACE(to_string(Shape{s.queries, s.keys, s.size, s.value_size}) + " " + way.name);
        const Tensors want = plainly(in, way);
        for (const Bf16Gemm products : ways_of_bf16()) {
          const WayOfBf16 guard(products);
          expect_close(evaluate(in, way), want, 0.02);
        }
      }
    }
  }
}

TEST(AttentionPanels, TakeRowsOfBf16InPairsWhereverTheyLie) {
  // Heads of [B, L, H, E] and of one tensor of q, k and v; a last dim that begins at an odd place; odd rows.
  for (const std::int64_t size : {16, 15}) {
    const Tensor all = random({2, 70, 3 * 2 * size + 2}, DType::bf16, -1, 1);
    for (const std::int64_t first : {0, 1, 2}) {
      const auto part = [&](const Tensor& x, std::int64_t i) {
        const Tensor own = slice(x, -1, first + i * 2 * size, first + (i + 1) * 2 * size);
        return transpose(reshape(own, {2, 70, 2, size}), 1, 2);
      };
      const auto f = [&](const Tensors& x) {
        return scaled_dot_product_attention(part(x[0], 0), part(x[0], 1), part(x[0], 2), {.is_causal = true});
      };
      const auto dense = [&](const Tensors& x) {
        return scaled_dot_product_attention(part(x[0], 0).contiguous(), part(x[0], 1).contiguous(),
                                            part(x[0], 2).contiguous(), {.is_causal = true});
      };
      for (const Bf16Gemm products : ways_of_bf16()) {
        const WayOfBf16 guard(products);
        const Tensors got = all_of(evaluate(f, {all})), want = all_of(evaluate(dense, {all}));
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
      }
    }
  }
}

TEST(AttentionPanels, LeaveASingleQueryToLoopsWithTheSameBitsEverywhere) {
  for (const Sizes& s : {Sizes{1, 300, 64, 64}, {1, 67, 35, 19}, {1, 130, 16, 3}}) {
    const Tensors in = inputs(s, DType::f32);
    for (const Way& way : ways(s)) {
      SCOPED_TRACE(way.name);
      const Tensors want = plainly(in, way);
      const Tensor first = evaluate(in, way)[0];
      for (const Isa isa : instruction_sets()) {
        const IsaGuard guard(isa);
        const Tensors got = evaluate(in, way);
        expect_close(got, want, 1e-5);
        EXPECT_TRUE(same_bits(got[0], first));
      }
    }
  }
}

TEST(AttentionPanels, GiveTheSameBitsOnEveryNumberOfThreads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t heads : {1, 3}) {
        const Tensors in = inputs({300, 700, 32, 18}, dtype, heads);
        const Way way{"", {}, {{"is_causal", causal}}, {}};
        const ThreadGuard one(1);
        const Tensors want = evaluate(in, way);
        for (const int threads : {2, 3}) {
          const ThreadGuard more(threads);
          const Tensors got = evaluate(in, way);
          for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
        }
      }
    }
  }
}

TEST(AttentionPanels, GiveNothingForAQueryWithoutKeys) {
  const Tensors in = inputs({40, 50, 16, 16}, DType::f32, 1);
  const Tensor taken = ne(reshape(arange(40), {40, 1}), 33).to(DType::boolean);
  const Way way{"", expand(taken, {40, 50}), {}, {}};
  for (const Isa isa : instruction_sets()) {
    const IsaGuard guard(isa);
    const Tensors got = evaluate(in, way);
    EXPECT_EQ(list(select(got[0], 1, 33)), Doubles(16, 0));
    EXPECT_EQ(list(select(got[1], 1, 33)), Doubles(16, 0));
    expect_close(got, plainly(in, way), 1e-5);
  }
}

TEST(AttentionPanels, KeepSpecialValuesInTheirQueries) {
  const std::int64_t queries = 40, keys = 150, size = 16;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors in = inputs({queries, keys, size, size}, dtype, 1);
    const Tensor clean = scaled_dot_product_attention(in[0], in[1], in[2]);
    const Tensor row = eq(reshape(arange(queries), {queries, 1}), 21);
    for (const double special : {kNan, kInf}) {
      const Tensor out = scaled_dot_product_attention(where(row, special, in[0]).to(dtype), in[1], in[2]);
      for (std::int64_t l = 0; l < queries; ++l) {
        const Tensor got = select(out, 1, l), want = select(clean, 1, l);
        if (l == 21)
          EXPECT_TRUE(std::isnan(list(got)[0])) << special;
        else
          EXPECT_TRUE(same_bits(got, want)) << l;
      }
    }
  }
  // exp of these scores overflows, and their differences leave one weight: that of the last key, or the
  // first.
  const Tensor sign = where(lt(arange(queries), 20), 1.0, -1.0).to(DType::f32);
  const Tensor q = mul(reshape(sign, {queries, 1}), ones({queries, size})) * 1e12,
               k = mul(reshape(arange(keys).to(DType::f32) - 70.0, {keys, 1}), ones({keys, size})) * 1e12,
               v = mul(reshape(arange(keys).to(DType::f32), {keys, 1}), ones({keys, size}));
  for (const Isa isa : instruction_sets()) {
    const IsaGuard guard(isa);
    const Doubles got = list(select(scaled_dot_product_attention(q, k, v), 1, 0));
    for (std::size_t l = 0; l < got.size(); ++l) EXPECT_EQ(got[l], l < 20 ? 149 : 0) << l;
    const Tensors all = all_of(
        evaluate([](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }, {q, k, v}));
    for (const Tensor& x : all) {
      for (const double y : list(x)) ASSERT_TRUE(std::isfinite(y));
    }
  }
}

}  // namespace
}  // namespace mezzo
