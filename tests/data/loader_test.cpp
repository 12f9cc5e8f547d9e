// DataLoader: batches, order and bits for any number of workers, epochs, states, errors, and its end at any
// moment.
#include "mezzo/data/loader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;
using Indices = std::vector<std::int64_t>;

/// Sample i is [i, a random number]; takes longer for some, so that workers finish out of order.
struct Noisy {
  std::int64_t count;
  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] Example get(std::int64_t index, Random& random) const {
    if (index % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    return {tensor({static_cast<double>(index), random.uniform()}, {.dtype = DType::f64}), tensor(index)};
  }
};

/// All batches of `epochs` epochs, one behind the other.
template <class Loader>
std::vector<Tensor> all_of(Loader& loader, int epochs = 1) {
  std::vector<Tensor> batches;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& [x, y] : loader) {
      batches.push_back(x);
      batches.push_back(y);
    }
  }
  return batches;
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(equal(a[i], b[i])) << i;
}

TEST(DataLoader, GivesBatchesInOrder) {
  const Tensor inputs = arange(7), targets = inputs * 10;
  DataLoader alone(TensorDataset{inputs}, {.batch_size = 7});
  EXPECT_TRUE(alone.begin()->equal(inputs)) << "compiles, and gives tensors";
  DataLoader loader(TensorDataset(inputs, targets), {.batch_size = 3});
  static_assert(std::is_same_v<decltype(loader), DataLoader<Example>>);
  std::vector<Shape> shapes;
  Indices seen;
  for (const auto& [x, y] : loader) {
    shapes.push_back(x.shape());
    EXPECT_TRUE(equal(y, x * 10));
    for (const auto value : x.to_vector<std::int64_t>()) seen.push_back(value);
  }
  EXPECT_EQ(seen, (Indices{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(shapes, (std::vector<Shape>{{3}, {3}, {1}}));
  EXPECT_EQ(loader.size(), 3);
  DataLoader dropping(TensorDataset(arange(7)), {.batch_size = 3, .drop_last = true});
  EXPECT_EQ(dropping.size(), 2);
  EXPECT_EQ(std::distance(dropping.begin(), dropping.end()), 2);
}

TEST(DataLoader, OrderAndBitsDoNotDependOnWorkers) {
  const auto run = [](int workers, int prefetch = 2) {
    DataLoader loader(
        transform(Noisy{53}, [](const Tensor& x, Random& random) { return x + random.normal(); }),
        {.batch_size = 4, .shuffle = true, .seed = 5, .num_workers = workers, .prefetch_factor = prefetch},
        [](Example batch, Random& random) {
          return Example{batch.data * random.uniform(), batch.target};
        });
    return all_of(loader, 3);
  };
  const std::vector<Tensor> expected = run(0);
  for (const int workers : {1, 2, 7}) expect_same(run(workers), expected);
  expect_same(run(2, 1), expected);
  expect_same(run(1, 100), expected);
}

TEST(DataLoader, EachEpochHasAnOrderAndNumbersOfItsOwn) {
  DataLoader loader(Noisy{20}, {.batch_size = 20, .shuffle = true});
  const std::vector<Tensor> two = all_of(loader, 2);
  EXPECT_EQ(loader.epoch(), 2U);
  EXPECT_FALSE(equal(two[1], two[3])) << "the order";
  const auto number_of_sample_0 = [](const Tensor& x) { return x[{(x.select(1, 0) == 0), 1}].item(); };
  EXPECT_NE(number_of_sample_0(two[0]), number_of_sample_0(two[2]));
  loader.set_epoch(1);
  expect_same(all_of(loader), {two[2], two[3]});
}

TEST(DataLoader, TheSameScopesMakeTheSameBatches) {
  DataLoader loader(transform(TensorDataset(ones({4, 4})),
                              [](const Tensor& x) {
                                return matmul(x.reshape({1, 4}), ones({4, 1}));
                              }),
                    {.batch_size = 4});
  const amp::Autocast region(DeviceType::cpu, DType::bf16);
  for (const Tensor& x : loader) EXPECT_EQ(x.dtype(), DType::f32);
  for (const Tensor& x : loader) EXPECT_FALSE(x.requires_grad());
  EXPECT_EQ(matmul(ones({1, 4}), ones({4, 1})).dtype(), DType::bf16) << "the region goes on";
}

TEST(DataLoader, WorkersComputeAsTheLoopWould) {  // the host's rounding
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const auto run = [](int workers) {
    DataLoader loader(transform(TensorDataset(ones({8})), [](const Tensor& x) { return x / 3; }),
                      {.batch_size = 2, .num_workers = workers});
    std::vector<Tensor> batches;
    for (const Tensor& x : loader) batches.push_back(x);
    return batches;
  };
  const std::vector<Tensor> alone = run(0), workers = run(2);
  std::fesetround(FE_TONEAREST);
  expect_same(alone, workers);
}

TEST(DataLoader, ALoopThatIsLeftEndsItsEpoch) {
  DataLoader loader(Noisy{20}, {.batch_size = 4, .shuffle = true, .num_workers = 2});
  DataLoader whole(Noisy{20}, {.batch_size = 4, .shuffle = true});
  const std::vector<Tensor> two = all_of(whole, 2);
  for ([[maybe_unused]] const auto& batch : loader) break;
  EXPECT_EQ(loader.epoch(), 0U);
  expect_same(all_of(loader), {two.begin() + 10, two.end()});
}

TEST(DataLoader, AStateContinuesInTheMiddleOfAnEpoch) {
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 3, .num_workers = 2};
  DataLoader straight(Noisy{22}, options);
  const std::vector<Tensor> expected = all_of(straight, 3);
  for (std::size_t stop = 0; stop <= 12; ++stop) {
    DataLoader first(Noisy{22}, options);
    std::vector<Tensor> got;
    while (got.size() < 2 * stop) {
      for (const auto& [x, y] : first) {
        got.push_back(x);
        got.push_back(y);
        if (got.size() == 2 * stop) break;
      }
    }
    DataLoader second(Noisy{22}, options);
    second.load_state_dict(io::parse_json(first.state_dict().to_string()));
    while (got.size() < expected.size()) {
      for (const Tensor& tensor : all_of(second)) got.push_back(tensor);
    }
    expect_same(got, expected);
  }
}

TEST(DataLoader, ALoopUnderWayEndsWhenAStateIsLoaded) {
  DataLoader loader(TensorDataset(arange(10)), {.batch_size = 2, .num_workers = 2});
  Value state;
  std::vector<Tensor> got;
  for (int round = 0; round < 2; ++round) {
    for (const Tensor& batch : loader) {
      got.push_back(batch);
      if (got.size() == 2) state = loader.state_dict();
      if (got.size() == 4) loader.load_state_dict(state);
      EXPECT_EQ(batch.numel(), 2) << "the batch stays";
    }
  }
  std::vector<Tensor> expected;
  for (const int first : {0, 2, 4, 6, 4, 6, 8}) expected.push_back(tensor({first, first + 1}).to(DType::i64));
  expect_same(got, expected);
}

TEST(DataLoader, RefusesAStateOfAnotherLoader) {
  DataLoader loader(Noisy{20}, {.batch_size = 4}), other(Noisy{20}, {.batch_size = 5});
  EXPECT_EQ(message_of<ValueError>([&] { loader.load_state_dict(other.state_dict()); }),
            "DataLoader.load_state_dict: expected the state of a loader with batch_size 4, got 5; make the "
            "loader as "
            "it was, or leave its state out");
  Value state = loader.state_dict();
  state.set("batch", 6);
  EXPECT_EQ(message_of<ValueError>([&] { loader.load_state_dict(state); }),
            "DataLoader.load_state_dict: expected an epoch, and a batch that it has, got epoch \"0\", batch "
            "6; check "
            "the file");
  state.set("batch", -1);
  EXPECT_EQ(message_of<ValueError>([&] { loader.load_state_dict(state); }),
            "DataLoader.load_state_dict: expected batch from 0 to 2^53, got -1; check the file");
}

TEST(DataLoader, TakesSamplers) {
  DataLoader loader(TensorDataset(arange(10)), {.batch_size = 2, .sampler = Indices{7, 1, 1}});
  std::vector<Tensor> batches;
  for (const Tensor& batch : loader) batches.push_back(batch);
  expect_same(batches, {tensor({7, 1}), tensor({1})});
}

TEST(DataLoader, ProcessesTogetherMakeTheBatchesOfOne) {
  const auto batches = [](std::int64_t ranks, std::int64_t rank) {
    DataLoader loader(Noisy{24}, {.batch_size = 6 / ranks,
                                  .sampler = DistributedSampler(24, {.num_replicas = ranks, .rank = rank}),
                                  .num_workers = 1});
    return all_of(loader);
  };
  const std::vector<Tensor> one = batches(1, 0), first = batches(2, 0), second = batches(2, 1);
  for (std::size_t b = 0; b < one.size(); ++b) {  // places take turns
    EXPECT_TRUE(equal(one[b][{Slice(0, 6, 2)}], first[b]));
    EXPECT_TRUE(equal(one[b][{Slice(1, 6, 2)}], second[b]));
  }
}

TEST(DataLoader, IterableDataSetsKeepTheirOrder) {
  const auto run = [](int workers, const Value* state) {
    IterableDataset numbers([](std::uint64_t epoch) {
      return [i = 0, epoch]() mutable {
        return i < 23 ? std::optional(tensor(static_cast<double>(i++) + 100.0 * static_cast<double>(epoch)))
                      : std::nullopt;
      };
    });
    DataLoader loader(
        transform(numbers, [](const Tensor& x, Random& random) { return x + random.uniform(); }),
        {.batch_size = 4, .num_workers = workers});
    if (state != nullptr) loader.load_state_dict(*state);
    std::vector<Tensor> batches;
    for (int epoch = state == nullptr ? 0 : 1; epoch < 2; ++epoch) {
      for (const Tensor& batch : loader) batches.push_back(batch);
    }
    return batches;
  };
  const std::vector<Tensor> expected = run(0, nullptr);
  ASSERT_EQ(expected.size(), 12U);
  EXPECT_EQ(expected[5].shape(), (Shape{3}));
  EXPECT_NEAR(expected[6][1].item(), 101.5, 0.5);
  for (const int workers : {1, 3}) expect_same(run(workers, nullptr), expected);
  const Value state =
      Value::Map{{"epoch", "1"}, {"batch", 4}, {"samples", -1}, {"batch_size", 4}, {"seed", "0"}};
  expect_same(run(2, &state), {expected[10], expected[11]});
}

TEST(DataLoader, ShardsOfAStreamTakeTurns) {
  const IterableDataset numbers(
      [](std::uint64_t) { return [i = 0]() mutable { return i < 8 ? std::optional(i++) : std::nullopt; }; });
  DataLoader loader(shard(numbers, 1, 3), {.batch_size = 8});
  for (const Tensor& batch : loader) EXPECT_TRUE(equal(batch, tensor({1, 4, 7})));
  EXPECT_EQ(message_of<ValueError>([&] { static_cast<void>(shard(numbers, 3, 3)); }),
            "shard: expected a rank from 0 to num_replicas - 1, got rank 3 of 3; count ranks from 0");
}

/// Fails at one sample.
struct Failing {
  [[nodiscard]] static std::int64_t size() { return 20; }
  [[nodiscard]] static Tensor get(std::int64_t index) {
    if (index == 9) throw std::out_of_range("no such file: 9.png");
    return tensor(index);
  }
};

TEST(DataLoader, AnErrorReachesTheLoopWithIndexAndCause) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Failing{}, {.batch_size = 4, .num_workers = workers});
    int batches = 0;
    const auto loop = [&] {
      for ([[maybe_unused]] const Tensor& batch : loader) ++batches;
    };
    try {
      loop();
      FAIL() << "nothing was thrown";
    } catch (const LoaderError& error) {
      EXPECT_STREQ(
          error.what(),
          "DataLoader: expected sample 9 for batch 2, got 'no such file: 9.png'; mend the data set, or leave "
          "the sample out");
      EXPECT_EQ(error.index(), 9);
      EXPECT_EQ(error.batch(), 2);
      EXPECT_THROW(error.rethrow_cause(), std::out_of_range);
    }
    EXPECT_EQ(batches, 2) << "those before it were given out";
    EXPECT_THROW(loop(), LoaderError) << "the next epoch can be begun";
  }
}

