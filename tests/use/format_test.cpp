// Printing by fmt::format and std::format, where they are there.
#if __has_include(<fmt/format.h>)
#ifndef FMT_SHARED  // clang 22 compiles the parts of fmt 9 and 10 that are in the library no more
#define FMT_HEADER_ONLY
#endif
#include <fmt/format.h>
#endif

#include "mezzo/format.h"

#include <gtest/gtest.h>

namespace mezzo {
namespace {

/// What both are to give for `format(pattern, value)`.
template <class Format>
void expect_texts(const Format& format) {
  EXPECT_EQ(format(tensor({1.0, 2.5})), "tensor([1.0000, 2.5000], shape=[2], dtype=f32)");
  const nn::Linear layer(4, 3);
  EXPECT_EQ(format(layer), "Linear(in_features=4, out_features=3, bias=true)");
  EXPECT_EQ(format(static_cast<const Tensor&>(layer.bias)), to_string(layer.bias));
  EXPECT_EQ(format(DType::bf16), "bf16");
  EXPECT_EQ(format(Device::cuda(1)), "cuda:1");
  EXPECT_EQ(format(zeros({2, 3}).shape()), "[2, 3]");
}

TEST(Format, ByFmt) {
#ifdef FMT_VERSION
  expect_texts([](const auto& value) { return fmt::format("{}", value); });
  EXPECT_EQ(fmt::format("{:>6}|{:<6}|", DType::f32, Device::cpu()), "   f32|cpu   |");
#else
  GTEST_SKIP() << "no fmt";
#endif
}

TEST(Format, ByTheStandardLibrary) {
#ifdef __cpp_lib_format
  expect_texts([](const auto& value) { return std::format("{}", value); });
  EXPECT_EQ(std::format("{:>6}|{:<6}|", DType::f32, Device::cpu()), "   f32|cpu   |");
#else
  GTEST_SKIP() << "the standard library has no <format>";
#endif
}

}  // namespace
}  // namespace mezzo
