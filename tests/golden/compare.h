// How results are compared with goldens: the rule of the goldens' README, in one place.
#pragma once

#include <string_view>

#include "golden/case_file.h"

namespace mezzo::golden {

/// |got - want| <= atol + rtol * |want|.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

/// The tolerance `name` of a case; throws ValueError when the case has none.
[[nodiscard]] Tolerance tolerance(const Value& meta, std::string_view name);

/// Throws Mismatch, naming the first element that differs, unless `got` is `want`: the same shape; within the
/// tolerance; NaN where NaN, infinities of the same sign; integers and bools exactly. dtypes may differ, as
/// references of 16-bit results are stored in f32.
void expect_close(std::string_view what, const Tensor& got, const Tensor& want, Tolerance tolerance);

/// Throws Mismatch unless the numbers agree by the same rule.
void expect_close(std::string_view what, double got, double want, Tolerance tolerance);

/// Throws Mismatch unless the dtypes are one.
void expect_dtype(std::string_view what, DType got, DType want);

/// A case's names for dtypes, which are mezzo's; NotSupported for others.
[[nodiscard]] DType dtype_of_case(const std::string& name);

}  // namespace mezzo::golden