TEST(DataLoader, ErrorsOfCollateAndStreamsReachTheLoop) {
  DataLoader uneven(
      transform(TensorDataset(arange(4)), [](const Tensor& x) { return zeros({x.item<std::int64_t>()}); }),
      {.batch_size = 2, .num_workers = 1});
  EXPECT_EQ(message_of<LoaderError>([&] { static_cast<void>(uneven.begin()); }),
            "DataLoader: expected batch 0, got 'collate: expected samples of one shape, [0] as the first of "
            "the batch, "
            "got [1] at 1; bring them to one size, or give the loader a collate of your own'; mend the data "
            "set, or "
            "leave the sample out");
  IterableDataset broken([](std::uint64_t) {
    return [i = 0]() mutable -> std::optional<int> {
      if (i == 5) throw std::runtime_error("cut off");
      return i++;
    };
  });
  DataLoader stream(broken, {.batch_size = 2, .num_workers = 2});
  int batches = 0;
  EXPECT_EQ(
      message_of<LoaderError>([&] {
        for ([[maybe_unused]] const Tensor& batch : stream) ++batches;
      }),
      "DataLoader: expected sample 5 for batch 2, got 'cut off'; mend the data set, or leave the sample out");
  EXPECT_EQ(batches, 2);
}

/// Counts the samples that were asked for.
struct Counting {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  [[nodiscard]] static std::int64_t size() { return 1'000'000; }
  [[nodiscard]] int get(std::int64_t /*index*/) const { return ++*calls; }
};

