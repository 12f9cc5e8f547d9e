// ctc_loss against PyTorch, its gradient behind log_softmax against differences, edges, and what is refused.
// All log-probabilities are frames(T, N, C), in Python:
//   x = (torch.arange(T * N * C, dtype=torch.float64) * .7).cos().reshape(T, N, C) * 2; l = x.log_softmax(-1)
// and the targets of a batch tg = torch.tensor([[1, 1, 2], [3, 2, 0], [2, 3, 3]]).
#include <gtest/gtest.h>

#include "mezzo/core/threads.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/loss.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

Tensor logits(const Shape& shape) {
  Doubles values;
  for (std::int64_t i = 0; i < layout::numel(shape); ++i)
    values.push_back(2 * std::cos(static_cast<double>(i) * 0.7));
  return make<double>(shape, values);
}
Tensor frames(const Shape& shape) { return log_softmax(logits(shape), -1); }
Tensor batch_targets() { return indices({3, 3}, {1, 1, 2, 3, 2, 0, 2, 3, 3}); }
const IntList kInputs{6, 4, 5}, kTargets{3, 1, 0};

// [F.ctc_loss(l, tg, [6, 4, 5], [3, 1, 0], reduction=r) for r in ("none", "mean", "sum")] for frames(6, 3, 4)
TEST(CtcLoss, IsPyTorchs) {
  const Tensor x = frames({6, 3, 4}), targets = batch_targets();
  expect_near(ctc_loss(x, targets, kInputs, kTargets, {.reduction = Reduction::none}),
              {5.6116737523230835, 4.086222391377077, 7.22228658585337}, 1e-14);
  expect_near(ctc_loss(x, targets, kInputs, kTargets), {4.393022298223825}, 1e-14);
  expect_near(ctc_loss(x, targets, kInputs, kTargets, {.reduction = Reduction::sum}), {16.92018272955353},
              1e-14);
  const Tensor lengths = indices({6, 4, 5}), counts = make<std::int32_t>({3, 1, 0});
  EXPECT_TRUE(same_bits(ctc_loss(x, to(targets, DType::i32), lengths, counts),
                        ctc_loss(x, targets, kInputs, kTargets)));
}

// F.ctc_loss(l, torch.tensor([1, 1, 3, 2, 1]), [6, 4, 5], [2, 2, 1], reduction="none"), and with blank=3 of
// torch.tensor([1, 1, 0, 2, 1]); F.ctc_loss(l[:, 0], tg[0], [6], [3])
TEST(CtcLoss, TakesTargetsOneAfterTheOtherAndOneSample) {
  const Tensor x = frames({6, 3, 4});
  expect_near(
      ctc_loss(x, indices({1, 1, 3, 2, 1}), kInputs, IntList{2, 2, 1}, {.reduction = Reduction::none}),
      {6.246042424896539, 2.9983080856120634, 4.423434629121545}, 1e-14);
  expect_near(ctc_loss(x, indices({1, 1, 0, 2, 1}), kInputs, IntList{2, 2, 1},
                       {.blank = 3, .reduction = Reduction::none}),
              {4.590286904766883, 3.357785344004267, 6.408698211360614}, 1e-14);
  const Tensor one = select(x, 1, 0), target = indices({1, 1, 2});
  expect_near(ctc_loss(one, target, IntList{6}, IntList{3}), {1.8705579174410278}, 1e-14);
  const Tensor alone =
      ctc_loss(one, target, number<std::int64_t>(6), number<std::int64_t>(3), {.reduction = Reduction::none});
  EXPECT_EQ(alone.shape(), Shape{});
  expect_near(alone, {5.6116737523230835}, 1e-14);
}

// w = torch.tensor([1., -2, .5]); torch.autograd.grad((F.ctc_loss(l, tg, ..., reduction="none") * w).sum(),
// l): a row for each frame
const std::vector<Doubles> kPyTorchGradient{
    {0.2683254344, -0.3967603717, 0.1019861455, 0.0264487918, 0.3447875356, -0.1441049724, -0.3517545885,
     0.1510720252, -0.3688287774, 0.2054266484, 0.125609296, 0.0377928329},
    {-0.4667674532, -0.0512313839, 0.1486890418, 0.3693097953, 0.4857100657, -0.5318000558, -0.8148435751,
     0.8609335651, -0.1654649855, 0.0875402197, 0.0378397933, 0.0400849725},
    {-0.1486832166, -0.714416536, 0.3453878361, 0.5177119166, 0.1649913547, -0.4188509898, -0.1101598919,
     0.3640195271, -0.4889008258, 0.0285211754, 0.1114585588, 0.3489210915},
    {-0.0565594951, -0.0399465599, 0.0717407361, 0.0247653189, 1.1519683228, -0.1356050449, -0.3542927409,
     -0.662070537, -0.3559832352, 0.2065181873, 0.1159939919, 0.033471056},
    {-0.0860857655, -0.2457831465, -0.0789534428, 0.4108223548, 0, 0, 0, 0, -0.1747128214, 0.0870574305,
     0.040555256, 0.0471001349},
    {0.009246477, 0.1192187023, -0.6202760186, 0.4918108392, 0, 0, 0, 0, 0, 0, 0, 0}};

