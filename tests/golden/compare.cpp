// Values are compared on the host, floating ones in f64, integers and bools exactly. The message names the
// first element that differs, and what was allowed.
#include "golden/compare.h"

#include <cmath>
#include <cstdio>
#include <string>

namespace mezzo::golden {

namespace {

std::string text_of(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

bool close(double got, double want, Tolerance tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= tolerance.atol + tolerance.rtol * std::abs(want);
}

/// Position of a row-major offset, as "[1, 2]".
std::string index_text(const Shape& shape, std::int64_t offset) {
  Dims index(shape.size(), 0);
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = offset % shape[i];
    offset /= shape[i];
  }
  return to_string(std::span<const std::int64_t>(index));
}

[[noreturn]] void refuse(std::string_view what, const std::string& where, double got, double want,
                         Tolerance tolerance) {
  throw Mismatch(std::string(what) + where + ": got " + text_of(got) + ", want " + text_of(want) +
                 ", allowed " + text_of(tolerance.atol + tolerance.rtol * std::abs(want)));
}

template <class T>
void compare_exactly(std::string_view what, const Tensor& got, const Tensor& want) {
  const std::vector<T> a = got.to_vector<T>(), b = want.to_vector<T>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    throw Mismatch(std::string(what) + index_text(want.shape(), static_cast<std::int64_t>(i)) + ": got " +
                   std::to_string(a[i]) + ", want " + std::to_string(b[i]) + ", exactly");
  }
}

}  // namespace

Tolerance tolerance(const Value& meta, std::string_view name) {
  const Value& pair = meta.at("tol").at(name);
  return {pair.at(std::size_t{0}).as_double(), pair.at(std::size_t{1}).as_double()};
}

void expect_close(std::string_view what, const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (!got.defined()) throw Mismatch(std::string(what) + ": got no tensor");
  if (got.shape() != want.shape()) {
    throw Mismatch(std::string(what) + ": got shape " + to_string(got.shape()) + ", want " +
                   to_string(want.shape()));
  }
  if (is_floating(got.dtype()) != is_floating(want.dtype()))
    throw Mismatch(std::string(what) + ": got " + to_string(got.dtype()) + ", want " +
                   to_string(want.dtype()));
  if (!is_floating(want.dtype())) return compare_exactly<std::int64_t>(what, got, want);
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!close(a[i], b[i], tolerance))
      refuse(what, index_text(want.shape(), static_cast<std::int64_t>(i)), a[i], b[i], tolerance);
  }
}

void expect_close(std::string_view what, double got, double want, Tolerance tolerance) {
  if (!close(got, want, tolerance)) refuse(what, "", got, want, tolerance);
}

void expect_dtype(std::string_view what, DType got, DType want) {
  if (got == want) return;
  throw Mismatch(std::string(what) + ": got dtype " + to_string(got) + ", want " + to_string(want));
}

DType dtype_of_case(const std::string& name) {
  for (const DType dtype : kAllDTypes) {
    if (info(dtype).name == name) return dtype;
  }
  throw NotSupported("dtype " + name);
}

}  // namespace mezzo::golden
