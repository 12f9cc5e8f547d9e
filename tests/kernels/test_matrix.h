// Matrices of any dtype and any strides for the GEMM tests, with guard elements around them, and the oracle:
// the product as three loops in f64 (or modulo 2^64) on the stored values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels::test {

/// How the elements of a matrix lie in memory.
enum class Layout { by_rows, by_cols, padded_rows, padded_cols, spread, reversed };

inline constexpr Layout kLayouts[] = {Layout::by_rows,     Layout::by_cols, Layout::padded_rows,
                                      Layout::padded_cols, Layout::spread,  Layout::reversed};

/// One stored element as a number; i64 values of the tests are below 2^53.
inline double load(const std::uint8_t* at, DType dtype) {
  return dispatch(dtype, [&]<class T>(TypeTag<T>) {
    T x;
    std::memcpy(&x, at, sizeof x);
    return static_cast<double>(x);
  });
}

inline void store(std::uint8_t* at, DType dtype, double value) {
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    const T x = static_cast<T>(value);
    std::memcpy(at, &x, sizeof x);
  });
}

/// A batch of matrices [rows, cols] in a buffer whose other bytes are a pattern that must survive.
class Matrix {
 public:
  Matrix(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t cols,
         Layout layout = Layout::by_rows)
      : dtype_(dtype), batch_(batch), rows_(rows), cols_(cols) {
    switch (layout) {
      case Layout::by_rows:
        row_stride_ = cols, col_stride_ = 1;
        break;
      case Layout::by_cols:
        row_stride_ = 1, col_stride_ = rows;
        break;
      case Layout::padded_rows:
        row_stride_ = cols + 5, col_stride_ = 1;
        break;
      case Layout::padded_cols:
        row_stride_ = 1, col_stride_ = rows + 3;
        break;
      case Layout::spread:
        row_stride_ = 3 * cols + 1, col_stride_ = 3;
        break;
      case Layout::reversed:
        row_stride_ = -(cols + 2), col_stride_ = 1;
        break;
    }
    const std::int64_t extent = std::abs(row_stride_) * std::max<std::int64_t>(rows - 1, 0) +
                                std::abs(col_stride_) * std::max<std::int64_t>(cols - 1, 0) + 1;
    batch_stride_ = extent + 2;
    first_ = 7 + (row_stride_ < 0 ? -row_stride_ * std::max<std::int64_t>(rows - 1, 0) : 0);
    bytes_.assign(static_cast<std::size_t>((7 + batch * batch_stride_ + 7) * size_of(dtype)), 0xFF);
  }

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::int64_t batch_stride() const { return batch_stride_; }
  [[nodiscard]] std::int64_t row_stride() const { return row_stride_; }
  [[nodiscard]] std::int64_t col_stride() const { return col_stride_; }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  [[nodiscard]] std::uint8_t* data() { return at(0, 0, 0); }
  [[nodiscard]] double get(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return load(const_cast<Matrix*>(this)->at(b, i, j), dtype_);
  }
  void set(std::int64_t b, std::int64_t i, std::int64_t j, double value) {
    store(at(b, i, j), dtype_, value);
  }

  /// Every matrix of the batch is the first one from now on.
  void broadcast() { batch_stride_ = 0; }

  template <class F>
  void for_each(F f) {
    for (std::int64_t b = 0; b < batch_; ++b) {
      for (std::int64_t i = 0; i < rows_; ++i) {
        for (std::int64_t j = 0; j < cols_; ++j) f(b, i, j);
      }
    }
  }

  /// Values in [-1, 1] for floating dtypes, small whole numbers for the others.
  Matrix& randomize(unsigned seed) {
    std::mt19937 random(seed);
    for_each([&](std::int64_t b, std::int64_t i, std::int64_t j) {
      const auto word = static_cast<std::int32_t>(random());
      if (is_floating(dtype_))
        set(b, i, j, word * 0x1p-31);
      else if (dtype_ == DType::boolean)
        set(b, i, j, word & 1);
      else
        set(b, i, j, dtype_ == DType::u8 ? word & 15 : word % 100);
    });
    return *this;
  }
  Matrix& fill(double value) {
    for_each([&](std::int64_t b, std::int64_t i, std::int64_t j) { set(b, i, j, value); });
    return *this;
  }