TEST(DataLoader, PrefetchIsBounded) {
  const Counting counting;
  DataLoader loader(counting, {.batch_size = 10, .num_workers = 2, .prefetch_factor = 3});
  auto it = loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(counting.calls->load(), 10 * (1 + 2 * 3));
  ++it;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(counting.calls->load(), 10 * (2 + 2 * 3));
}

TEST(DataLoader, EndsInTheMiddleOfAnEpoch) {
  std::weak_ptr<std::atomic<int>> calls;
  for (int round = 0; round < 50; ++round) {
    const Counting counting;
    calls = counting.calls;
    DataLoader loader(counting, {.batch_size = 8, .num_workers = 3});
    auto it = loader.begin();
    for (int i = 0; i < round % 7; ++i) ++it;
  }
  EXPECT_TRUE(calls.expired()) << "somebody holds the data set";
}

TEST(DataLoader, MemoryOfALongEpochIsFlat) {
  DataLoader loader(transform(TensorDataset(ones({60'000, 16})),
                              [](const Tensor& x, Random& random) { return x * random.uniform(); }),
                    {.batch_size = 16, .num_workers = 2});
  std::int64_t early = 0, batches = 0;
  for ([[maybe_unused]] const Tensor& batch : loader) {
    if (++batches == 500) early = memory_stats(Device::cpu()).reserved;
  }
  EXPECT_EQ(batches, 3750);
  EXPECT_LE(memory_stats(Device::cpu()).reserved, early + (std::int64_t{256} << 10U));
}

/// Whose samples behind the first batch come when `open` is set.
struct Gated {
  Noisy samples{20};
  std::atomic<bool>& open;
  std::atomic<int>& waiting;  ///< calls that wait
  [[nodiscard]] std::int64_t size() const { return samples.size(); }
  [[nodiscard]] Example get(std::int64_t index, Random& random) const {
    if (index >= 2) ++waiting;
    while (index >= 2 && !open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return samples.get(index, random);
  }
};

// Its process forks while both workers wait in get(): a child of one that was allocating then waits for ever
// in the allocator of an older AddressSanitizer.
TEST(DataLoader, AChildOfForkIsToldThatItHasNoWorkers) {
  std::atomic<bool> open = false;
  std::atomic<int> waiting = 0;
  DataLoader loader(Gated{.open = open, .waiting = waiting}, {.batch_size = 2, .num_workers = 2});
  auto it = loader.begin();
  while (waiting < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const pid_t child = ::fork();
  open = true;
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string text;
    try {
      ++it;
    } catch (const StateError& error) {
      text = error.what();
    }
    int batches = 0;
    for ([[maybe_unused]] const auto& batch : loader) ++batches;  // workers of its own
    ::_exit(text == "DataLoader: expected the process that began the epoch, got a child of it, without its "
                    "workers; "
                    "begin an epoch in the child" &&
                    batches == 10
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::distance(++it, loader.end()), 9) << "the parent goes on";
}

TEST(DataLoader, RefusesOptionsThatMakeNoSense) {
  const auto message = [](const DataLoaderOptions& options, std::int64_t count = 3) {
    return message_of<ValueError>([&] { DataLoader loader(Noisy{count}, options); });
  };
  EXPECT_EQ(message({.batch_size = 0}), "DataLoader: expected a batch_size of at least 1, got 0");
  EXPECT_EQ(message({.num_workers = -1}),
            "DataLoader: expected num_workers from 0 to 1024, got -1; as many as processors are free is a "
            "good number");
  EXPECT_EQ(message({.prefetch_factor = 0}), "DataLoader: expected a prefetch_factor of at least 1, got 0");
  EXPECT_EQ(message({.shuffle = true, .sampler = SequentialSampler(3)}),
            "DataLoader: expected shuffle or a sampler, got both; a sampler decides on the order: leave "
            "shuffle out");
  EXPECT_EQ(message({}, 0),
            "DataLoader: expected samples, got an empty data set; look at where it reads them");
  EXPECT_EQ(
      message({.batch_size = 4, .drop_last = true}),
      "DataLoader: expected at least 4 samples, a batch, with drop_last, got 3; make batch_size smaller");
  const IterableDataset stream([](std::uint64_t) { return [] { return std::optional<int>(); }; });
  EXPECT_EQ(
      message_of<ValueError>([&] { DataLoader loader(stream, {.shuffle = true}); }),
      "DataLoader: expected no shuffle and no sampler, got one for an iterable data set; its samples come as "
      "they come: shuffle them in the data set");
  EXPECT_EQ(
      message_of<ValueError>([&] { static_cast<void>(DataLoader(stream).size()); }),
      "DataLoader: expected a data set with a size, got an iterable one; count the batches of an epoch");
  struct Own {};
  EXPECT_EQ(
      message_of<ValueError>([] {
        DataLoader loader(Noisy{3}, {.device = Device::cuda()}, [](std::vector<Example>&&) { return Own{}; });
      }),
      "DataLoader: expected batches of a type that the loader knows for another device, got a type of the "
      "program's own; leave .device out, and move the tensors in the loop");
}

}  // namespace
}  // namespace mezzo::data
