// embedding, one_hot and dropout: rows and gradients by hand, what is refused, masks from a seed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/indexing/embedding.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

Tensor indices(const std::vector<std::int64_t>& values) {
  return tensor(values, {static_cast<std::int64_t>(values.size())});
}
Tensor table(DType dtype = DType::f32) {
  return reshape(arange(0, 8, 1, {.dtype = dtype}), {4, 2}).requires_grad_();
}

// --- embedding

TEST(Embedding, ReadsRows) {
  EXPECT_EQ(list(embedding(indices({3, 0, 3}), table())), (Doubles{6, 7, 0, 1, 6, 7}));
  EXPECT_EQ(list(embedding(indices({3}).to(DType::i32), table())), (Doubles{6, 7}));
  EXPECT_EQ(list(embedding(indices({1}), t(table()))), (Doubles{1, 3, 5, 7}));
  EXPECT_EQ(embedding(zeros({2, 0}, {.dtype = DType::i64}), table()).shape(), (Shape{2, 0, 2}));
  EXPECT_EQ(embedding(indices({}), zeros({0, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(list(embedding(indices({1}), tensor({1, 0}, {2, 1}, {.dtype = DType::boolean}))), Doubles{0});
}

TEST(Embedding, SumsTheGradientOfARow) {
  const Tensor w = table(), index = indices({3, 0, 3});
  const Tensor g = make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  embedding(index, w).backward(g, {});
  EXPECT_EQ(list(w.grad()), (Doubles{3, 4, 0, 0, 0, 0, 6, 8}));
  const Tensor padded = table();
  embedding(index, padded, -1).backward(g, {});
  EXPECT_EQ(list(padded.grad()), (Doubles{3, 4, 0, 0, 0, 0, 0, 0}));
  const Tensor scaled = table();
  embedding(index, scaled, {}, true).backward(g, {});
  EXPECT_EQ(list(scaled.grad()), (Doubles{3, 4, 0, 0, 0, 0, 3, 4}));
  const Tensor both = table();
  embedding(index, both, 3, true).backward(full({3, 2}, std::numeric_limits<double>::infinity()), {});
  EXPECT_TRUE(std::isinf(list(both.grad())[0]));
  EXPECT_EQ(list(both.grad())[6], 0);
  const Tensor nothing = table();
  embedding(indices({}), nothing).backward(zeros({0, 2}), {});
  EXPECT_EQ(list(nothing.grad()), Doubles(8, 0));
}

TEST(Embedding, ScalesTheRowsItReadsInPlace) {
  const auto fives = [] { return make<double>({3, 2}, {3, 4, 6, 8, -3, 4}); };
  const Tensor w = fives().requires_grad_();
  const Tensor rows = embedding(indices({1, 2, 1}), w, {}, false, 5);
  // The norm of row 1 is 10: times 5 / (10 + 1e-7). Row 2 has just 5, row 0 is not read.
  const double scale = 5 / (10 + 1e-7);
  EXPECT_EQ(list(w), (Doubles{3, 4, 6 * scale, 8 * scale, -3, 4}));
  EXPECT_EQ(list(rows), (Doubles{6 * scale, 8 * scale, -3, 4, 6 * scale, 8 * scale}));
  rows.backward(ones({3, 2}, {.dtype = DType::f64}), {});
  EXPECT_EQ(list(w.grad()), (Doubles{0, 0, 2, 2, 1, 1}));  // as if the scale were not there
  const Tensor other = fives();
  embedding_renorm_(t(t(other)), indices({0}), 3.5, 1);
  EXPECT_EQ(list(other)[0], 3 * (3.5 / (7 + 1e-7)));
  EXPECT_EQ(list(other)[2], 6);
}

TEST(Embedding, RefusesToScaleWhatItMayNot) {
  const Tensor w = table();
  EXPECT_THROW((void)embedding(indices({0}), w, {}, false, -1.0), ValueError);
  EXPECT_THROW((void)embedding_renorm_(expand(zeros({1, 2}), {4, 2}), indices({0}), 1), ShapeError);
  EXPECT_THROW((void)embedding_renorm_(w, indices({4}), 1), IndexError);
  EXPECT_THROW((void)embedding_renorm_(zeros({4}), indices({0}), 1), ShapeError);
  const Tensor square = mul(w, w), y = mul(square, square);
  (void)embedding(indices({3}), square, {}, false, 1);
  EXPECT_THROW(sum(y).backward(), AutogradError);  // `square` was saved and has changed
}

TEST(Embedding, SumsManySmallGradientsExactly) {
  constexpr std::int64_t kCount = 5000;
  const Tensor w = table(DType::f16);
  embedding(zeros({kCount}, {.dtype = DType::i64}), w)
      .backward(full({kCount, 2}, 1.0, {.dtype = DType::f16}), {});
  EXPECT_EQ(list(w.grad()), (Doubles{5000, 5000, 0, 0, 0, 0, 0, 0}));
}

TEST(Embedding, RefusesWrongIndicesAndShapes) {
  const auto fails = [](const std::vector<std::int64_t>& values) {
    try {
      (void)embedding(indices(values), table());
    } catch (const IndexError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(fails({0, 4}).find("4 at position 1"), std::string::npos) << fails({0, 4});
  EXPECT_NE(fails({-1}).find("-1 at position 0"), std::string::npos);
  EXPECT_THROW((void)embedding(indices({0}), zeros({0, 2})), IndexError);
  EXPECT_THROW((void)embedding(indices({0}), zeros({4})), ShapeError);
  EXPECT_THROW((void)embedding(table(), table()), DTypeError);
  EXPECT_THROW((void)embedding(indices({0}), table(), 4), ValueError);
  EXPECT_THROW((void)embedding(indices({0}), table(), -5), ValueError);
  EXPECT_THROW((void)embedding_backward(zeros({2, 2}), indices({0}), 3), ShapeError);
  EXPECT_THROW((void)embedding_backward(zeros({1, 2}), indices({0}), -1), ValueError);
  EXPECT_THROW((void)embedding_backward(zeros({1, 2}), indices({3}), 3), IndexError);
  EXPECT_EQ(list(embedding_backward(zeros({0, 2}), indices({}), 2)), Doubles(4, 0));
}

TEST(Embedding, GroupsPositionsByValue) {
  const std::vector<std::int64_t> index{3, 1, 9, 3, 0, -1, 2, 1, 3};
  std::vector<std::int64_t> order(index.size(), -7), first(5, 0), last(5, 0);
  kernels::find_index_runs(Device::cpu(), index.data(), {9, 5, order.data(), first.data(), last.data()}, 2);
  EXPECT_EQ(order, (std::vector<std::int64_t>{4, 1, 7, 0, 3, 8, 2, 5, 6}));
  EXPECT_EQ(first, (std::vector<std::int64_t>{0, 1, 0, 3, 0}));
  EXPECT_EQ(last, (std::vector<std::int64_t>{1, 3, 0, 6, 0}));
}

/// A device takes four elements at a time, which may belong to several rows, and whole pieces of a run before
/// the rest; that is plain code too.
TEST(Embedding, SumsRowsInBlocksOnADevice) {
  Generator generator(9);
  constexpr std::int64_t kValues = 4;
  for (const std::int64_t count : {10, 127, 600, 2000}) {
    for (const std::int64_t width : {1, 2, 3, 4, 7}) {
      const Tensor index = randint(-1, kValues + 1, {count}, {}, generator);  // some are of no row
      const Tensor grad = rand({count, width}, {}, generator), sums = empty({kValues, width}),
                   device_sums = empty({kValues, width});
      const auto* const at = index.data<std::int64_t>().data();
      const auto view = [](const Tensor& x) {
        return kernels::View{x.impl().data(), x.dtype(), x.shape(), x.strides()};
      };
      std::vector<std::int64_t> order(static_cast<std::size_t>(count)), first(kValues, 0), last(kValues, 0);
      const kernels::IndexRuns runs{count, kValues, order.data(), first.data(), last.data()};
      kernels::find_index_runs(Device::cpu(), at, runs, 2);
      const Tensor pieces = empty({kernels::piece_slots(count), width}, {.dtype = DType::f64});
      kernels::detail::SumRows<float> rows{grad.data<float>().data(), runs, width, kValues * width};
      kernels::generate<double>(Device::cpu(), kernels::detail::SumPieces<float>{rows, at}, view(pieces));
      rows.pieces = static_cast<const double*>(pieces.impl().data());
      kernels::generate<double>(Device::cpu(), rows, view(device_sums));
      kernels::sum_rows(Device::cpu(), view(sums), view(grad), at, runs);
      const Doubles all = list(grad), got = list(sums);
      EXPECT_EQ(list(device_sums), got) << count << " rows of " << width;
      for (std::int64_t v = 0; v < kValues; ++v) {
        double expected = 0;
        for (std::int64_t n = 0; n < count && v != 2; ++n)
          expected += at[n] == v ? all[static_cast<std::size_t>(n * width)] : 0;
        EXPECT_NEAR(got[static_cast<std::size_t>(v * width)], expected, expected * 0x1p-24);
      }
    }
  }
}

// Of every length and place of neighbouring runs: whole pieces have a slot each, and its witness is theirs.
TEST(Embedding, WholePiecesOfRunsHaveSlotsOfTheirOwn) {
  using kernels::kRunPiece;
  Generator generator(10);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    std::int64_t count = 0;
    while (count < 2000) {
      const auto length =
          1 +
          randint(0, round % 2 == 0 ? 3 * kRunPiece : kRunPiece + 3, {}, {}, generator).item<std::int64_t>();
      runs.emplace_back(count, count + length);
      count += length;
    }
    std::vector<int> owners(static_cast<std::size_t>(kernels::piece_slots(count)), 0);
    for (const auto& [first, last] : runs) {
      for (std::int64_t begin = first; begin + kRunPiece <= last; begin += kRunPiece) {
        const std::int64_t slot = kernels::piece_slot(begin), witness = kernels::piece_witness(slot);
        ASSERT_LT(slot, kernels::piece_slots(count));
        ++owners[static_cast<std::size_t>(slot)];
        EXPECT_TRUE(begin <= witness && witness < begin + kRunPiece);
        EXPECT_EQ(kernels::piece_begin(slot, first, last), begin);
      }
    }
    for (std::size_t slot = 0; slot < owners.size(); ++slot) {
      EXPECT_LE(owners[slot], 1);
      if (owners[slot] == 1) continue;
      const std::int64_t witness = kernels::piece_witness(static_cast<std::int64_t>(slot));
      for (const auto& [first, last] : runs) {
        if (first <= witness && witness < last) {
          EXPECT_EQ(kernels::piece_begin(static_cast<std::int64_t>(slot), first, last), -1);
        }
      }
    }
  }
}

// --- one_hot

TEST(OneHot, AnIndexThatNoDimCanHoldIsNamed) {
  for (const std::int64_t index : {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 60})
    EXPECT_EQ(message_of<ValueError>([&] {
                (void)one_hot(tensor({index}));
              }).find("one_hot: expected indices below 2^60, got " + std::to_string(index)),
              0U);
}

TEST(OneHot, MarksTheClass) {
  EXPECT_EQ(list(one_hot(indices({2, 0}))), (Doubles{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(list(one_hot(indices({1}), 2)), (Doubles{0, 1}));
  EXPECT_EQ(one_hot(indices({1}), 2).dtype(), DType::i64);
  EXPECT_EQ(one_hot(indices({}), 2).shape(), (Shape{0, 2}));
  EXPECT_THROW((void)one_hot(indices({})), ValueError);
  EXPECT_THROW((void)one_hot(indices({0}), 0), ValueError);
  EXPECT_THROW((void)one_hot(indices({0}), -2), ValueError);
  EXPECT_THROW((void)one_hot(indices({2}), 2), IndexError);
  EXPECT_THROW((void)one_hot(indices({-1})), IndexError);
  EXPECT_THROW((void)one_hot(indices({1}).to(DType::i32), 2), DTypeError);
}

// --- dropout

TEST(Dropout, ZeroesSomeAndScalesTheRest) {
  Generator generator(3), same(3);
  const Tensor x = ones({10000}).requires_grad_();
  const Tensor y = dropout(x, 0.25, true, generator);
  EXPECT_EQ(list(y), list(dropout(x, random_mask(0.75, {10000}, Device::cpu(), same), 0.25)));
  double zeroed = 0;
  for (const double value : list(y)) {
    zeroed += value == 0 ? 1 : 0;
    EXPECT_TRUE(value == 0 || value == static_cast<double>(1.0F * static_cast<float>(1 / 0.75)));
  }
  EXPECT_NEAR(zeroed, 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  y.backward(ones({10000}), {});
  EXPECT_EQ(list(x.grad()), list(y));
}

TEST(Dropout, LeavesAloneWhatItShould) {
  const Tensor x = make<float>({3}, {1, -2, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0).is_same(x));
  const Doubles gone = list(dropout(x, 1));
  EXPECT_EQ(gone[0], 0);
  EXPECT_TRUE(std::isnan(gone[2]));
  EXPECT_THROW((void)dropout(x, 1.5), ValueError);
  EXPECT_THROW((void)dropout(x, -0.1, false), ValueError);
  EXPECT_THROW((void)dropout(x, std::nan("")), ValueError);
  EXPECT_THROW((void)dropout(x.to(DType::i64), 0.5), DTypeError);
  EXPECT_THROW((void)dropout(x, x, 0.5), DTypeError);
}

TEST(RandomMask, HasTheProbabilityAndTheEnds) {
  EXPECT_EQ(list(sum(random_mask(0, {1000}))), Doubles{0});
  EXPECT_EQ(list(sum(random_mask(1, {1000}))), Doubles{1000});
  EXPECT_EQ(random_mask(0.5, {2, 0}).shape(), (Shape{2, 0}));
  EXPECT_THROW((void)random_mask(1.01, {2}), ValueError);
  EXPECT_THROW((void)random_mask(std::nan(""), {2}), ValueError);
}

}  // namespace
}  // namespace mezzo
