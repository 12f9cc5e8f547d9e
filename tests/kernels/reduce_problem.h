// What tests of reductions share: strided arrays with memory of their own, shapes with their reduced dims,
// and what a reduction makes of them.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mezzo/core/layout.h"
#include "mezzo/kernels/reduce/reduce.h"

namespace mezzo::kernels::reduce_test {

/// A strided array with its own memory.
struct Array {
  std::vector<std::byte> memory;
  View view;
  [[nodiscard]] View show() {
    View shown = view;
    shown.data = memory.data();
    return shown;
  }
};

/// How an array lies in memory: row-major, transposed, or with gaps.
enum class Memory { contiguous, reversed, gaps };
constexpr Memory kLayouts[] = {Memory::contiguous, Memory::reversed, Memory::gaps};

inline Dims strides_of(const Shape& shape, Memory memory) {
  Dims strides = layout::contiguous_strides(shape);
  if (memory == Memory::gaps) {
    for (std::int64_t& stride : strides) stride *= 2;
  } else if (memory == Memory::reversed) {
    std::int64_t step = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      strides[d] = step;
      step *= std::max<std::int64_t>(shape[d], 1);
    }
  }
  return strides;
}

/// Values in row-major order as `dtype`, laid out as told.
inline Array make(const Shape& shape, DType dtype, const std::vector<double>& values, Memory memory) {
  Array array;
  array.view = {nullptr, dtype, shape, strides_of(shape, memory)};
  array.memory.resize(static_cast<std::size_t>((2 * layout::numel(shape) + 1) * size_of(dtype)));
  const cpu::StridedSpace space(shape, array.view.strides);
  for (std::int64_t i = 0; i < layout::numel(shape); ++i) {
    cpu::convert(&values[static_cast<std::size_t>(i)], DType::f64,
                 array.memory.data() + space.offset(i) * size_of(dtype), dtype, 1);
  }
  return array;
}

/// The elements in row-major order, as stored, in f64.
inline std::vector<double> values_of(Array& array) {
  const std::int64_t n = layout::numel(array.view.shape);
  const cpu::StridedSpace space(array.view.shape, array.view.strides);
  std::vector<double> result(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    cpu::convert(array.memory.data() + space.offset(i) * size_of(array.view.dtype), array.view.dtype,
                 &result[static_cast<std::size_t>(i)], DType::f64, 1);
  }
  return result;
}

inline std::vector<double> random_values(std::int64_t n, unsigned seed, double low = -2, double high = 2) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) value = uniform(random);
  return values;
}

/// One reduction problem: a shape and a bit per reduced dim.
struct Problem {
  Shape shape;
  unsigned mask;
  [[nodiscard]] Shape kept() const {
    Shape result;
    for (std::size_t d = 0; d < shape.size(); ++d) result.push_back((mask >> d & 1U) != 0 ? 1 : shape[d]);
    return result;
  }
  /// Elements of each output, in row-major order of the reduced dims.
  [[nodiscard]] std::vector<std::vector<double>> groups(const std::vector<double>& values) const {
    std::vector<std::vector<double>> result(static_cast<std::size_t>(layout::numel(kept())));
    const Dims strides = layout::contiguous_strides(kept());
    for (std::int64_t i = 0; i < layout::numel(shape); ++i) {
      std::int64_t rest = i, output = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        if ((mask >> d & 1U) == 0) output += rest % shape[d] * strides[d];
        rest /= shape[d];
      }
      result[static_cast<std::size_t>(output)].push_back(values[static_cast<std::size_t>(i)]);
    }
    return result;
  }
  [[nodiscard]] std::string name() const { return to_string(shape) + " mask " + std::to_string(mask); }
};

/// A fresh output for a problem, and its view in the input's shape.
inline Array make_output(const Problem& problem, DType dtype) {
  return make(problem.kept(), dtype,
              std::vector<double>(static_cast<std::size_t>(layout::numel(problem.kept())), 77),
              Memory::contiguous);
}
inline View spread(Array& out, const Problem& problem) {
  View view = out.show();
  view.shape = problem.shape;
  for (std::size_t d = 0; d < problem.shape.size(); ++d) {
    if ((problem.mask >> d & 1U) != 0) view.strides[d] = 0;
  }
  return view;
}

template <class R>
Array run(R reducer, const Problem& problem, Array in, DType out_dtype, DType compute) {
  Array out = make_output(problem, out_dtype);
  reduce(Device::cpu(), reducer, spread(out, problem), in.show(), compute);
  return out;
}

/// Shapes around every limit of the plan, each with all combinations of reduced dims.
inline std::vector<Problem> problems() {
  const std::vector<Shape> shapes{{3, 5, 4, 37}, {2, 1, 70, 33}, {1100, 3}, {3, 1100}, {16400, 2},
                                  {2, 16400},    {150, 1030},    {1, 1},    {},        {33, 2, 31}};
  std::vector<Problem> result;
  for (const Shape& shape : shapes) {
    for (unsigned mask = 0; mask < (1U << shape.size()); ++mask) result.push_back({shape, mask});
  }
  return result;
}

inline long double exact_sum(const std::vector<double>& group) {
  long double sum = 0;
  for (const double value : group) sum += value;
  return sum;
}

/// Distance to the next larger number of a dtype at |value|.
inline double ulp(DType dtype, double value) {
  const double smallest = dtype == DType::f16 ? 0x1p-14 : dtype == DType::f64 ? 0x1p-1022 : 0x1p-126;
  int exponent = 0;
  std::frexp(std::max(std::abs(value), smallest), &exponent);
  return std::ldexp(info(dtype).eps, exponent - 1);
}

}  // namespace mezzo::kernels::reduce_test
