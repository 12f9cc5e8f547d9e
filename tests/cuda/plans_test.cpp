// cuda::plans(): a line for each product and convolution, with what it runs with; and how long plans are
// kept.
#include <gtest/gtest.h>

#include <mezzo/mezzo.h>

#include <optional>
#include <string>
#include <vector>

#include "cuda/device_fixture.h"
#if MEZZO_CUDA_EMULATED
#include "emulated_cuda/blas_lt.h"
#include "mezzo/core/cuda/graph.h"
#endif

namespace mezzo {
namespace {

class CudaPlans : public test::CudaTest {
 protected:
  void TearDown() override {
    cuda::set_benchmark(false);
#if MEZZO_CUDA_EMULATED
    emulated_cuda::blas_lt().offered = emulated_cuda::Epilogues::all;
#endif
  }
};

Tensor ones_of(const Shape& shape, DType dtype) {
  return ones(shape, {.dtype = dtype, .device = Device::cuda(0)});
}

/// What stands behind the beginning of a line, "" if no line begins so.
std::string rest_of_line(const std::string& beginning) {
  const std::string text = "\n" + cuda::plans();
  const std::size_t at = text.find("\n" + beginning);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + 1 + beginning.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST_F(CudaPlans, OfProductsSayAlgorithmAndEpilogue) {
  static_cast<void>(matmul(ones_of({48, 40}, DType::f16), ones_of({40, 56}, DType::f16)));
  const std::string product = rest_of_line("cuda:0 matmul [48, 40] x [40, 56], f16 to f16: algorithm ");
  for (const char* const part : {", tile ", ", stages ", ", split ", ", workspace ", " bytes, recommended"})
    EXPECT_NE(product.find(part), std::string::npos) << part << " is not in " << product;

  static_cast<void>(
      linear(ones_of({32, 24}, DType::f16), ones_of({16, 24}, DType::f16), ones_of({16}, DType::f16)));
  EXPECT_NE(rest_of_line("cuda:0 matmul [32, 24] x [24, 16], f16 to f16, with bias: "), "");
}

TEST_F(CudaPlans, SayWhatWasTimed) {
  cuda::set_benchmark(true);
  static_cast<void>(matmul(ones_of({3, 64, 40}, DType::f32), ones_of({3, 40, 24}, DType::f32)));
  const std::string product = rest_of_line("cuda:0 matmul [3, 64, 40] x [3, 40, 24], f32 to f32: ");
  EXPECT_NE(product.find(", fastest"), std::string::npos) << product;
}

TEST_F(CudaPlans, OfConvolutionsSayTheEngine) {
  static_cast<void>(conv2d(ones_of({2, 16, 9, 9}, DType::f16), ones_of({32, 16, 3, 3}, DType::f16),
                           ones_of({32}, DType::f16)));
  if (cuda::plans().find(" conv forward ") == std::string::npos) GTEST_SKIP() << "cuDNN is not there";
  const std::string conv = rest_of_line(
      "cuda:0 conv forward x [2, 16, 1, 9, 9], weight [32, 16, 1, 3, 3], f16 to f16, with bias: engine ");
  EXPECT_NE(conv.find(", workspace "), std::string::npos) << conv;
}

#if MEZZO_CUDA_EMULATED
TEST_F(CudaPlans, SayWhatTheLibraryDoesNotHave) {
  emulated_cuda::blas_lt().offered = emulated_cuda::Epilogues::none;
  static_cast<void>(
      linear(ones_of({32, 8}, DType::f32), ones_of({64, 8}, DType::f32), ones_of({64}, DType::f32)));
  EXPECT_EQ(rest_of_line("cuda:0 matmul [32, 8] x [8, 64], f32 to f32, with bias: "),
            "none, so it is computed another way");
}

/// A convolution whose result is twice x.
class CudaConvPlans : public CudaPlans {
 protected:
  static Tensor convolved(const Tensor& x, std::int64_t stride = 1) {
    return conv2d(x, ones_of({1, 1, 2, 1}, DType::f32), {}, {.stride = stride});
  }
  static Tensor input(std::int64_t width) { return ones_of({1, 1, 2, width}, DType::f32); }
  static bool is_known(std::int64_t width) {
    return !rest_of_line("cuda:0 conv forward x [1, 1, 1, 2, " + std::to_string(width) +
                         "], weight [1, 1, 1, 2, 1], f32 to f32: ")
                .empty();
  }
  /// So many new convolutions that those before are forgotten, but for those that have to stay.
  static void meet_others() {
    static std::int64_t stride = 2;
    for (int i = 0; i < 1025; ++i) static_cast<void>(convolved(input(3), stride++));
  }

  void SetUp() override {
    CudaPlans::SetUp();
    if (IsSkipped()) return;
    static_cast<void>(convolved(x));
    ASSERT_TRUE(is_known(kWidth));
  }
  static constexpr std::int64_t kWidth = 5;
  Tensor x = input(kWidth), y;
};

TEST_F(CudaConvPlans, AreForgottenAtTheirLimitButThoseOfGraphs) {
  std::optional<cuda::Graph> first(std::in_place, Device::cuda(0), [&] { static_cast<void>(convolved(x)); });
  std::optional<cuda::Graph> second(std::in_place, Device::cuda(0), [&] { y = convolved(x); });
  static_cast<void>(convolved(input(kWidth + 1)));
  ASSERT_TRUE(is_known(kWidth + 1));
  first.reset();
  meet_others();
  EXPECT_FALSE(is_known(kWidth + 1));
  EXPECT_TRUE(is_known(kWidth));
  x.fill_(4);
  second->replay();
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(kWidth, 8)) << "NaN: the plan is gone";
  second.reset();
  EXPECT_TRUE(is_known(kWidth));
  meet_others();
  EXPECT_FALSE(is_known(kWidth)) << "no graph needs it";
}

TEST_F(CudaConvPlans, AreForgottenAfterAFailedCapture) {
  EXPECT_THROW(cuda::Graph(Device::cuda(0), [&] { static_cast<void>(convolved(x).to_vector<float>()); }),
               StateError);
  meet_others();
  EXPECT_FALSE(is_known(kWidth));
}

TEST_F(CudaConvPlans, BelongToTheInnerOfTwoCaptures) {
  std::optional<cuda::Graph> inner;
  const cuda::Graph outer(Device::cuda(0),
                          [&] { inner.emplace(Device::cuda(0), [&] { y = convolved(x); }); });
  meet_others();
  EXPECT_TRUE(is_known(kWidth));
  inner.reset();
  meet_others();
  EXPECT_FALSE(is_known(kWidth));
}
#endif

}  // namespace
}  // namespace mezzo
