// Tensors made from nothing but numbers: constants, ranges, values of the host. Apart from core, whose
// `empty` and `zeros` they complete, because filling takes kernels.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// TensorOptions for tensors made of values: without a dtype the values decide.
struct ValueOptions {
  std::optional<DType> dtype = {};
  Device device = Device::cpu();
  bool requires_grad = false;
  operator RandomOptions() const;  ///< for random tensors (ops/random.h)
};

/// All elements `value`, converted to the dtype of the options (f32 unless given, whatever the value's kind).
[[nodiscard]] Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});
[[nodiscard]] Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// Shape, device and memory format of x (dense in it); its dtype unless another is given. No history, no
/// requires_grad.
[[nodiscard]] Tensor full_like(const Tensor& x, Scalar value, std::optional<DType> dtype = {});
[[nodiscard]] Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
[[nodiscard]] Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
[[nodiscard]] Tensor empty_like(const Tensor& x, std::optional<DType> dtype = {});

/// start + i * step for i in [0, ceil((end - start) / step)), computed in i64 or f64 and rounded once. i64
/// when start, end and step are integers, else f32, unless a dtype is given. Throws: ValueError for a step of
/// 0 or one that leads away from end.
[[nodiscard]] Tensor arange(Scalar start, Scalar end, Scalar step = 1, const ValueOptions& options = {});
[[nodiscard]] Tensor arange(Scalar start, Scalar end, const ValueOptions& options);
[[nodiscard]] Tensor arange(Scalar end, const ValueOptions& options = {});
/// `steps` numbers from start to end, both exact, at equal distances; only start for 1 step. Each is computed
/// from the nearer end, for dtypes up to f32 with a distance of f32, so that f32 has PyTorch's bits; for
/// integers between integer ends, cut off. f32 unless a dtype is given. Throws: ValueError for negative
/// steps. Source: torch.linspace.
[[nodiscard]] Tensor linspace(Scalar start, Scalar end, std::int64_t steps, const ValueOptions& options = {});
/// base to the power of linspace's numbers, with one rounding. Source: torch.logspace.
[[nodiscard]] Tensor logspace(Scalar start, Scalar end, std::int64_t steps, double base = 10,
                              const ValueOptions& options = {});
/// 1 on the diagonal of an n x m matrix (m = n unless given), 0 elsewhere.
[[nodiscard]] Tensor eye(std::int64_t n, std::optional<std::int64_t> m = {},
                         const TensorOptions& options = {});

namespace detail {
class NestedValues;
}
/// Nested lists of numbers of any depth: tensor({{1.0, 2.0}, {3.0, 4.0}}). Lists at one depth have one length
/// (ShapeError). i64 when all numbers are integers, bool when all are bools, else f32.
[[nodiscard]] Tensor tensor(const detail::NestedValues& values, const ValueOptions& options);
[[nodiscard]] inline Tensor tensor(const detail::NestedValues& values) {
  return tensor(values, ValueOptions{});
}

namespace detail {
/// Converts host values to the dtype of the options, or else to `natural`, and copies them to the device.
[[nodiscard]] Tensor from_host(const void* values, DType stored, std::int64_t count, const Shape& shape,
                               DType natural, const ValueOptions& options);

template <class T>
inline constexpr bool kIsHostReal = std::is_floating_point_v<T> || kIsNarrowFloat<T>;
/// Bool and narrow floats keep their type, other reals are f32, integers i64 (PyTorch's defaults).
template <class T>
inline constexpr DType kNaturalDType = std::is_same_v<T, bool> ? DType::boolean
                                       : kIsNarrowFloat<T>     ? dtype_of<T>
                                       : kIsHostReal<T>        ? DType::f32
                                                               : DType::i64;

template <class T, class List>
[[nodiscard]] Tensor from_list(const List& values, const Shape& shape, const ValueOptions& options) {
  using Wide = std::conditional_t<kIsHostReal<T>, double, std::int64_t>;
  std::vector<Wide> wide;
  wide.reserve(values.size());
  for (const T value : values) wide.push_back(static_cast<Wide>(value));
  return from_host(wide.data(), dtype_of<Wide>, static_cast<std::int64_t>(wide.size()), shape,
                   kNaturalDType<T>, options);
}
template <class T>
concept HostNumber = std::is_arithmetic_v<T> || kIsHostReal<T>;

/// A number, or a list of such.
class NestedValues {
 public:
  template <HostNumber T>
  NestedValues(T value) : natural_(kNaturalDType<T>) {
    if constexpr (kIsHostReal<T>)
      number_ = static_cast<double>(value);
    else
      number_ = value;
  }
  NestedValues(std::initializer_list<NestedValues> list) : list_(list), is_list_(true) {}