TEST(CtcLoss, GradientOfLogProbabilitiesIsPyTorchs) {
  const Tensor x = frames({6, 3, 4}).detach().requires_grad_();
  const Tensor losses = ctc_loss(x, batch_targets(), kInputs, kTargets, {.reduction = Reduction::none});
  (losses * make<double>({1, -2, 0.5})).sum().backward();
  for (std::size_t t = 0; t < kPyTorchGradient.size(); ++t)
    expect_near(select(x.grad(), 0, static_cast<std::int64_t>(t)), kPyTorchGradient[t], 0, 1e-10);
}

TEST(CtcLoss, GradientBehindLogSoftmaxIsTheSlope) {
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    expect_derivatives(
        "ctc_loss",
        [&](const Tensors& x) {
          return ctc_loss(log_softmax(x[0], -1), batch_targets(), kInputs, kTargets,
                          {.reduction = reduction});
        },
        {logits({6, 3, 4}).requires_grad_()}, false);
  }
}

// F.ctc_loss(l, tg, [3, 4, 0], [3, 1, 0]): 1, 1, 2 needs 4 frames
TEST(CtcLoss, SamplesWithoutAnAlignment) {
  const Tensor targets = batch_targets();
  const IntList frame_counts{3, 4, 0};
  const Tensor x = frames({6, 3, 4}).detach().requires_grad_();
  expect_near(ctc_loss(x, targets, frame_counts, kTargets, {.reduction = Reduction::none}),
              {kInf, 4.086222391377077, 0}, 1e-14);
  ctc_loss(x, targets, frame_counts, kTargets).backward();
  const Tensor grad = x.grad();
  EXPECT_TRUE(std::isnan(list(grad)[0]));
  EXPECT_EQ(list(select(narrow(grad, 0, 3, 3), 1, 0)), Doubles(12, 0)) << "behind the last frame";
  EXPECT_EQ(list(select(grad, 1, 2)), Doubles(24, 0));

  const Tensor y = frames({6, 3, 4}).detach().requires_grad_();
  const Tensor loss = ctc_loss(y, targets, frame_counts, kTargets, {.zero_infinity = true});
  expect_near(loss, {1.3620741304590256}, 1e-14);
  loss.backward();
  EXPECT_EQ(list(select(y.grad(), 1, 0)), Doubles(24, 0));
}

TEST(CtcLoss, OfEveryDtypeAndLayout) {
  const Tensor wide = frames({6, 3, 4}), targets = batch_targets();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor x = to(wide, dtype).detach().requires_grad_();
    const Tensor loss = ctc_loss(x, targets, kInputs, kTargets);
    EXPECT_EQ(loss.dtype(), dtype);
    // Computed in f64 from the rounded values, and rounded once.
    const Tensor exact = to(x.detach(), DType::f64).requires_grad_();
    const Tensor want = ctc_loss(exact, targets, kInputs, kTargets);
    EXPECT_TRUE(same_bits(loss, to(want, dtype)));
    loss.backward();
    want.backward();
    EXPECT_EQ(x.grad().dtype(), dtype);
    expect_near(x.grad(), list(exact.grad()), dtype == DType::f32 ? 1e-6 : 1e-2, 1e-6);
  }
  const Tensor strided = strided_copy(wide);
  EXPECT_TRUE(same_bits(ctc_loss(strided, strided_copy(targets), kInputs, kTargets),
                        ctc_loss(wide, targets, kInputs, kTargets)));
}

/// As in PyTorch, whose table for CUDA does not name it: behind a log_softmax, which is f32, the loss is f32.
TEST(CtcLoss, RunsInTheDtypeOfItsInputUnderAutocast) {
  const amp::Autocast autocast(DType::bf16);
  const Tensor x = to(logits({6, 3, 4}), DType::bf16);
  EXPECT_EQ(ctc_loss(log_softmax(x, -1), batch_targets(), kInputs, kTargets).dtype(), DType::f32);
  EXPECT_EQ(ctc_loss(x, batch_targets(), kInputs, kTargets).dtype(), DType::bf16);
}

