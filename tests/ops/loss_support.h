// What the tests of softmax and of the losses share beyond pointwise_support.h: equality of bits, comparison
// with expected numbers that may be NaN, and random tensors of any dtype.
#pragma once

#include <cstring>
#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/cast.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo::test {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Doubles = std::vector<double>;

/// Same dtype, shape and bits, whatever the strides.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor left = a.contiguous(), right = b.contiguous();
  const auto bytes = static_cast<std::size_t>(a.numel() * size_of(a.dtype()));
  return bytes == 0 || std::memcmp(left.impl().data(), right.impl().data(), bytes) == 0;
}

/// |got - want| <= relative * |want| + absolute; NaN and infinities must match.
inline void expect_near(const Tensor& got, const Doubles& want, double relative, double absolute = 0) {
  const Doubles values = list(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(values[i])) << "element " << i << ": " << values[i];
    else if (std::isinf(want[i]))
      EXPECT_EQ(values[i], want[i]) << "element " << i;
    else
      EXPECT_NEAR(values[i], want[i], relative * std::abs(want[i]) + absolute) << "element " << i;
  }
}

/// Numbers in [low, high] as a leaf-less tensor of `dtype`.
inline Tensor random(const Shape& shape, DType dtype, double low = -4, double high = 4, double phase = 0) {
  return to(make<double>(shape, spread(static_cast<std::size_t>(layout::numel(shape)), low, high, phase)),
            dtype);
}
inline Tensor indices(const Shape& shape, const std::vector<std::int64_t>& values) {
  return make<std::int64_t>(shape, values);
}
inline Tensor indices(const std::vector<std::int64_t>& values) { return make<std::int64_t>(values); }

/// f at 16-bit leaves, under autocast and on f32 casts: value and the gradients of the floating leaves are
/// the same bits. `others` are inputs that need no gradient.
inline void expect_autocast_equals_casts(const Function& f, const Tensors& inputs, DType dtype) {
  Tensors low, wide, leaves, copies;
  for (const Tensor& input : inputs) {
    if (!input.defined() || !is_floating(input.dtype())) {
      low.push_back(input);
      wide.push_back(input);
      continue;
    }
    low.push_back(to(input.detach(), dtype).detach().clone().requires_grad_());
    leaves.push_back(low[low.size() - 1]);
    copies.push_back(low[low.size() - 1].detach().clone().requires_grad_());
    wide.push_back(to(copies[copies.size() - 1], DType::f32));
  }
  const Tensor got = [&] {
    const amp::Autocast autocast(Device::cpu(), dtype);
    return f(low);
  }();
  const Tensor want = f(wide);
  EXPECT_EQ(got.dtype(), DType::f32);
  EXPECT_TRUE(same_bits(got, want));
  const Tensor w = random(got.shape(), DType::f32, 0.5, 2);
  const Tensors got_gradients = grad({&got, 1}, leaves, {&w, 1});
  const Tensors want_gradients = grad({&want, 1}, copies, {&w, 1});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_EQ(got_gradients[i].dtype(), dtype);
    EXPECT_TRUE(same_bits(got_gradients[i], want_gradients[i])) << "gradient " << i;
  }
}

}  // namespace mezzo::test
