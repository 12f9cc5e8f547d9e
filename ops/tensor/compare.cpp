// equal, isclose and allclose, as compositions.
#include "mezzo/ops/compare.h"

#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/promotion.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

/// The dtype in which distances are computed.
DType distance_dtype(const Tensor& a, const Tensor& b) {
  const DType common = promote(a.dtype(), b.dtype());
  if (!is_floating(common)) return DType::f64;
  return is_16bit(common) ? DType::f32 : common;
}

}  // namespace

bool equal(const Tensor& a, const Tensor& b) {
  ops::require_defined("equal", a);
  ops::require_defined("equal", b);
  const NoGrad no_grad;
  if (a.dtype() == b.dtype() && is_float8(a.dtype())) return equal(to(a, DType::f32), to(b, DType::f32));
  require_compute_dtype("equal", a.dtype());
  require_compute_dtype("equal", b.dtype());
  return a.shape() == b.shape() && all(eq(a, b)).item<bool>();
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  ops::require_defined("isclose", a);
  ops::require_defined("isclose", b);
  if (!(rtol >= 0) || !(atol >= 0)) {
    throw ValueError("isclose", "tolerances of at least 0",
                     "rtol " + std::to_string(rtol) + ", atol " + std::to_string(atol), "leave them out");
  }
  require_compute_dtype("isclose", a.dtype());
  require_compute_dtype("isclose", b.dtype());
  const NoGrad no_grad;
  const DType dtype = distance_dtype(a, b);
  const Tensor x = to(a, dtype), y = to(b, dtype);
  // An infinite bound would let any number pass.
  const Tensor near = logical_and(le(abs(sub(x, y)), add(mul(abs(y), rtol), atol)), isfinite(y));
  const Tensor close = logical_or(eq(x, y), near);
  return equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}

}  // namespace mezzo
