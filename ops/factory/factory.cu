// full, ones, arange and eye, filled by kernels that compute each value from its index, and the `_like`
// forms. Values from the host are converted on the CPU and copied to the device.
#include "mezzo/ops/factory.h"

#include <cmath>
#include <string>

#include "mezzo/core/backend.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/promotion.h"
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/random/generate.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;

/// The number in a compute type, by the rules of conversion between dtypes (kernels/cpu/convert.h).
template <class T>
T converted(const Scalar& value, DType dtype) {
  if (dtype == DType::boolean)
    return static_cast<T>(value.kind() == DTypeKind::floating ? value.real() != 0 : value.integer() != 0);
  if (value.kind() != DTypeKind::floating) return value.to<T>();
  const double real = value.real();
  T result{};
  kernels::cpu::convert(&real, DType::f64, &result, dtype_of<T>, 1);
  return result;
}

void fill_with(const Tensor& out, const Scalar& value) {
  if (out.numel() == 0) return;
  const Scalar element = as_element(value, out.dtype());
  dispatch_compute(out.dtype(), [&]<class T>(TypeTag<T>) {
    kernels::generate<T>(out.device(), kernels::Constant<T>{converted<T>(element, out.dtype())},
                         kernels::in_memory_order(view_of(out)));
  });
}

/// start + i * step.
template <class T>
struct Range {
  T start, step;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, T* values) const {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t index = 4 * block + i;
      if constexpr (std::is_integral_v<T>)  // unsigned: what overflows belongs to no element
        values[i] = static_cast<T>(static_cast<std::uint64_t>(start) +
                                   static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>(step));
      else
        values[i] = kernels::math::detail::mul_add(static_cast<T>(index), step, start);
    }
  }
};

/// The numbers of linspace, each from the nearer end; with a base, that to the power of them.
struct Spacing {
  double start, end, step;
  std::int64_t steps;
  bool is_power;  ///< of base
  double base;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = 4 * block + i;
      const bool near_start = at < steps / 2;
      const auto places = static_cast<double>(near_start ? at : steps - 1 - at);
      values[i] = kernels::math::detail::mul_add(near_start ? step : -step, places, near_start ? start : end);
    }
    for (int i = 0; i < 4 && is_power; ++i) values[i] = kernels::math::pow(base, values[i]);
  }
};

Tensor spaced(std::string_view op, Scalar start, Scalar end, std::int64_t steps, std::optional<double> base,
              const ValueOptions& options) {
  if (steps < 0) throw ValueError(op, "at least 0 steps", std::to_string(steps), "count the numbers");
  const DType dtype = options.dtype.value_or(DType::f32);
  require_compute_dtype(op, dtype);
  Tensor out =
      empty({steps}, {.dtype = dtype, .device = options.device, .requires_grad = options.requires_grad});
  if (steps == 0) return out;
  if (!is_floating(dtype)) start = start.integer(), end = end.integer();
  double first = start.real(), last = end.real(),
         gaps = static_cast<double>(std::max<std::int64_t>(steps - 1, 1));
  double step = (last - first) / gaps;
  if (!base && compute_dtype(dtype) == DType::f32) {  // PyTorch's bits: products of f32 are exact in f64
    first = static_cast<float>(first), last = static_cast<float>(last);
    step = static_cast<float>(last - first) / static_cast<float>(gaps);
  }
  if (steps == 1) last = first;
  kernels::generate<double>(
      out.device(), Spacing{first, last, step, steps, base.has_value(), base.value_or(0)}, view_of(out));
  return out;
}

[[noreturn]] void refuse_range(const std::string& start, const std::string& end, const std::string& step) {
  throw ValueError("arange", "finite bounds and a step that leads from start to end",
                   "start " + start + ", end " + end + ", step " + step, "check the sign of the step");
}

std::int64_t range_size(std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step == 0 || (step > 0 ? end < start : end > start))
    refuse_range(std::to_string(start), std::to_string(end), std::to_string(step));
  const auto from = static_cast<std::uint64_t>(step > 0 ? start : end);
  const auto to = static_cast<std::uint64_t>(step > 0 ? end : start);
  const std::uint64_t distance = to - from;
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t count = distance / stride + (distance % stride != 0 ? 1 : 0);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(count, INT64_MAX));  // empty() refuses so many
}

std::int64_t range_size(double start, double end, double step) {
  const double count = std::ceil((end - start) / step);
  if (!std::isfinite(start) || !std::isfinite(end) || !std::isfinite(count) || !(count >= 0))
    refuse_range(number_text(start), number_text(end), number_text(step));
  return static_cast<std::int64_t>(std::min(count, 0x1p62));
}

template <class T>
Tensor range(T start, T end, T step, DType natural, const ValueOptions& options) {
  require_compute_dtype("arange", options.dtype.value_or(natural));
  Tensor out = empty({range_size(start, end, step)}, {.dtype = options.dtype.value_or(natural),
                                                      .device = options.device,
                                                      .requires_grad = options.requires_grad});
  if (out.numel() > 0) kernels::generate<T>(out.device(), Range<T>{start, step}, view_of(out));
  return out;
}

