// A loader that brings its batches to a CUDA device: the bits of the CPU's batches, on the stream of the
// loop, for any number of workers.
#include "mezzo/core/cuda.h"
#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/cuda/device_fixture.h"
#include "mezzo/train.h"

namespace mezzo::data {
namespace {

class CudaLoader : public test::CudaTest {};

std::vector<Tensor> batches_on(Device device, int workers) {
  Generator generator(5);
  const TensorDataset dataset(randn({40, 300}, {}, generator), arange(40));
  DataLoader loader(transform(dataset, [](const Tensor& x, Random& random) { return x * random.uniform(); }),
                    {.batch_size = 6, .shuffle = true, .num_workers = workers, .device = device});
  std::vector<Tensor> batches;
  for (const auto& [x, y] : loader) {
    EXPECT_EQ(x.device(), device);
    EXPECT_EQ(y.device(), device);
    batches.push_back((x * 2).to(Device::cpu()));  // work of the loop's stream
    batches.push_back(y.to(Device::cpu()));
  }
  return batches;
}

TEST_F(CudaLoader, BatchesHaveTheBitsOfTheCpus) {
  const std::vector<Tensor> expected = batches_on(Device::cpu(), 0);
  for (const int workers : {0, 1, 3}) {
    const std::vector<Tensor> got = batches_on(Device::cuda(), workers);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(got[i], expected[i])) << i;
  }
}

TEST_F(CudaLoader, WorksOnTheStreamOfTheLoop) {
  const cuda::Stream stream(Device::cuda());
  const cuda::StreamGuard guard(stream);
  const std::vector<Tensor> expected = batches_on(Device::cpu(), 0), got = batches_on(Device::cuda(), 2);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(got[i], expected[i])) << i;
}

TEST_F(CudaLoader, EndsInTheMiddleOfAnEpoch) {
  for (int round = 0; round < 5; ++round) {
    DataLoader loader(TensorDataset(ones({100, 10})),
                      {.batch_size = 2, .num_workers = 2, .device = Device::cuda()});
    auto it = loader.begin();
    for (int i = 0; i < round; ++i) ++it;
  }
}

TEST_F(CudaLoader, ACheckpointOfTheCpuLoadsOnTheDeviceAndBack) {
  const std::string path = testing::TempDir() + "mezzo-cuda-checkpoint.safetensors";
  const auto make = [](Device device) {
    auto net = nn::make<nn::Linear>(3, 2);
    net->to(device);
    return net;
  };
  const auto step = [](nn::Linear& net, optim::AdamW& adam, Device device) {
    net(ones({2, 3}, {.device = device})).sum().backward();
    adam.step();
    adam.zero_grad();
  };
  const auto on_cpu = make(Device::cpu()), on_device = make(Device::cuda()), back = make(Device::cpu());
  optim::AdamW first(*on_cpu, {.lr = 0.1}), second(*on_device, {.lr = 0.5}), third(*back, {.lr = 0.5});
  step(*on_cpu, first, Device::cpu());
  train::save_checkpoint(path, {{"model", *on_cpu}, {"optimizer", first}});
  train::load_checkpoint(path, {{"model", *on_device}, {"optimizer", second}});
  EXPECT_EQ(on_device->parameters()[0].device(), Device::cuda());
  train::save_checkpoint(path, {{"model", *on_device}, {"optimizer", second}});
  train::load_checkpoint(path, {{"model", *back}, {"optimizer", third}});
  step(*on_cpu, first, Device::cpu());
  step(*back, third, Device::cpu());
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(equal(on_cpu->parameters()[i], back->parameters()[i]));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace mezzo::data
