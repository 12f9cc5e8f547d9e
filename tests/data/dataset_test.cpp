// Data sets, their combinations, and how their samples are collated.
#include "mezzo/data/dataset.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

/// A data set of a program's own: sample i is i and i squared.
struct Squares {
  std::int64_t count;
  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] Example get(std::int64_t index) const {
    return {tensor({static_cast<double>(index)}), tensor(index * index)};
  }
};

TEST(Datasets, AreAnyTypeWithSizeAndGet) {
  const Dataset dataset(Squares{5});
  static_assert(std::is_same_v<decltype(dataset), const Dataset<Example>>);
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(dataset.get(3).target.item<std::int64_t>(), 9);
  EXPECT_FALSE(dataset.get_batch(std::vector<std::int64_t>{1}).has_value());
  const auto shared = std::make_shared<Squares>(Squares{2});
  EXPECT_EQ(Dataset(shared).size(), 2);
}

TEST(Datasets, TensorsOfOneTwoAndMore) {
  const Tensor x = arange(12).reshape({4, 3}), y = arange(4), z = ones({4});
  const TensorDataset one(x);
  const TensorDataset two(x, y);
  const TensorDataset three(x, y, z);
  EXPECT_TRUE(equal(one.get(1), tensor({3, 4, 5})));
  EXPECT_EQ(two.get(2).target.item<std::int64_t>(), 2);
  const auto [a, b, c] = three.get(3);
  EXPECT_TRUE(equal(a, x[3]));
  EXPECT_EQ(b.item<std::int64_t>(), 3);
  EXPECT_EQ(c.item(), 1);
  EXPECT_TRUE(one.get(1).impl().storage.get() == x.impl().storage.get()) << "a sample is a view";
}

TEST(Datasets, ABatchIsWhatCollatingGives) {
  const std::vector<Tensor> sources{arange(12).reshape({4, 3}),
                                    randn({4}),
                                    zeros({4, 0}),
                                    randn({3, 4}).transpose(0, 1),
                                    randn({4, 2, 2}).to(DType::f16),
                                    arange(8).to(DType::u8).reshape({4, 2}),
                                    randn({8, 3})[{Slice(0, 8, 2)}]};
  for (const Tensor& x : sources) {
    const TensorDataset dataset(x);
    const std::vector<std::int64_t> indices{3, 0, 0, 2};
    std::vector<Tensor> samples;
    for (const std::int64_t index : indices) samples.push_back(dataset.get(index));
    const Tensor batch = dataset.get_batch(indices), collated = collate(samples), stacked = stack(samples);
    EXPECT_TRUE(equal(batch, stacked));
    EXPECT_TRUE(equal(collated, stacked));
    EXPECT_EQ(batch.dtype(), x.dtype());
  }
}

TEST(Datasets, CollateTakesNumbersStringsAndWhatIsMadeOfThem) {
  EXPECT_TRUE(equal(collate(std::vector<int>{3, -1}), tensor({3, -1})));
  EXPECT_EQ(collate(std::vector<std::int64_t>{3}).dtype(), DType::i64);
  EXPECT_EQ(collate(std::vector<float>{0.5F}).dtype(), DType::f32);
  EXPECT_EQ(collate(std::vector<double>{0.5}).dtype(), DType::f64);
  const std::vector<std::pair<Tensor, std::string>> named{{ones({2}), "a"}, {zeros({2}), "b"}};
  const auto [tensors, names] = collate(named);
  EXPECT_TRUE(equal(tensors, tensor({{1.0, 1.0}, {0.0, 0.0}})));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  const std::vector<std::tuple<bool, std::array<Tensor, 2>>> nested(3, {true, {ones({1}), zeros({})}});
  const auto [flags, arrays] = collate(nested);
  EXPECT_EQ(flags.dtype(), DType::boolean);
  EXPECT_EQ(arrays[0].shape(), (Shape{3, 1}));
  EXPECT_EQ(arrays[1].shape(), (Shape{3}));
}

TEST(Datasets, ABatchHasNoHistory) {
  const Tensor leaf = ones({2}).requires_grad_();
  EXPECT_FALSE(collate(std::vector<Tensor>{leaf, leaf * 2}).requires_grad());
  EXPECT_FALSE(TensorDataset(leaf).get(0).requires_grad());
}

