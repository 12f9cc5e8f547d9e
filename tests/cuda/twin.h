// Tests that run the same case on the CPU and on the CUDA device and compare what both report. They skip,
// saying why, where no device is.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/cuda/device_fixture.h"

namespace mezzo::twin {

using test::has_tf32;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// What a case saw, in order. Reads to the host happen here and nowhere else.
struct Trace {
  struct Entry {
    std::string what;
    DType dtype;
    std::vector<double> values;
    double scale;
  };
  std::vector<Entry> entries;

  /// `scale`: how large terms are of which a value may be the difference; the tolerance is relative to it
  /// too.
  void add(const std::string& what, const Tensor& tensor, double scale = 0x1p-12) {
    entries.push_back({what, tensor.dtype(), tensor.detach().to_vector<double>(), scale});
  }
  /// Numbers that have to agree exactly.
  void add(const std::string& what, double value) { entries.push_back({what, DType::i64, {value}, 0}); }
};

/// How far apart a value may be, relative to it: a few roundings of the compute type, because pow of the two
/// devices differs in its last bit, and for 16-bit values one of their own.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f32:
      return 0x1p-20;
    case DType::f64:
      return 0x1p-48;
    default:
      return 0;
  }
}

inline bool agrees(double a, double b, double relative, double scale) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  return a == b || std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + relative * scale;
}

/// Runs the case on both devices and compares entry by entry; `factor` widens the tolerance.
inline void expect_same(const std::function<void(Device, Trace&)>& run, double factor = 1) {
  Trace cpu, cuda;
  run(Device::cpu(), cpu);
  run(Device::cuda(0), cuda);
  ASSERT_GT(cpu.entries.size(), 0U) << "the case reported nothing";
  ASSERT_EQ(cuda.entries.size(), cpu.entries.size());
  for (std::size_t e = 0; e < cpu.entries.size(); ++e) {
    const Trace::Entry& expected = cpu.entries[e];
    const Trace::Entry& got = cuda.entries[e];
    ASSERT_EQ(got.what, expected.what);
    ASSERT_EQ(got.dtype, expected.dtype) << got.what;
    ASSERT_EQ(got.values.size(), expected.values.size()) << got.what;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      ASSERT_TRUE(agrees(got.values[i], expected.values[i], factor * tolerance(got.dtype), expected.scale))
          << got.what << ", element " << i << ": " << got.values[i] << " on the CUDA device, "
          << expected.values[i] << " on the CPU";
    }
  }
}

/// Reproducible values in [-1, 1), the same on both devices.
inline Tensor values(std::uint64_t seed, const Shape& shape, DType dtype, Device device) {
  Generator generator(seed);
  return uniform(-1, 1, shape, {.dtype = DType::f64}, generator).to(dtype).to(device);
}

/// A leaf of such values.
inline Tensor leaf(std::uint64_t seed, const Shape& shape, DType dtype, Device device) {
  const Tensor result = values(seed, shape, dtype, device).detach();
  result.requires_grad_();
  return result;
}

/// Sets element `index` (counted from the end when negative) of a contiguous tensor.
inline void set_element(const Tensor& tensor, std::int64_t index, double value) {
  const Tensor flat = view(tensor.detach(), {tensor.numel()});
  slice(flat, 0, index, index == -1 ? std::nullopt : std::optional(index + 1)).fill_(value);
}

/// Base of the test suites.
class CudaTwin : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable();
  }
};

}  // namespace mezzo::twin
