// group_norm, instance_norm and batch_norm against their formulas in double with their gradients, running
// statistics against numbers worked out by hand, and the messages they refuse with.
#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/tests/ops/norm_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

/// Index of the channel of element i of an array [N, C, ...].
std::int64_t channel_of(const Shape& shape, std::int64_t i) {
  const std::int64_t length = layout::numel(shape) / (shape[0] * shape[1]);
  return i / length % shape[1];
}
NormFormula grouped(const Shape& shape, std::int64_t groups) {
  const std::int64_t row = layout::numel(shape) / (shape[0] * groups);
  return NormFormula(
      layout::numel(shape), 1e-5, [=](std::int64_t i) { return i / row; },
      [=](std::int64_t i) { return channel_of(shape, i); });
}
NormFormula batched(const Shape& shape) {
  const auto channel = [=](std::int64_t i) { return channel_of(shape, i); };
  return NormFormula(layout::numel(shape), 1e-5, channel, channel);
}
Function group(std::int64_t groups) {
  return [=](const Tensors& in) { return group_norm(in[0], groups, in[1], in[2]); };
}
Tensor batch(const Tensors& in) { return batch_norm(in[0], {}, {}, in[1], in[2], true); }
Tensor instance(const Tensors& in) { return instance_norm(in[0], {}, {}, in[1], in[2]); }

/// Values and gradients of f on `shape` in f32, and in 16 bits as far as these go.
void expect_formula(const Function& f, const Shape& shape, const NormFormula& formula, MemoryFormat format) {
  const Tensor x = random(shape, DType::f32).to(format), w = random({shape[1]}, DType::f32, 0.5, 2);
  const Tensor b = random({shape[1]}, DType::f32, -1, 1, 0.4);
  const Tensor g = random(shape, DType::f32, -1, 1, 0.7).to(format);
  const Evaluated found = evaluate(f, {x, w, b}, g);
  const std::string where = to_string(shape) + " strides " + to_string(x.strides());
  SCOPED_TRACE(where);
  EXPECT_EQ(found.y.strides(), x.strides());
  EXPECT_EQ(found.gradients[0].strides(), x.strides());
  expect_near(found.y, formula.forward(x, w, b), 1e-6, 3e-6);
  const std::vector<Doubles> want = formula.backward(g, x, w);
  for (std::size_t i = 0; i < 3; ++i) expect_near(found.gradients[i], want[i], 2e-6, 1e-5);
  const Tensor half = to(x, DType::bf16), half_grad = to(g, DType::bf16);
  const Evaluated low = evaluate(f, {half, w, b}, half_grad);
  const Evaluated wide = evaluate(f, {to(half, DType::f32), w, b}, to(half_grad, DType::f32));
  EXPECT_EQ(low.gradients[1].dtype(), DType::f32);
  EXPECT_TRUE(same_bits(low.y, to(wide.y, DType::bf16)));
  EXPECT_TRUE(same_bits(low.gradients[0], to(wide.gradients[0], DType::bf16)));
  EXPECT_TRUE(same_bits(low.gradients[1], wide.gradients[1]));
}

/// The same in every memory format that the shape has.
void expect_formula(const Function& f, const Shape& shape, const NormFormula& formula) {
  expect_formula(f, shape, formula, MemoryFormat::contiguous);
  if (shape.size() >= 3) expect_formula(f, shape, formula, MemoryFormat::channels_last);
}

TEST(GroupNorm, MatchesTheFormulaForEveryLength) {
  for (const Shape& shape : {Shape{3, 12}, Shape{2, 12, 1}, Shape{2, 6, 5}, Shape{3, 4, 7, 7},
                             Shape{1, 6, 1100}, Shape{2, 4, 33, 65}}) {
    for (const std::int64_t groups : {1, 2}) expect_formula(group(groups), shape, grouped(shape, groups));
  }
  expect_formula(group(6), {2, 6, 17}, grouped({2, 6, 17}, 6));
  // More channels than columns are taken at once, groups across their border, and more than one chunk.
  for (const std::int64_t groups : {1, 10, 70})
    expect_formula(group(groups), {2, 70, 3, 100}, grouped({2, 70, 3, 100}, groups));
}