TEST(Datasets, ConcatAndSubset) {
  const ConcatDataset both(Squares{3}, Squares{2});
  EXPECT_EQ(both.size(), 5);
  std::vector<std::int64_t> targets;
  const Dataset dataset(both);
  for (std::int64_t i = 0; i < 5; ++i) targets.push_back(dataset.get(i).target.item<std::int64_t>());
  EXPECT_EQ(targets, (std::vector<std::int64_t>{0, 1, 4, 0, 1}));
  const Subset some(both, {4, 2});
  EXPECT_EQ(Dataset(some).get(1).target.item<std::int64_t>(), 4);
  const Subset rows(TensorDataset(arange(5)), {4, 2, 0});
  EXPECT_TRUE(equal(*rows.get_batch(std::vector<std::int64_t>{2, 0}), tensor({0, 4})));
}

TEST(Datasets, TransformsSeeSamplesAndRandomNumbers) {
  const auto scaled = transform(Squares{4}, [](const Tensor& x) { return x * 10; });
  EXPECT_EQ(Dataset(scaled).get(3).data.item(), 30);
  EXPECT_EQ(Dataset(scaled).get(3).target.item<std::int64_t>(), 9);
  const auto swapped = transform(Squares{4}, [](const Example& e) { return Example{e.target, e.data}; });
  EXPECT_EQ(Dataset(swapped).get(2).data.item(), 4);
  const Dataset noisy(transform(TensorDataset(zeros({3})),
                                [](const Tensor& x, Random& random) { return x + random.uniform(); }));
  EXPECT_TRUE(equal(noisy.get(1), noisy.get(1)));
  EXPECT_FALSE(equal(noisy.get(1), noisy.get(2)));
  Random random(9, 0, 1);
  EXPECT_FALSE(equal(noisy.get(1), noisy.get(1, random)));
}

TEST(Datasets, RandomSplitDividesAll) {
  const auto [train, test] = random_split(Squares{11}, {0.75, 0.25});
  EXPECT_EQ(train.size(), 9) << "floor(8.25), and what is left over";
  EXPECT_EQ(test.size(), 2);
  std::set<std::int64_t> all(train.indices().begin(), train.indices().end());
  all.insert(test.indices().begin(), test.indices().end());
  EXPECT_EQ(all.size(), 11U);
  const auto [a, b, c] = random_split(Squares{10}, {5, 3, 2}, 4);
  EXPECT_EQ(a.size() * 100 + b.size() * 10 + c.size(), 532);
  EXPECT_NE(a.indices(), random_split(Squares{10}, {5, 3, 2}, 5)[0].indices());
  EXPECT_EQ(message_of<ValueError>([] {
              static_cast<void>(random_split(Squares{10}, {5, 4}));
            }),
            "random_split: expected lengths that add up to 10, or shares that add up to 1, got 9");
}

TEST(Datasets, RefuseBadInput) {
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(TensorDataset(ones({2}), ones({3}))); }),
            "TensorDataset: expected as many samples in each tensor, 2, got 3; cut the longer one");
  EXPECT_EQ(
      message_of<ValueError>([] { static_cast<void>(TensorDataset(ones({}))); }),
      "TensorDataset: expected tensors whose first dim counts samples, got one of shape []; reshape it");
  EXPECT_EQ(message_of<IndexError>([] { static_cast<void>(TensorDataset(ones({2})).get(2)); }),
            "TensorDataset.get: expected an index from 0 to 1, got 2");
  EXPECT_EQ(message_of<IndexError>([] {
              static_cast<void>(Subset(Squares{3}, {0, 3}));
            }),
            "Subset: expected an index from 0 to 2, got 3");
  EXPECT_EQ(
      message_of<ShapeError>([] {
        static_cast<void>(collate(std::vector<Tensor>{ones({2}), ones({3})}));
      }),
      "collate: expected samples of one shape, [2] as the first of the batch, got [3] at 1; bring them to "
      "one size, or give the loader a collate of your own");
  EXPECT_EQ(
      message_of<DTypeError>([] {
        static_cast<void>(collate(std::vector<Tensor>{ones({2}), ones({2}).to(DType::f16)}));
      }),
      "collate: expected samples of one dtype, f32 as the first of the batch, got f16 at 1; convert them "
      "in the data set");
}

}  // namespace
}  // namespace mezzo::data
