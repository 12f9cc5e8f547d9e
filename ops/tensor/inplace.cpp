// The in-place members of Tensor that are made of ops and a copy. Members with kernels of their own are in
// ops/pointwise/inplace.cu.
#include "mezzo/ops/detail/inplace.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

/// x = f(x), where f is an op that keeps x's shape. With recording on, f gets a copy, so that what it saves
/// of x is not overwritten.
template <class F>
const Tensor& write(std::string_view op, const Tensor& x, const F& f) {
  ops::require_defined(op, x);
  const bool recorded = grad_enabled() && is_floating(x.dtype()) && x.requires_grad();
  if (recorded) ops::require_recordable_write(op, x);
  const Tensor result = f(recorded ? clone(x) : x);
  if (info(result.dtype()).kind > info(x.dtype()).kind) {
    throw DTypeError(op, "a result that " + to_string(x.dtype()) + " can hold", to_string(result.dtype()),
                     "use the op that returns a new tensor");
  }
  if (result.shape() != x.shape()) {
    throw ShapeError(op, "an operand that broadcasts to " + to_string(x.shape()),
                     "a result of shape " + to_string(result.shape()),
                     "use the op that returns a new tensor");
  }
  return x.copy_(result);
}

}  // namespace

const Tensor& Tensor::div_(const Tensor& other) const {
  return write("div_", *this, [&](const Tensor& x) { return mezzo::div(x, other); });
}
const Tensor& Tensor::div_(Scalar other) const {
  return write("div_", *this, [&](const Tensor& x) { return mezzo::div(x, other); });
}
const Tensor& Tensor::operator&=(const Tensor& other) const {
  return write("bitwise_and_", *this, [&](const Tensor& x) { return x & other; });
}
const Tensor& Tensor::operator&=(Scalar other) const {
  return write("bitwise_and_", *this, [&](const Tensor& x) { return x & other; });
}
const Tensor& Tensor::operator|=(const Tensor& other) const {
  return write("bitwise_or_", *this, [&](const Tensor& x) { return x | other; });
}
const Tensor& Tensor::operator|=(Scalar other) const {
  return write("bitwise_or_", *this, [&](const Tensor& x) { return x | other; });
}
const Tensor& Tensor::operator^=(const Tensor& other) const {
  return write("bitwise_xor_", *this, [&](const Tensor& x) { return x ^ other; });
}
const Tensor& Tensor::operator^=(Scalar other) const {
  return write("bitwise_xor_", *this, [&](const Tensor& x) { return x ^ other; });
}
const Tensor& Tensor::pow_(Scalar exponent) const {
  return write("pow_", *this, [&](const Tensor& x) { return mezzo::pow(x, exponent); });
}
const Tensor& Tensor::clamp_(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return write("clamp_", *this, [&](const Tensor& x) { return mezzo::clamp(x, min, max); });
}
const Tensor& Tensor::clamp_min_(Scalar min) const {
  return write("clamp_min_", *this, [&](const Tensor& x) { return mezzo::clamp(x, min); });
}
const Tensor& Tensor::clamp_max_(Scalar max) const {
  return write("clamp_max_", *this, [&](const Tensor& x) { return mezzo::clamp(x, {}, max); });
}
const Tensor& Tensor::neg_() const { return write("neg_", *this, mezzo::neg); }
const Tensor& Tensor::abs_() const { return write("abs_", *this, mezzo::abs); }
const Tensor& Tensor::exp_() const { return write("exp_", *this, mezzo::exp); }
const Tensor& Tensor::log_() const { return write("log_", *this, mezzo::log); }
const Tensor& Tensor::sqrt_() const { return write("sqrt_", *this, mezzo::sqrt); }
const Tensor& Tensor::floor_() const { return write("floor_", *this, mezzo::floor); }
const Tensor& Tensor::round_() const {
  return write("round_", *this, [](const Tensor& x) { return mezzo::round(x); });
}
const Tensor& Tensor::relu_() const { return write("relu_", *this, mezzo::relu); }
const Tensor& Tensor::sigmoid_() const { return write("sigmoid_", *this, mezzo::sigmoid); }
const Tensor& Tensor::tanh_() const { return write("tanh_", *this, mezzo::tanh); }
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, Scalar value) const {
  return write("addcmul_", *this, [&](const Tensor& x) { return mezzo::addcmul(x, a, b, value); });
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  return write("addcdiv_", *this, [&](const Tensor& x) { return mezzo::addcdiv(x, a, b, value); });
}
const Tensor& Tensor::lerp_(const Tensor& end, double weight) const {
  return write("lerp_", *this, [&](const Tensor& x) { return mezzo::lerp(x, end, weight); });
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  return write("masked_fill_", *this, [&](const Tensor& x) { return mezzo::masked_fill(x, mask, value); });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return write("scatter_", *this, [&](const Tensor& x) { return mezzo::scatter(x, dim, index, src); });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, Scalar value) const {
  return write("scatter_", *this, [&](const Tensor& x) { return mezzo::scatter(x, dim, index, value); });
}
const Tensor& Tensor::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return write("scatter_add_", *this,
               [&](const Tensor& x) { return mezzo::scatter_add(x, dim, index, src); });
}
const Tensor& Tensor::index_add_(std::int64_t dim, const Tensor& index, const Tensor& src,
                                 Scalar alpha) const {
  return write("index_add_", *this,
               [&](const Tensor& x) { return mezzo::index_add(x, dim, index, src, alpha); });
}
const Tensor& Tensor::uniform_(double low, double high) const { return mezzo::uniform_(*this, low, high); }
const Tensor& Tensor::exponential_(double lambda) const { return mezzo::exponential_(*this, lambda); }
const Tensor& Tensor::normal_(double mean, double std) const { return mezzo::normal_(*this, mean, std); }

}  // namespace mezzo