TEST(BatchNorm, MatchesTheFormulaForEveryLength) {
  for (const Shape& shape :
       {Shape{7, 5}, Shape{70, 40}, Shape{3, 4, 1}, Shape{5, 3, 2}, Shape{4, 3, 7, 7}, Shape{1, 3, 40},
        Shape{3, 2, 1100}, Shape{2, 1, 9}, Shape{3, 130, 9, 10}, Shape{2, 3, 2, 3, 4}})
    expect_formula(batch, shape, batched(shape));
}

TEST(InstanceNorm, MatchesTheFormulaForEveryLength) {
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{3, 4, 7, 7}, Shape{2, 2, 1100}})
    expect_formula(instance, shape, grouped(shape, shape[1]));
}

TEST(GroupNorm, IsLayerNormWhereOneGroupIsTheRow) {
  const Tensor x = random({6, 50}, DType::f32), w = random({50}, DType::f32), b = random({50}, DType::f32);
  EXPECT_TRUE(same_bits(group_norm(x, 1, w, b), layer_norm(x, {50}, w, b)));
}

TEST(BatchNorm, MovesTheRunningStatistics) {
  // Channel 0 holds 1 and 3: mean 2, unbiased variance 2. Channel 1 holds 2 and 6: mean 4, unbiased
  // variance 8.
  const Tensor x = make<float>({2, 2}, {1, 2, 3, 6});
  const Tensor mean = make<float>({0, 1}), var = make<float>({1, 2});
  const Tensor y = batch_norm(x, mean, var, {}, {}, true, 0.25, 0);
  EXPECT_EQ(list(y), (Doubles{-1, -1, 1, 1}));
  EXPECT_EQ(list(mean), (Doubles{0.5, 1.75}));
  EXPECT_EQ(list(var), (Doubles{1.25, 3.5}));
  // In evaluation they are read only: (5 - 0.5) / sqrt(1.25 + 1), (7 - 1.75) / sqrt(3.5 + 1).
  const Tensor other = make<float>({1, 2}, {5, 7});
  expect_near(batch_norm(other, mean, var, {}, {}, false, 0.25, 1), {3, 5.25 / std::sqrt(4.5)}, 1e-6);
  EXPECT_EQ(list(mean), (Doubles{0.5, 1.75}));
}

TEST(InstanceNorm, MovesTheRunningStatisticsByTheMeansOverTheBatch) {
  // Means 2 and 4, unbiased variances 2 and 8: 3 and 5 over the batch.
  const Tensor x = make<float>({2, 1, 2}, {1, 3, 2, 6});
  const Tensor mean = make<float>({1}), var = make<float>({1});
  EXPECT_EQ(list(instance_norm(x, mean, var, {}, {}, true, 0.5, 0)), (Doubles{-1, 1, -1, 1}));
  EXPECT_EQ(list(mean), (Doubles{2}));
  EXPECT_EQ(list(var), (Doubles{3}));
  // With the running ones: (x - 2) / sqrt(3 + 1).
  EXPECT_EQ(list(instance_norm(x, mean, var, {}, {}, false, 0.5, 1)), (Doubles{-0.5, 0.5, 0, 2}));
}

TEST(BatchNorm, KeepsRunningStatisticsInTheirOwnDtype) {
  const Tensor x = to(make<float>({2, 1}, {1, 3}), DType::bf16);
  const Tensor mean = make<float>({0}), var = make<float>({1});
  EXPECT_EQ(batch_norm(x, mean, var, {}, {}, true).dtype(), DType::bf16);
  expect_near(mean, {0.2}, 1e-7);
  expect_near(var, {1.1}, 2e-7);
}