 private:
  friend Tensor mezzo::tensor(const NestedValues& values, const ValueOptions& options);
  /// Appends the sizes below; throws ShapeError for lists of several lengths.
  void check_shape(const Shape& shape, std::size_t depth) const;
  void collect(std::vector<double>& reals, std::vector<std::int64_t>& integers, DType& natural) const;

  std::vector<NestedValues> list_;
  Scalar number_;
  DType natural_ = DType::f32;
  bool is_list_ = false;
};

/// A tensor on memory that somebody else owns.
[[nodiscard]] Tensor on_memory(void* values, DType dtype, std::int64_t count, const Shape& shape);

template <class O>
concept OneOption = std::same_as<O, DType> || std::same_as<O, Device>;
/// Options with one of them given.
template <class Options, OneOption O>
[[nodiscard]] Options only(O option) {
  Options options;
  if constexpr (std::same_as<O, DType>)
    options.dtype = option;
  else
    options.device = option;
  return options;
}
}  // namespace detail

/// The given values, row-major, as a tensor of `shape`: tensor({1.0, 2.0}) is f32, tensor({1, 2}) i64,
/// tensor({true}) bool; a dtype in the options converts, rounding once. Throws: ShapeError when the shape
/// asks for another number of values.
template <detail::HostNumber T>
[[nodiscard]] Tensor tensor(std::initializer_list<T> values, const Shape& shape,
                            const ValueOptions& options = {}) {
  return detail::from_list<T>(values, shape, options);
}
template <detail::HostNumber T>
[[nodiscard]] Tensor tensor(const std::vector<T>& values, const Shape& shape,
                            const ValueOptions& options = {}) {
  return detail::from_list<T>(values, shape, options);
}
/// The given values as a 1-dim tensor.
template <detail::HostNumber T>
[[nodiscard]] Tensor tensor(std::initializer_list<T> values, const ValueOptions& options = {}) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, options);
}
template <detail::HostNumber T>
[[nodiscard]] Tensor tensor(const std::vector<T>& values, const ValueOptions& options = {}) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, options);
}
/// One number, 0-dim.
template <detail::HostNumber T>
[[nodiscard]] Tensor tensor(T value, const ValueOptions& options = {}) {
  return tensor({value}, {}, options);
}

// --- with a dtype or a device in the place of options: `zeros({2, 3}, DType::f16)`

template <detail::OneOption O>
[[nodiscard]] Tensor empty(const Shape& shape, O option) {
  return empty(shape, detail::only<TensorOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor zeros(const Shape& shape, O option) {
  return zeros(shape, detail::only<TensorOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor ones(const Shape& shape, O option) {
  return ones(shape, detail::only<TensorOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor full(const Shape& shape, Scalar value, O option) {
  return full(shape, value, detail::only<TensorOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor eye(std::int64_t n, O option) {
  return eye(n, {}, detail::only<TensorOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor arange(Scalar end, O option) {
  return arange(end, detail::only<ValueOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor arange(Scalar start, Scalar end, O option) {
  return arange(start, end, 1, detail::only<ValueOptions>(option));
}
template <detail::HostNumber T, detail::OneOption O>
[[nodiscard]] Tensor tensor(std::initializer_list<T> values, O option) {
  return tensor(values, detail::only<ValueOptions>(option));
}
template <detail::HostNumber T, detail::OneOption O>
[[nodiscard]] Tensor tensor(const std::vector<T>& values, O option) {
  return tensor(values, detail::only<ValueOptions>(option));
}
template <detail::OneOption O>
[[nodiscard]] Tensor tensor(const detail::NestedValues& values, O option) {
  return tensor(values, detail::only<ValueOptions>(option));
}

/// A tensor on memory of the caller's, row-major, which is neither copied nor freed: it must live as long as
/// the tensor and all views of it. Throws: ShapeError when the shape asks for another number of values.
template <class T>
requires(!std::is_const_v<T>) [[nodiscard]] Tensor from_span(std::span<T> values, const Shape& shape) {
  return detail::on_memory(values.data(), dtype_of<T>, static_cast<std::int64_t>(values.size()), shape);
}

/// A copy of host memory as it is, row-major: T is the storage type of the dtype (float gives f32, Half f16,
/// ...). Throws: ShapeError when the shape asks for another number of values.
template <class T>
[[nodiscard]] Tensor from_data(std::span<const T> values, const Shape& shape, Device device = Device::cpu()) {
  return detail::from_host(values.data(), dtype_of<T>, static_cast<std::int64_t>(values.size()), shape,
                           dtype_of<T>, {.device = device});
}

}  // namespace mezzo