TensorOptions options_like(const Tensor& x, std::optional<DType> dtype) {
  return {
      .dtype = dtype.value_or(x.dtype()), .device = x.device(), .memory_format = x.suggest_memory_format()};
}

}  // namespace

Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  require_compute_dtype("full", options.dtype);
  Tensor out = empty(shape, options);
  fill_with(out, value);
  return out;
}

Tensor ones(const Shape& shape, const TensorOptions& options) { return full(shape, 1, options); }

Tensor full_like(const Tensor& x, Scalar value, std::optional<DType> dtype) {
  require_defined("full_like", x);
  return full(x.shape(), value, options_like(x, dtype));
}
Tensor ones_like(const Tensor& x, std::optional<DType> dtype) { return full_like(x, 1, dtype); }
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) {
  require_defined("zeros_like", x);
  return zeros(x.shape(), options_like(x, dtype));
}
Tensor empty_like(const Tensor& x, std::optional<DType> dtype) {
  require_defined("empty_like", x);
  return empty(x.shape(), options_like(x, dtype));
}

Tensor arange(Scalar start, Scalar end, Scalar step, const ValueOptions& options) {
  const auto is_real = [](const Scalar& number) { return number.kind() == DTypeKind::floating; };
  if (is_real(start) || is_real(end) || is_real(step))
    return range(start.real(), end.real(), step.real(), DType::f32, options);
  return range(start.integer(), end.integer(), step.integer(), DType::i64, options);
}
Tensor arange(Scalar start, Scalar end, const ValueOptions& options) {
  return arange(start, end, 1, options);
}
Tensor arange(Scalar end, const ValueOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(Scalar start, Scalar end, std::int64_t steps, const ValueOptions& options) {
  return spaced("linspace", start, end, steps, {}, options);
}
Tensor logspace(Scalar start, Scalar end, std::int64_t steps, double base, const ValueOptions& options) {
  return spaced("logspace", start, end, steps, base, options);
}

Tensor eye(std::int64_t n, std::optional<std::int64_t> m, const TensorOptions& options) {
  Tensor out = zeros({n, m.value_or(n)}, options);
  const std::int64_t length = std::min(out.size(0), out.size(1));
  if (length > 0) fill_with(alias(out, {length}, {out.size(1) + 1}, 0, false), 1);
  return out;
}

namespace detail {
Tensor from_host(const void* values, DType stored, std::int64_t count, const Shape& shape, DType natural,
                 const ValueOptions& options) {
  if (layout::checked_numel("tensor", shape) != count) {
    throw ShapeError("tensor", "a shape of " + std::to_string(count) + " elements", to_string(shape),
                     "give one value per element");
  }
  Tensor out = empty(shape, {.dtype = options.dtype.value_or(natural),
                             .device = options.device,
                             .requires_grad = options.requires_grad});
  const auto bytes = static_cast<std::size_t>(count * size_of(out.dtype()));
  std::vector<std::byte> converted;
  if (stored != out.dtype()) {
    converted.resize(bytes);
    kernels::cpu::convert(values, stored, converted.data(), out.dtype(), count);
    values = converted.data();
  }
  backend(out.device()).copy_from_host(out.impl().data(), values, bytes, out.device().index);
  return out;
}
}  // namespace detail

// --- nested lists and memory of others

void detail::NestedValues::check_shape(const Shape& shape, std::size_t depth) const {
  if (!is_list_ && depth == shape.size()) return;
  if (!is_list_ || depth == shape.size() || static_cast<std::int64_t>(list_.size()) != shape[depth]) {
    throw ShapeError("tensor", "lists of one length at each depth, as in " + to_string(shape),
                     is_list_ ? "one of " + std::to_string(list_.size()) : "a number",
                     "give each list as many elements as the first");
  }
  for (const NestedValues& one : list_) one.check_shape(shape, depth + 1);
}

void detail::NestedValues::collect(std::vector<double>& reals, std::vector<std::int64_t>& integers,
                                   DType& natural) const {
  for (const NestedValues& one : list_) one.collect(reals, integers, natural);
  if (is_list_) return;
  reals.push_back(number_.real());
  integers.push_back(number_.integer());
  natural = reals.size() == 1 ? natural_ : promote(natural, natural_);
}

Tensor tensor(const detail::NestedValues& values, const ValueOptions& options) {
  Shape shape;
  for (const detail::NestedValues* at = &values; at->is_list_; at = &at->list_.front()) {
    shape.push_back(static_cast<std::int64_t>(at->list_.size()));
    if (at->list_.empty()) break;
  }
  values.check_shape(shape, 0);
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  DType natural = DType::f32;
  values.collect(reals, integers, natural);
  const auto count = static_cast<std::int64_t>(reals.size());
  return is_floating(natural)
             ? detail::from_host(reals.data(), DType::f64, count, shape, natural, options)
             : detail::from_host(integers.data(), DType::i64, count, shape, natural, options);
}

Tensor detail::on_memory(void* values, DType dtype, std::int64_t count, const Shape& shape) {
  if (layout::checked_numel("from_span", shape) != count) {
    throw ShapeError("from_span", "a shape of " + std::to_string(count) + " elements", to_string(shape),
                     "pass as many values as the shape has elements");
  }
  const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
  return Tensor(make_ref<TensorImpl>(make_ref<Storage>(values, bytes), 0, shape,
                                     layout::contiguous_strides(shape), dtype, false));
}

}  // namespace mezzo