TEST(BatchNorm, InEvaluationTakesStatisticsAsConstants) {
  const Tensor x = random({3, 2, 4}, DType::f64), g = random({3, 2, 4}, DType::f64, -1, 1, 0.7);
  const Tensor mean = make<double>({0.5, -1}), var = make<double>({3, 0.25}), w = make<double>({2, -1});
  const Function f = [&](const Tensors& in) {
    return batch_norm(in[0], mean, var, in[1], {}, false, 0.1, 1);
  };
  const Evaluated found = evaluate(f, {x, w}, g);
  const Doubles values = list(x), upstream = list(g), scale{0.5, 1 / std::sqrt(1.25)}, center{0.5, -1};
  Doubles dx, dw(2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i / 4 % 2;
    dx.push_back(upstream[i] * scale[c] * (c == 0 ? 2 : -1));
    dw[c] += upstream[i] * (values[i] - center[c]) * scale[c];
  }
  expect_near(found.gradients[0], dx, 1e-14);
  expect_near(found.gradients[1], dw, 1e-13);
}

TEST(BatchNorm, InEvaluationGivesEachElementItsOwnGradientBesideInfiniteOnes) {
  const Device device = Device::best();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{6, 3}, Shape{2, 3, 40}, Shape{2, 3, 4, 5}, Shape{4, 48, 3, 3}}) {
      const Tensor finite = random(shape, dtype), g = random(shape, dtype, -1, 1, 0.7).to(device);
      const Tensor x = finite.clone().reshape({-1});
      x[1].fill_(std::numeric_limits<double>::infinity());
      x[x.numel() / 2].fill_(std::numeric_limits<double>::quiet_NaN());
      const Shape channels{shape[1]};
      const Tensor mean = random(channels, DType::f32).to(device),
                   var = random(channels, DType::f32, 0.5, 2).to(device);
      const Tensor w = random(channels, DType::f32, 0.5, 2).to(device);
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        if (format == MemoryFormat::channels_last && shape.size() != 4) continue;
        const Function f = [&](const Tensors& in) { return batch_norm(in[0], mean, var, w, {}, false); };
        const auto gradient = [&](const Tensor& in) {
          return list(evaluate(f, {in.reshape(shape).to(device).to(format)}, g).gradients[0]);
        };
        EXPECT_EQ(gradient(x), gradient(finite)) << to_string(dtype) << " " << to_string(shape);
      }
    }
  }
}

TEST(ChannelNorms, MoveTheSameRunningStatisticsInBothFormats) {
  const Tensor x = random({4, 6, 5, 7}, DType::f64), g = random({4, 6, 5, 7}, DType::f64, -1, 1, 0.7);
  for (const bool instance : {false, true}) {
    const auto after = [&](MemoryFormat format, bool own) {
      const Tensor mean = zeros({6}, {.dtype = DType::f64}), var = full({6}, 1, {.dtype = DType::f64});
      const Function f = [&](const Tensors& in) {
        return instance ? instance_norm(in[0], mean, var, {}, {}, own)
                        : batch_norm(in[0], mean, var, {}, {}, own);
      };
      const Evaluated found = evaluate(f, {x.to(format)}, g);
      return Tensors{found.y, found.gradients[0], mean, var};
    };
    for (const bool own : {true, false}) {
      const Tensors want = after(MemoryFormat::contiguous, own),
                    got = after(MemoryFormat::channels_last, own);
      for (std::size_t i = 0; i < want.size(); ++i) expect_near(got[i], list(want[i]), 1e-13, 1e-14);
    }
  }
}

