// Results against those of another machine, bit for bit: checksums of every op's results and gradients in
// f32, f16 and bf16, and of larger sums, poolings and random numbers, are compared with a file of such that
// was made on x86-64 (files/results.txt). The file says nothing about what is right, which is all other
// tests' affair, but that every processor, compiler and instruction set computes the same. f64 is not in it:
// there exp, log and their kin are the C library's.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "mezzo/core/random.h"
#include "mezzo/ops/pooling.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/reduction.h"
#include "support/data_folder.h"
#include "sweep/case.h"

namespace mezzo::sweep {
namespace {

constexpr std::array kDTypes{DType::f32, DType::f16, DType::bf16};

/// FNV-1a over dtypes, shapes and elements in row-major order. All NaNs are one: which sign and payload a new
/// one has is the processor's choice.
class Checksum {
 public:
  void add(const Tensor& x) {
    if (!x.defined()) return add_byte(0xff);
    add_byte(static_cast<unsigned char>(x.dtype()));
    for (const std::int64_t size : x.shape()) add_bytes(&size, sizeof size);
    const Tensor row_major = x.detach().contiguous();
    const auto size = static_cast<std::size_t>(size_of(x.dtype()));
    const auto* from = static_cast<const unsigned char*>(row_major.impl().data());
    const std::vector<double> values = is_floating(x.dtype()) ? x.to_vector<double>() : std::vector<double>();
    for (std::int64_t i = 0; i < x.numel(); ++i, from += size) {
      if (!values.empty() && std::isnan(values[static_cast<std::size_t>(i)]))
        add_byte(0xfe);
      else
        add_bytes(from, size);
    }
  }
  void add(const Result& result) {
    for (const Tensor& output : result.outputs) add(output);
    for (const Tensor& gradient : result.gradients) add(gradient);
  }
  [[nodiscard]] std::string text() const {
    char buffer[17];
    std::snprintf(buffer, sizeof buffer, "%08x", static_cast<unsigned>(value_ ^ (value_ >> 32)));
    return buffer;
  }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3U; }
  void add_bytes(const void* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add_byte(static_cast<const unsigned char*>(bytes)[i]);
  }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// A case, and where elements do not depend on each other also full vectors and a rest.
void add_case(Checksum& sum, const Case& one, DType dtype) {
  sum.add(run(one, forward_of(one), make_inputs(one, dtype)));
  if (!one.info().elementwise) return;
  Case longer = one;
  for (SampleInput& input : longer.inputs) input.shape = {1031};
  sum.add(run(longer, forward_of(longer), make_inputs(longer, dtype)));
}

using Results = std::map<std::string, std::string>;

Results results_of_ops() {
  Results results;
  for (const RegistryEntry* op : all_ops()) {
    std::string& line = results[std::string(op->info().name.value)];
    for (const DType dtype : kDTypes) {
      Checksum sum;
      for (const Case& one : cases_of(*op)) add_case(sum, one, dtype);
      line += ' ' + sum.text();
    }
  }
  return results;
}

/// What is larger than the ops' samples, of numbers between -1 and 1.
Results results_of_arrays() {
  const std::map<std::string, std::function<Tensor(const Tensor&)>> functions{
      {"array.sum", [](const Tensor& x) { return sum(x); }},
      {"array.sum_of_columns",
       [](const Tensor& x) {
         return sum(x, {0, 1});
       }},
      {"array.sum_of_rows",
       [](const Tensor& x) {
         return sum(x, {2, 3});
       }},
      {"array.var", [](const Tensor& x) { return var(x, {3}); }},
      {"array.max_pool", [](const Tensor& x) { return max_pool2d(x, 3, 2, 1); }},
      {"array.avg_pool", [](const Tensor& x) { return avg_pool2d(x, 3, 2, 1); }},
      {"array.adaptive_avg_pool", [](const Tensor& x) { return adaptive_avg_pool2d(x, 5); }},
      {"random.rand",
       [](const Tensor& x) {
         Generator g(7);
         return rand_like(x, g);
       }},
      {"random.randn",
       [](const Tensor& x) {
         Generator g(7);
         return randn_like(x, g);
       }},
      {"random.randint",
       [](const Tensor&) {
         Generator g(7);
         return randint(-5, 1000, {1031}, {}, g);
       }},
      {"random.randperm",
       [](const Tensor&) {
         Generator g(7);
         return randperm(1031, {}, g);
       }},
  };
  Results results;
  for (const auto& [name, function] : functions) {
    for (const DType dtype : kDTypes) {
      Checksum sum;
      sum.add(function(direction({3, 5, 67, 41}, dtype, 1)));
      results[name] += ' ' + sum.text();
    }
  }
  return results;
}

TEST(RegistrySweepItself, ResultsAreThoseOfAnX86Processor) {
  if (std::getenv("MEZZO_CPU_GEMM") != nullptr) GTEST_SKIP() << "an engine was named, whose bits are its own";
  Results results = results_of_ops();
  results.merge(results_of_arrays());
  const std::string cure =
      "on x86-64, MEZZO_WRITE_RESULTS=tests/sweep/files/results.txt "
      "build/release/tests/registry_sweep --gtest_filter=*X86* makes the file anew";
  if (const char* const file = std::getenv("MEZZO_WRITE_RESULTS")) {
    std::ofstream out(file);
    out << "# Checksums in f32, f16 and bf16, see machines.cpp; " << cure << "\n";
    for (const auto& [name, sums] : results) out << name << sums << "\n";
    ASSERT_TRUE(out.flush().good()) << "cannot write " << file;
  }
  std::ifstream file(test::data_folder() + "/sweep/files/results.txt");
  Results expected;
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.find(' ');
    if (line[0] != '#') expected[line.substr(0, end)] = line.substr(end);
  }
  for (const auto& [name, sums] : results)
    EXPECT_EQ(sums, expected[name]) << name << "; if that was the aim of a change: " << cure;
  EXPECT_EQ(expected.size(), results.size()) << "ops that are no more; " << cure;
}

}  // namespace
}  // namespace mezzo::sweep
