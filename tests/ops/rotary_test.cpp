// apply_rotary: against the formula in plain ops and PyTorch's digits, in both orders of pairs; strided,
// without elements, dtypes, autocast, and what is refused.
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/loss_support.h"
#include "support/message_of.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

Tensor made(const Shape& shape, double k) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return reshape(sin(arange(count, DType::f64) * 0.37 + k) * 0.5, shape).detach().requires_grad_();
}
Tensor digest(const Tensor& x) { return sum(reshape(x, {-1}) * cos(arange(x.numel(), DType::f64) * 0.9)); }

// Digests of the output and of the gradients by x, cos and sin, as in tests/nn/digests.h, with
// x = made((2, 3, 4), 1); c = made((3, 2), 2); s = made((3, 2), 3)
TEST(Rotary, IsItsFormulaInTorch) {
  const auto expect = [](bool interleaved, const Doubles& want) {
    const Tensor x = made({2, 3, 4}, 1), c = made({3, 2}, 2), s = made({3, 2}, 3);
    const Tensor y = apply_rotary(x, c, s, interleaved);
    Doubles got{digest(y).item()};
    for (const Tensor& g : grad(digest(y), {x, c, s})) got.push_back(digest(g).item());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << i;
  };
  // a, b = x[..., :2], x[..., 2:]; y = torch.cat([a * c - b * s, a * s + b * c], -1)
  expect(false, {-1.1257289467957525, 1.1164365850260165, 0.358449171090656, -2.749785189701072});
  // a, b = x[..., 0::2], x[..., 1::2]; y = torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
  expect(true, {-0.8514306771849628, 1.0201901192095026, 0.5885531300250513, -1.7476937202810436});
}

TEST(Rotary, KeepsLengthsAndTurnsBack) {
  const Tensor x = made({2, 3, 5, 8}, 1), angles = made({5, 4}, 2) * 7;
  const Tensor y = apply_rotary(x, cos(angles), sin(angles), true);
  EXPECT_TRUE(allclose(sum(y * y, {-1}), sum(x * x, {-1}), 1e-14, 0));
  EXPECT_TRUE(allclose(apply_rotary(y, cos(angles), -sin(angles), true), x, 0, 1e-15));
}

TEST(Rotary, LeavesTheFeaturesBehindThePairs) {
  const Tensor x = made({3, 7}, 1), c = made({3, 2}, 2), s = made({3, 2}, 3);
  for (const bool interleaved : {false, true}) {
    const Tensor y = apply_rotary(x, c, s, interleaved);
    EXPECT_EQ(list(narrow(y, -1, 4, 3)), list(narrow(x, -1, 4, 3)));
    EXPECT_EQ(list(narrow(y, -1, 0, 4)), list(apply_rotary(narrow(x, -1, 0, 4), c, s, interleaved)));
    EXPECT_EQ(list(narrow(grad(sum(y), {x})[0], -1, 4, 3)), Doubles(9, 1));
  }
}

TEST(Rotary, ReadsAnyStridesAndManyRows) {
  // [B, L, H, E] with heads as a view, more elements than a chunk; one row of angles per step.
  const Tensor x = random({2, 70, 3, 64}, DType::f32, -1, 1), c = random({70, 32}, DType::f32, -1, 1, 0.4),
               s = random({70, 32}, DType::f32, -1, 1, 0.7);
  const Tensor heads = transpose(x, 1, 2);
  for (const bool interleaved : {false, true}) {
    const Tensor got = apply_rotary(heads, c, s, interleaved);
    const Tensor a = interleaved ? slice(heads, -1, 0, {}, 2) : narrow(heads, -1, 0, 32),
                 b = interleaved ? slice(heads, -1, 1, {}, 2) : narrow(heads, -1, 32, 32);
    const Tensor first = a * c - b * s, second = a * s + b * c;
    const Tensor want =
        interleaved ? reshape(stack({first, second}, -1), heads.shape()) : cat({first, second}, -1);
    EXPECT_TRUE(same_bits(got, want.contiguous()));
    const ThreadGuard one(1);
    EXPECT_TRUE(same_bits(got, apply_rotary(heads, c, s, interleaved)));
  }
  EXPECT_EQ(apply_rotary(zeros({0, 3, 4}), zeros({3, 2}), zeros({3, 2})).shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(list(apply_rotary(make<double>({2}, {3, 5}), zeros({1}), ones({1}))), (Doubles{-5, 3}));
  EXPECT_EQ(list(apply_rotary(make<double>({2}, {3, 5}), zeros({0}), ones({0}))), (Doubles{3, 5}));
}

TEST(Rotary, Rounds16BitsOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = random({4, 8}, dtype, -1, 1), c = random({4, 4}, DType::f32, -1, 1, 0.4),
                 s = random({4, 4}, DType::f32, -1, 1, 0.7);
    const Tensor y = apply_rotary(x, c, s);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(same_bits(y, apply_rotary(x.to(DType::f32), c, s).to(dtype)));
    x.requires_grad_();
    EXPECT_EQ(grad(sum(apply_rotary(x, c, s).to(DType::f32)), {x})[0].dtype(), dtype);
  }
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  EXPECT_EQ(apply_rotary(ones({1, 2}), ones({1, 1}), ones({1, 1})).dtype(), DType::f32);
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  const auto message = [](const Shape& x, const Shape& c, const Shape& s) {
    return message_of<ShapeError>([&] { (void)apply_rotary(zeros(x), zeros(c), zeros(s)); });
  };
  const auto expect = [&](const std::string& text, const std::string& got) {
    EXPECT_NE(got.find("apply_rotary: expected " + text), std::string::npos) << got;
  };
  expect("cos and sin of one shape", message({3, 4}, {3, 2}, {3, 1}));
  expect("cos and sin of one shape", message({3, 4}, {}, {}));
  expect("an x of as many dims as cos and twice its last one, got [3, 4] for [3, 3]",
         message({3, 4}, {3, 3}, {3, 3}));
  expect("an x of as many dims", message({4}, {3, 2}, {3, 2}));
  expect("a cos that broadcasts to x [3, 4]", message({3, 4}, {2, 2}, {2, 2}));
  EXPECT_THROW((void)apply_rotary(zeros({3, 4}).to(DType::i64), zeros({3, 2}), zeros({3, 2})), DTypeError);
}

}  // namespace
}  // namespace mezzo