TEST(BatchNorm, BackwardAfterTheRunningStatisticsMoved) {
  const Tensor mean = zeros({3}), var = full({3}, 1, {.dtype = DType::f32});
  const Tensor g = random({4, 3, 5}, DType::f32), w = random({3}, DType::f32);
  const Tensor x = random({4, 3, 5}, DType::f32);
  const Function with = [&](const Tensors& in) { return batch_norm(in[0], mean, var, in[1], {}, true); };
  const Function without = [&](const Tensors& in) { return batch_norm(in[0], {}, {}, in[1], {}, true); };
  EXPECT_TRUE(same_bits(evaluate(with, {x, w}, g), evaluate(without, {x, w}, g)));
  EXPECT_NE(list(mean)[0], 0);
  EXPECT_FALSE(mean.requires_grad());
}

TEST(BatchNorm, OfNothingChangesNothing) {
  const Tensor mean = make<float>({1, 2}), var = make<float>({3, 4});
  const Function f = [&](const Tensors& in) { return batch_norm(in[0], mean, var, in[1], in[2], true); };
  const Tensor w = make<float>({1, 1});
  for (const Shape& shape : {Shape{0, 2}, Shape{0, 2, 3}, Shape{2, 2, 0}}) {
    const Evaluated found = evaluate(f, {zeros(shape), w, w}, zeros(shape));
    EXPECT_EQ(found.y.shape(), shape);
    EXPECT_EQ(list(found.gradients[1]), Doubles(2));
    EXPECT_EQ(list(found.gradients[2]), Doubles(2));
    EXPECT_EQ(list(mean), (Doubles{1, 2}));
    EXPECT_EQ(list(var), (Doubles{3, 4}));
    const Evaluated of_group = evaluate(group(1), {zeros(shape), w, w}, zeros(shape));
    EXPECT_EQ(list(of_group.gradients[1]), Doubles(2));
  }
}

TEST(BatchNorm, KeepsNanInItsChannel) {
  const Tensor clean = random({3, 2, 20}, DType::f32);
  const Tensor x = clean.clone();
  x.mutable_data<float>()[45] = std::numeric_limits<float>::quiet_NaN();
  const Doubles got = list(batch_norm(x, {}, {}, {}, {}, true));
  const Doubles want = list(batch_norm(clean, {}, {}, {}, {}, true));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i / 20 % 2 == 0)
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else
      EXPECT_EQ(got[i], want[i]) << i;
  }
}

TEST(BatchNorm, KeepsSmallDeviationsFromALargeMean) {
  for (const Shape& shape : {Shape{64, 3}, Shape{4, 3, 500}, Shape{5, 3, 2000}}) {
    const Tensor x = random(shape, DType::f32, 9999.5, 10000.5);
    const Doubles want = batched(shape).forward(x, {}, {});
    expect_near(batch({x, Tensor(), Tensor()}), want, 1e-6, 2e-6);
    if (shape.size() < 3) continue;
    expect_near(batch({x.to(MemoryFormat::channels_last), Tensor(), Tensor()}), want, 1e-6, 2e-6);
  }
}

TEST(ChannelNorms, GiveTheSameBitsForEveryLayoutInstructionSetAndThreadCount) {
  using kernels::cpu::Isa;
  const Tensor image = random({6, 16, 19, 21}, DType::f32).to(MemoryFormat::channels_last);
  for (const Tensor& x :
       {random({300, 70}, DType::f32), random({5, 8, 3}, DType::f32), image.contiguous(), image}) {
    const Shape& shape = x.shape();
    const Tensor g = random(shape, DType::f32, -1, 1, 0.7);
    const Tensor w = random({shape[1]}, DType::f32), b = random({shape[1]}, DType::f32);
    for (const Function& f : {group(2), Function(batch)}) {
      const Evaluated want = evaluate(f, {x, w, b}, g);
      if (x.is_contiguous()) {
        EXPECT_TRUE(same_bits(evaluate(f, {strided_copy(x), w, b}, strided_copy(g)), want))
            << to_string(shape);
      }
      for (const Isa isa : {Isa::base, Isa::v3}) {
        if (isa > kernels::cpu::best_isa()) continue;
        const kernels::cpu::IsaGuard guard(isa);
        EXPECT_TRUE(same_bits(evaluate(f, {x, w, b}, g), want)) << to_string(shape);
      }
      for (const int threads : {1, 2, 5}) {
        const ThreadGuard guard(threads);
        EXPECT_TRUE(same_bits(evaluate(f, {x, w, b}, g), want)) << threads << " threads";
      }
    }
  }
}

