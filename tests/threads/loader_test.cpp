// Workers of data loaders: several loaders at once, ended at any moment, and a save in the background beside
// training.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/threads/together.h"
#include "mezzo/train.h"

namespace mezzo {
namespace {

/// The sum over `epochs` of what a loader with random transforms gives.
double total(int workers, int epochs) {
  const data::TensorDataset dataset(arange(64 * 12).to(DType::f32).reshape({64, 1, 3, 4}), arange(64));
  data::DataLoader loader(
      data::transform(dataset, data::Compose(data::RandomHorizontalFlip(), data::Normalize({0.5}, {2}))),
      {.batch_size = 4, .shuffle = true, .num_workers = workers}, data::MixUp(64));
  double sum = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& [x, y] : loader) sum += (x * y.sum(1).reshape({-1, 1, 1, 1})).sum().item() * (epoch + 1);
  }
  return sum;
}

TEST(LoaderThreads, SeveralLoadersAtOnce) {
  const double expected = total(0, 2);
  std::atomic<int> wrong = 0;
  test::run_together(3, [&](int) { wrong += total(3, 2) == expected ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

TEST(LoaderThreads, EndAtAnyMoment) {
  const data::IterableDataset numbers([](std::uint64_t) {
    return [i = 0]() mutable { return i < 1000 ? std::optional(tensor(i++)) : std::nullopt; };
  });
  const auto fails = data::transform(data::TensorDataset(arange(100)), [](const Tensor& x) {
    if (x.item<std::int64_t>() == 77) throw std::runtime_error("77");
    return x + 1;
  });
  for (int round = 0; round < 20; ++round) {
    data::DataLoader stream(numbers, {.batch_size = 3, .num_workers = 3});
    auto it = stream.begin();
    for (int i = 0; i < round; ++i) ++it;
    data::DataLoader loader(fails, {.batch_size = 2, .num_workers = 3});
    EXPECT_THROW(static_cast<void>(std::distance(loader.begin(), loader.end())), data::LoaderError);
  }
}

TEST(LoaderThreads, ASaveInTheBackgroundBesideTraining) {
  const auto folder = std::filesystem::temp_directory_path() / ("mezzo-saves-" + std::to_string(::getpid()));
  nn::Sequential net(nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 2));
  optim::AdamW adam(net, {.lr = 1e-2});
  {
    train::CheckpointManager manager(folder.string(), {{"model", net}, {"optimizer", adam}},
                                     {.keep_last = 2});
    for (std::int64_t step = 0; step < 20; ++step) {
      net(ones({4, 8})).sum().backward();
      adam.step();
      adam.zero_grad();
      manager.save(step, static_cast<double>(-step));
    }
    EXPECT_EQ(manager.steps(), (std::vector<std::int64_t>{18, 19}));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mezzo