  /// The bytes outside of the elements are as they were.
  [[nodiscard]] bool guards_intact() const {
    Matrix copy = *this;
    const auto size = static_cast<std::size_t>(size_of(dtype_));
    copy.for_each(
        [&](std::int64_t b, std::int64_t i, std::int64_t j) { std::memset(copy.at(b, i, j), 0xFF, size); });
    return std::all_of(copy.bytes_.begin(), copy.bytes_.end(), [](std::uint8_t x) { return x == 0xFF; });
  }

 private:
  std::uint8_t* at(std::int64_t b, std::int64_t i, std::int64_t j) {
    const std::int64_t element = first_ + b * batch_stride_ + i * row_stride_ + j * col_stride_;
    return bytes_.data() + element * size_of(dtype_);
  }

  DType dtype_;
  std::int64_t batch_, rows_, cols_, row_stride_ = 0, col_stride_ = 0, batch_stride_ = 0, first_ = 0;
  std::vector<std::uint8_t> bytes_;
};

inline GemmArgs make_args(Matrix& a, Matrix& b, Matrix& c, double alpha = 1, double beta = 0) {
  GemmArgs args;
  args.batch = c.batch();
  args.m = c.rows();
  args.n = c.cols();
  args.k = a.cols();
  args.a = a.data();
  args.a_dtype = a.dtype();
  args.a_batch_stride = a.batch_stride();
  args.a_row_stride = a.row_stride();
  args.a_col_stride = a.col_stride();
  args.b = b.data();
  args.b_dtype = b.dtype();
  args.b_batch_stride = b.batch_stride();
  args.b_row_stride = b.row_stride();
  args.b_col_stride = b.col_stride();
  args.c = c.data();
  args.c_dtype = c.dtype();
  args.c_batch_stride = c.batch_stride();
  args.c_row_stride = c.row_stride();
  args.c_col_stride = c.col_stride();
  args.alpha = alpha;
  args.beta = beta;
  return args;
}

/// One element of alpha * A.B + beta * C in f64, and the size of what was added up, for the error bound.
struct Exact {
  double value = 0, magnitude = 0;
};

/// All elements, in the order of Matrix::for_each. `c` holds what stood in C before.
inline std::vector<Exact> exact_product(Matrix a, Matrix b, Matrix c, double alpha = 1, double beta = 0) {
  const auto numbers = [](Matrix& x) {
    std::vector<double> values;
    x.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) { values.push_back(x.get(q, i, j)); });
    return values;
  };
  const std::vector<double> a_values = numbers(a), b_values = numbers(b);
  const std::int64_t k = a.cols(), n = b.cols();
  std::vector<Exact> result;
  c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) {
    const double* const left = a_values.data() + (q * a.rows() + i) * k;
    const double* const right = b_values.data() + q * k * n + j;
    Exact sum;
    for (std::int64_t p = 0; p < k; ++p) {
      const double product = left[p] * right[p * n];
      sum.value += product;
      sum.magnitude += std::fabs(product);
    }
    const double old = beta == 0 ? 0 : beta * c.get(q, i, j);
    result.push_back({alpha * sum.value + old, std::fabs(alpha) * sum.magnitude + std::fabs(old)});
  });
  return result;
}

/// What may be between a computed element and the exact one: the bound that gemm.h promises.
inline double error_bound(const Exact& exact, std::int64_t k, DType computed_in, DType stored_as) {
  const double in_sum = static_cast<double>(k + 2) * info(computed_in).eps * exact.magnitude;
  const double smallest = stored_as == DType::f16 ? 0x1p-24 : 0;
  return in_sum + 0.5 * info(stored_as).eps * (std::fabs(exact.value) + in_sum) + smallest;
}

/// The engine beside which native bf16 products are: oneDNN, whose they are; on ARM they are our own.
#if defined(__aarch64__)
inline constexpr cpu::GemmEngine kNativeEngine = cpu::GemmEngine::automatic;
#else
inline constexpr cpu::GemmEngine kNativeEngine = cpu::GemmEngine::onednn;
#endif

inline bool has_native_bf16() {
  try {
    cpu::set_bf16_gemm(cpu::Bf16Gemm::native);
  } catch (const ValueError&) {
    return false;
  }
  cpu::set_bf16_gemm(cpu::Bf16Gemm::automatic);
  return true;
}

}  // namespace mezzo::kernels::test
