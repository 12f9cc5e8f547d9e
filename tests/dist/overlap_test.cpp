// Reductions run while backward goes on: which were started when, and what a step takes with a slow link.
#include <chrono>
#include <thread>

#include "dist/parallel_support.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::Group;
using test::run_ranks;
using Clock = std::chrono::steady_clock;

constexpr int kLayers = 20;

/// kLayers layers of one weight each, one bucket each; a layer's backward calls `at_layer(i)`, from the last.
struct Net {
  explicit Net(const Group& group) {
    for (int i = 0; i < kLayers; ++i) {
      auto layer = nn::make<nn::Linear>(64, 64, nn::LinearOptions{.bias = false});
      test::fill(*layer, static_cast<std::uint64_t>(i));
      model->push_back(layer);
    }
    parallel.emplace(model,
                     dist::DataParallelOptions{
                         .group = group, .first_bucket_bytes = 1, .bucket_bytes = 1, .virtual_parts = 0});
    x = test::batch_of(1, 8).x.repeat({1, 8}).requires_grad_();
  }
  template <class F>
  void backward(F at_layer) {
    Tensor h = x;
    for (int i = 0; i < kLayers; ++i) {
      h = (*model)[static_cast<std::size_t>(i)](h);
      h.register_hook([i, at_layer](const Tensor&) { at_layer(i); });
    }
    model->zero_grad();
    sum(h).backward();
  }
  std::shared_ptr<nn::Sequential> model = nn::make<nn::Sequential>();
  std::optional<DataParallel> parallel;
  Tensor x;
};

TEST(Overlap, EachBucketIsStartedWhenItIsFull) {
  run_ranks(2, [](const Group& group) {
    Net net(group);
    for (int step = 0; step < 2; ++step) {
      const auto before = dist::traffic(group).calls;
      std::vector<std::uint64_t> started(kLayers);
      // The hook on the result of layer i runs before its backward: those behind it are complete then.
      net.backward(
          [&](int i) { started[static_cast<std::size_t>(i)] = dist::traffic(group).calls - before; });
      for (int i = 0; i < kLayers; ++i)
        EXPECT_EQ(started[static_cast<std::size_t>(i)], static_cast<std::uint64_t>(kLayers - 1 - i)) << step;
    }
  });
}

TEST(Overlap, AStepTakesTheSlowerOfBackwardAndReduction) {
  constexpr double kLayer = 0.015;  // seconds of a layer's backward, and of a bucket's reduction
  using Seconds = std::chrono::duration<double>;
  const auto step_with = [&](double backward, double reduction) {
    double least = 1e9;
    run_ranks(2,
              [&](const Group& group) {
                Net net(group);
                net.backward([](int) {});
                for (int step = 0; step < 3; ++step) {
                  dist::barrier(group);
                  const auto begin = Clock::now();
                  net.backward([&](int) { std::this_thread::sleep_for(Seconds(backward)); });
                  const double seconds = Seconds(Clock::now() - begin).count();
                  if (group.rank() == 0) least = std::min(least, seconds);
                }
              },
              {.seconds_per_call = reduction});
    return least;
  };
  const double backward = step_with(kLayer, 0), reduction = step_with(0, kLayer);
  const double both = step_with(kLayer, kLayer);
  EXPECT_GE(backward, kLayers * kLayer);
  EXPECT_GE(reduction, kLayers * kLayer);
  // One bucket is left when backward has ended: (kLayers + 1) / kLayers of the slower is what there is to
  // reach.
  EXPECT_LE(both, 1.15 * std::max(backward, reduction));
}

TEST(Overlap, OnlyTheLastPartOfAStepIsReduced) {
  run_ranks(2, [](const Group& group) {
    Net net(group);
    net.parallel.reset();
    net.parallel.emplace(net.model,
                         dist::DataParallelOptions{
                             .group = group, .first_bucket_bytes = 1, .bucket_bytes = 1, .virtual_parts = 8});
    for (int part = 0; part < 4; ++part) {
      const auto before = dist::traffic(group).calls;
      std::uint64_t at_layer_0 = 0;
      net.backward([&](int i) {
        if (i == 0) at_layer_0 = dist::traffic(group).calls - before;
      });
      EXPECT_EQ(at_layer_0, part == 3 ? static_cast<std::uint64_t>(kLayers - 1) : 0U);
    }
  });
}

}  // namespace
}  // namespace mezzo
