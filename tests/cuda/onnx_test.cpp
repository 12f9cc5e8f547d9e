// A model on a GPU is exported as on the CPU: the same bytes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cuda/device_fixture.h"
#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

struct Net final : nn::Module {
  nn::Child<nn::Conv2d> conv{*this, "conv", nn::Conv2d(2, 4, 3)};
  nn::Child<nn::GroupNorm> norm{*this, "norm", nn::GroupNorm(2, 4)};
  nn::Child<nn::LSTM> lstm{*this, "lstm", nn::LSTM(4, 3)};
  Tensor forward(const Tensor& x) {
    const Tensor rows = permute(flatten(silu(norm(conv(x))), 2), {2, 0, 1});
    return lstm(rows).output + full({rows.size(1), 1}, 0.5, {.device = x.device()});
  }
};

std::string bytes_of(const std::shared_ptr<Net>& net, Device device, DType precision) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "mezzo_cuda_").string() +
                           std::to_string(::getpid()) + ".onnx";
  net->to(device);
  io::export_onnx(net, ones({2, 2, 5, 5}, {.device = device}), path, {.precision = precision});
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return bytes;
}

class CudaOnnx : public test::CudaTest {};

TEST_F(CudaOnnx, WritesWhatTheCpuWrites) {
  const auto net = nn::make<Net>();
  for (const DType precision : {DType::f32, DType::f16})
    EXPECT_EQ(bytes_of(net, Device::cuda(), precision), bytes_of(net, Device::cpu(), precision));
}

}  // namespace
}  // namespace mezzo