TEST(CtcLoss, AnyNumberOfThreadsGivesTheSameBits) {
  const Tensor x = frames({40, 7, 5});
  const Tensor targets = remainder(arange(7 * 9).reshape({7, 9}), 4) + 1;
  const IntList lengths{40, 39, 38, 20, 40, 30, 40}, counts{9, 8, 7, 3, 0, 5, 9};
  const auto gradient = [&] {
    const Tensor leaf_x = x.detach().requires_grad_();
    return grad(ctc_loss(leaf_x, targets, lengths, counts, {.reduction = Reduction::sum}), leaf_x)[0];
  };
  const int before = get_num_threads();
  set_num_threads(1);
  const Tensor one = gradient();
  set_num_threads(4);
  const Tensor several = gradient();
  set_num_threads(before);
  EXPECT_TRUE(same_bits(one, several));
}

TEST(CtcLoss, PaddingIsNotRead) {
  const Tensor x = frames({6, 3, 4});
  EXPECT_TRUE(same_bits(ctc_loss(x, indices({3, 3}, {1, 1, 2, 3, -100, 99, -1, -1, -1}), kInputs, kTargets),
                        ctc_loss(x, batch_targets(), kInputs, kTargets)));
}

TEST(CtcLoss, OfNoSamples) {
  const Tensor none = zeros({4, 0, 3}), no_targets = zeros({0, 2}, {.dtype = DType::i64});
  EXPECT_EQ(ctc_loss(none, no_targets, IntList{}, IntList{}, {.reduction = Reduction::none}).shape(),
            (Shape{0}));
  EXPECT_TRUE(std::isnan(ctc_loss(none, no_targets, IntList{}, IntList{}).item()));
  EXPECT_EQ(ctc_loss(none, no_targets, IntList{}, IntList{}, {.reduction = Reduction::sum}).item(), 0);
}

TEST(CtcLoss, HasNoSecondDerivative) {
  const Tensor x = logits({6, 3, 4}).requires_grad_();
  const Tensor loss = ctc_loss(log_softmax(x, -1), batch_targets(), kInputs, kTargets);
  const Tensor slope = grad(loss, x, {.create_graph = true})[0];
  const std::string message = message_of<Error>([&] { slope.sum().backward(); });
  EXPECT_EQ(message,
            "ctc_loss: expected a first derivative only, got a second one; it has none, as in PyTorch");
}

TEST(CtcLoss, Refusals) {
  const Tensor x = frames({6, 3, 4}), targets = batch_targets();
  const auto refused = [&](const auto& call, const std::string& part) {
    const std::string message = message_of<Error>(call);
    EXPECT_NE(message.find("ctc_loss: expected " + part), std::string::npos) << message;
  };
  refused([&] { return ctc_loss(x, targets, IntList{6, 7, 5}, kTargets); }, "input_lengths in [0, 6], got 7");
  refused(
      [&] {
        return ctc_loss(x, targets, IntList{6, -1, 5}, kTargets);
      },
      "input_lengths in [0, 6], got -1");
  refused([&] { return ctc_loss(x, targets, kInputs, IntList{4, 1, 1}); }, "target_lengths in [0, 3], got 4");
  refused([&] { return ctc_loss(x, targets, IntList{6}, kTargets); }, "input_lengths of shape [3], got [1]");
  refused(
      [&] {
        return ctc_loss(x, indices({1, 2, 3}), kInputs, IntList{1, 1, 0});
      },
      "as many targets as target_lengths add up to, 2, got 3");
  refused([&] { return ctc_loss(x, indices({3, 1}, {1, 4, 1}), kInputs, IntList{1, 1, 1}); }, "");
  refused([&] { return ctc_loss(x, targets, kInputs, kTargets, {.blank = 4}); }, "a blank in [0, 4), got 4");
  refused([&] { return ctc_loss(x, to(targets, DType::f32), kInputs, kTargets); },
          "targets of dtype i64 or i32, got f32");
  refused([&] { return ctc_loss(zeros({4}), targets, kInputs, kTargets); }, "log_probs of shape");
  refused([&] { return ctc_loss(x, indices({2, 1}, {1, 1}), kInputs, kTargets); }, "targets of shape [3, S]");
  refused([&] { return ctc_loss(to(x, DType::i64), targets, kInputs, kTargets); }, "a floating tensor");
  EXPECT_THROW(static_cast<void>(ctc_loss(x, indices({3, 1}, {1, -1, 1}), kInputs, IntList{1, 1, 1})),
               IndexError);
}

TEST(CtcLoss, IsALayer) {
  const Tensor x = frames({6, 3, 4}), targets = batch_targets();
  const nn::CTCLoss loss({.blank = 0, .reduction = Reduction::sum});
  const Tensor want = ctc_loss(x, targets, kInputs, kTargets, {.reduction = Reduction::sum});
  EXPECT_TRUE(same_bits(loss.forward(x, targets, kInputs, kTargets), want));
  EXPECT_TRUE(same_bits(loss.forward(x, targets, indices({6, 4, 5}), indices({3, 1, 0})), want));
}

}  // namespace
}  // namespace mezzo
