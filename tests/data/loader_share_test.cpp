// A loader that hands out its process's share of each batch: the shares of all ranks are the batches of one.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

/// Sample i is [i, a random number]; notes which ones were asked for.
struct Noted {
  std::int64_t count;
  std::vector<std::int64_t>* asked = nullptr;
  std::mutex* mutex = nullptr;
  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] Example get(std::int64_t index, Random& random) const {
    if (asked != nullptr) {
      const std::lock_guard lock(*mutex);
      asked->push_back(index);
    }
    return {tensor({static_cast<double>(index), random.uniform()}, {.dtype = DType::f64}), tensor(index)};
  }
};

template <class Loader>
std::vector<Example> epoch_of(Loader& loader) {
  std::vector<Example> batches;
  for (const auto& batch : loader) batches.push_back(batch);
  return batches;
}

TEST(LoaderShare, SharesOfAllRanksAreTheBatchesOfOne) {
  for (const int workers : {0, 3}) {
    const DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 5, .num_workers = workers};
    DataLoader whole(Noted{37}, options);  // the last batch has 5 samples
    const auto expected = epoch_of(whole);
    ASSERT_EQ(expected.size(), 5U);
    for (const std::int64_t p : {1, 2, 3, 4}) {
      std::vector<std::vector<Example>> parts;
      for (std::int64_t r = 0; r < p; ++r) {
        DataLoader loader(Noted{37}, options);
        loader.set_share(r, p);
        EXPECT_EQ(loader.size(), 5);
        std::size_t i = 0;
        for (const auto& [x, y] : loader) {
          const std::int64_t samples = expected[i].target.size(0);
          EXPECT_EQ(loader.batch_samples(), samples);
          EXPECT_EQ(x.size(0), samples * (r + 1) / p - samples * r / p);
          ++i;
        }
        loader.set_epoch(0);
        parts.push_back(epoch_of(loader));
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        std::vector<Tensor> x, y;
        for (const auto& rank : parts) {
          x.push_back(rank[i].data);
          y.push_back(rank[i].target);
        }
        EXPECT_TRUE(equal(cat(x, 0), expected[i].data)) << p << ", batch " << i;
        EXPECT_TRUE(equal(cat(y, 0), expected[i].target)) << p << ", batch " << i;
      }
    }
  }
}

TEST(LoaderShare, OnlySamplesOfTheShareAreLoaded) {
  std::vector<std::int64_t> asked;
  std::mutex mutex;
  DataLoader loader(Noted{16, &asked, &mutex}, {.batch_size = 8});
  loader.set_share(1, 4);
  static_cast<void>(epoch_of(loader));
  EXPECT_EQ(asked, (std::vector<std::int64_t>{2, 3, 10, 11}));
}

struct Texts {
  [[nodiscard]] std::int64_t size() const { return 2; }
  [[nodiscard]] std::string get(std::int64_t /*index*/) const { return "a"; }
};

TEST(LoaderShare, AShareMayBeEmpty) {
  const DataLoaderOptions options{.batch_size = 4};
  for (std::int64_t r = 0; r < 4; ++r) {
    DataLoader loader(Noted{6}, options);
    loader.set_share(r, 4);
    const auto batches = epoch_of(loader);  // of 4 and of 2 samples
    ASSERT_EQ(batches.size(), 2U);
    const std::int64_t left = r % 2;  // 2 r / 4 and 2 (r + 1) / 4
    EXPECT_EQ(batches[1].data.shape(), (Shape{left, 2}));
    EXPECT_EQ(batches[1].data.dtype(), DType::f64);
    EXPECT_EQ(batches[1].target.shape(), (Shape{left}));
    EXPECT_EQ(loader.batch_samples(), 2);
  }
  // Tables, which give whole batches, and lists of texts.
  DataLoader table(TensorDataset(arange(5), arange(5)), {.batch_size = 5});
  table.set_share(0, 8);
  EXPECT_EQ((*table.begin()).data.shape(), (Shape{0}));
  DataLoader texts(Texts(), {.batch_size = 2});
  texts.set_share(0, 3);
  EXPECT_TRUE((*texts.begin()).empty());
}

TEST(LoaderShare, AStateIsThatOfTheWholeLoader) {
  const DataLoaderOptions options{.batch_size = 6, .shuffle = true, .seed = 3};
  DataLoader whole(Noted{20}, options);
  const auto expected = epoch_of(whole);
  DataLoader two(Noted{20}, options);
  two.set_share(1, 2);
  auto place = two.begin();
  ++place;
  const Value state = two.state_dict();
  for (std::int64_t r = 0; r < 3; ++r) {
    DataLoader three(Noted{20}, options);
    three.load_state_dict(state);
    three.set_share(r, 3);
    const auto rest = epoch_of(three);
    ASSERT_EQ(rest.size(), 2U);
    EXPECT_TRUE(equal(rest[0].data, expected[2].data.narrow(0, 2 * r, 2)));
  }
}

TEST(LoaderShare, StreamsAreCutAlike) {
  const auto stream = [] {
    return IterableDataset<Tensor>([](std::uint64_t) {
      return [i = 0]() mutable -> std::optional<Tensor> {
        return i < 7 ? std::optional(tensor(static_cast<std::int64_t>(i++))) : std::nullopt;
      };
    });
  };
  std::vector<Tensor> parts;
  for (std::int64_t r = 0; r < 3; ++r) {
    DataLoader loader(stream(), {.batch_size = 4});
    loader.set_share(r, 3);
    std::vector<Tensor> all;
    for (const Tensor& batch : loader) all.push_back(batch);
    ASSERT_EQ(all.size(), 2U);
    parts.push_back(all[1]);
  }
  EXPECT_TRUE(equal(cat(parts, 0), tensor({4, 5, 6}).to(DType::i64)));
}

struct Opaque {
  std::int64_t samples = 0;
};

TEST(LoaderShare, RefusalsComeOnAllRanks) {
  DataLoader loader(Noted{4}, {.batch_size = 2});
  EXPECT_THROW(loader.set_share(2, 2), ValueError);
  EXPECT_THROW(loader.set_share(-1, 2), ValueError);
  EXPECT_THROW(loader.set_share(0, 0), ValueError);
  for (std::int64_t r = 0; r < 3; ++r) {
    DataLoader own(Noted{5}, {.batch_size = 3}, [](std::vector<Example>&& samples) {
      return Opaque{static_cast<std::int64_t>(samples.size())};
    });
    own.set_share(r, 3);
    auto place = own.begin();
    EXPECT_EQ(place->samples, 1);
    EXPECT_EQ(message_of<ValueError>([&] { ++place; }),
              "DataLoader: expected at least 3 samples in each batch, one per rank, got 2; use drop_last, or "
              "batches of tensors, of which a share may be empty");
  }
}

}  // namespace
}  // namespace mezzo::data