TEST(GroupNorm, UnderAutocastIsThatOfF32Casts) {
  const Tensor x = random({2, 6, 17}, DType::f32), w = random({6}, DType::f32, 0.5, 2),
               b = random({6}, DType::f32);
  for (const DType dtype : {DType::bf16, DType::f16})
    expect_autocast_equals_casts(group(3), {x, w, b}, dtype);
}

TEST(BatchNorm, IsLeftAloneByAutocast) {
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  const Tensor x = random({4, 3}, DType::f16);
  EXPECT_EQ(batch_norm(x, {}, {}, {}, {}, true).dtype(), DType::f16);
  EXPECT_EQ(instance_norm(random({4, 3, 5}, DType::f32)).dtype(), DType::f32);
}

TEST(ChannelNorms, RefuseWhatDoesNotFit) {
  const Tensor x = zeros({2, 4, 3}), four = zeros({4});
  EXPECT_EQ(message_of<ShapeError>([&] { (void)group_norm(four, 2); }),
            "group_norm: expected an input [N, C, ...], got [4]; unsqueeze the dim that is missing");
  EXPECT_EQ(message_of<ValueError>([&] { (void)group_norm(x, 3); }),
            "group_norm: expected a number of groups that divides the 4 channels, got 3; num_groups = 1 "
            "takes all of them together");
  EXPECT_EQ(message_of<ValueError>([&] { (void)group_norm(x, 0); }),
            "group_norm: expected a number of groups that divides the 4 channels, got 0; num_groups = 1 "
            "takes all of them together");
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)group_norm(zeros({1, 4}), 4);
            }),
            "group_norm: expected more than one value per group, got [1, 4]; one value less its mean is "
            "always 0: take fewer groups");
  EXPECT_EQ(message_of<ShapeError>([&] { (void)group_norm(x, 2, zeros({3})); }),
            "group_norm: expected a weight of shape [4], got [3]; reshape it, or leave it out");
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)batch_norm(zeros({1, 4}), {}, {}, {}, {}, true);
            }),
            "batch_norm: expected more than one value per channel for training, got [1, 4]; one value less "
            "its mean is always 0: make batches larger or drop the last one, and over several processes call "
            "dist::convert_sync_batchnorm(model)");
  EXPECT_EQ(message_of<ValueError>([&] { (void)batch_norm(x, four, {}); }),
            "batch_norm: expected running_mean and running_var together, got running_mean alone; pass both "
            "or neither");
  EXPECT_EQ(message_of<ValueError>([&] { (void)batch_norm(x); }),
            "batch_norm: expected running statistics where training is false, got none; pass running_mean "
            "and running_var, or training = true");
  EXPECT_EQ(message_of<ShapeError>([&] { (void)batch_norm(x, zeros({3}), four); }),
            "batch_norm: expected a running_mean of shape [4], got [3]; reshape it, or leave it out");
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)instance_norm(zeros({2, 4}));
            }),
            "instance_norm: expected more than one value per channel for use_input_stats, got [2, 4]; one "
            "value less its mean is always 0");
  EXPECT_EQ(message_of<ValueError>([&] { (void)instance_norm(x, {}, {}, {}, {}, false); }),
            "instance_norm: expected running statistics where use_input_stats is false, got none; pass "
            "running_mean and running_var, or use_input_stats = true");
  EXPECT_EQ(message_of<DTypeError>([&] { (void)batch_norm(x, four, zeros({4}, {.dtype = DType::f64})); }),
            "batch_norm: expected a running_var in f16, bf16 or f32, got f64; convert it to the dtype of x");
}

}  // namespace
}  // namespace mezzo
