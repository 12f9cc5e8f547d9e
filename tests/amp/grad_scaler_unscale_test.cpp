// Unscaling and the non-finite check on gradients of every dtype and layout, by unscale_ and within step.
#include <gtest/gtest.h>

#include <cmath>

#include "amp/scaler_support.h"

namespace mezzo::amp {
namespace {

enum class Layout { contiguous, transposed, column_sliced };

// Crosses the borders of tiles (1024 elements) and of the chunks of threads (32 tiles).
constexpr std::int64_t kRows = 130, kColumns = 300;

/// A gradient of [kRows, kColumns] filled with 4 in the given layout, and the memory it is a part of.
struct Gradient {
  Gradient(Layout layout, DType dtype) {
    const TensorOptions options{.dtype = dtype};
    switch (layout) {
      case Layout::contiguous:
        memory = full({kRows, kColumns}, 4.0, options);
        view = memory;
        break;
      case Layout::transposed:
        memory = full({kColumns, kRows}, 4.0, options);
        view = transpose(memory, 0, 1);
        break;
      case Layout::column_sliced:
        // Every second column; those between hold inf and must be neither seen nor touched.
        memory = full({kRows, 2 * kColumns}, kInf, options);
        view = slice(memory, 1, 0, 2 * kColumns, 2);
        view.fill_(4.0);
        break;
    }
  }
  Tensor memory, view;
};

struct Case {
  Layout layout;
  DType dtype;
};

class Unscale : public ::testing::TestWithParam<Case> {
 protected:
  Unscale() { static_cast<void>(scaler.scale(zeros({}))); }

  Gradient gradient{GetParam().layout, GetParam().dtype};
  Tensor parameter = zeros({kRows, kColumns}, {.dtype = GetParam().dtype, .requires_grad = true});
  optim::SGD optimizer{std::vector<Tensor>{parameter}, {.lr = 1, .master_weights = true}};
  GradScaler scaler{{.init_scale = 4}};
};

TEST_P(Unscale, FoursDividedByTheScaleAreOnes) {  // V-8
  parameter.set_grad(gradient.view);
  scaler.unscale_(optimizer);
  EXPECT_EQ(parameter.grad().to_vector<double>(), std::vector<double>(kRows * kColumns, 1.0));
  EXPECT_EQ(parameter.grad().dtype(), GetParam().dtype == DType::f64 ? DType::f64 : DType::f32);
  EXPECT_EQ(parameter.grad().is_same(gradient.view), !is_16bit(GetParam().dtype))
      << "in place, but for those that become f32";
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(parameter.grad().to_vector<double>(), std::vector<double>(kRows * kColumns, 1.0))
      << "step after unscale_ does not unscale again";
  EXPECT_EQ(parameter.to_vector<double>(), std::vector<double>(kRows * kColumns, -1.0));
}

TEST_P(Unscale, StepUnscalesByItselfAndLeavesTheSameGradient) {  // G-33, G-42
  parameter.set_grad(gradient.view);
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(parameter.grad().to_vector<double>(), std::vector<double>(kRows * kColumns, 1.0));
  EXPECT_EQ(parameter.to_vector<double>(), std::vector<double>(kRows * kColumns, -1.0));
}

TEST_P(Unscale, StepMakesTheSameUpdateAndLeavesTheGradientScaledWhereThatIsWanted) {
  GradScaler reads_only({.init_scale = 4, .write_unscaled = false});
  static_cast<void>(reads_only.scale(zeros({})));
  parameter.set_grad(gradient.view);
  const std::uint64_t version = gradient.view.version();
  EXPECT_FALSE(reads_only.step(optimizer).skipped());
  EXPECT_TRUE(parameter.grad().is_same(gradient.view));
  EXPECT_EQ(parameter.grad().to_vector<double>(), std::vector<double>(kRows * kColumns, 4.0));
  EXPECT_EQ(gradient.view.version(), version) << "what is not written counts as unwritten";
  EXPECT_EQ(parameter.to_vector<double>(), std::vector<double>(kRows * kColumns, -1.0));
  reads_only.update();
  reads_only.unscale_(optimizer);
  EXPECT_EQ(parameter.grad().to_vector<double>(), std::vector<double>(kRows * kColumns, 1.0))
      << "unscale_ divides all the same";
}

TEST_P(Unscale, OneBadElementAnywhereIsFound) {  // V-8
  const NoGrad no_grad;
  for (const double bad : {kInf, -kInf, kNan}) {
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1023}, std::int64_t{1024},
                                  std::int64_t{32767}, std::int64_t{32768}, kRows * kColumns - 1}) {
      const Gradient one(GetParam().layout, GetParam().dtype);
      select(select(one.view, 0, at / kColumns), 0, at % kColumns).fill_(bad);
      for (const bool explicitly : {true, false}) {
        parameter.set_grad(one.view);
        if (explicitly) scaler.unscale_(optimizer);
        EXPECT_TRUE(scaler.step(optimizer).skipped()) << bad << " at " << at;
        scaler.update(4.0);
      }
    }
  }
  EXPECT_EQ(sum(abs(parameter)).item(), 0) << "no step was made";
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::column_sliced}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
      cases.push_back({layout, dtype});
  }
  return cases;
}
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  constexpr std::array names{"contiguous", "transposed", "column_sliced"};
  return std::string(names[static_cast<std::size_t>(info.param.layout)]) + "_" + to_string(info.param.dtype);
}
INSTANTIATE_TEST_SUITE_P(All, Unscale, ::testing::ValuesIn(all_cases()), name_of);

TEST(UnscaleValues, NothingButTheGradientIsTouched) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const Gradient gradient(Layout::column_sliced, dtype);
    const Tensor parameter = zeros({kRows, kColumns}, {.dtype = dtype, .requires_grad = true});
    optim::SGD optimizer(std::vector<Tensor>{parameter}, {.master_weights = true});
    GradScaler scaler({.init_scale = 4});
    for (const bool explicitly : {true, false}) {
      static_cast<void>(scaler.scale(zeros({})));
      parameter.set_grad(gradient.view);
      if (explicitly) scaler.unscale_(optimizer);
      EXPECT_FALSE(scaler.step(optimizer).skipped()) << "the inf between the columns is not part of it";
      scaler.update();
      const Tensor between = slice(gradient.memory, 1, 1, 2 * kColumns, 2);
      EXPECT_EQ(between.to_vector<double>(), std::vector<double>(kRows * kColumns, kInf));
    }
  }
}

TEST(UnscaleValues, EachElementIsMultipliedByTheF32InverseAndRoundedOnce) {  // G-26
  const std::vector<double> values{1, -3, 0.1, 65504, 6.1e-5, 0, -0.0};
  const auto check = [&](DType dtype, bool masters) {
    const Tensor given = tensor(values, {.dtype = dtype});
    const Tensor parameter = zeros(given.shape(), {.dtype = dtype, .requires_grad = true});
    parameter.set_grad(given.clone());
    optim::SGD optimizer(std::vector<Tensor>{parameter}, {.master_weights = masters});
    GradScaler scaler({.init_scale = 3});
    static_cast<void>(scaler.scale(zeros({})));
    scaler.unscale_(optimizer);
    const std::vector<double> before = given.to_vector<double>();
    const std::vector<double> after = parameter.grad().to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double product = dtype == DType::f64
                                 ? before[i] * static_cast<double>(1.0F / 3)
                                 : static_cast<double>(static_cast<float>(before[i]) * (1.0F / 3));
      const double expected = masters ? product : tensor({product}, {.dtype = dtype}).item();
      EXPECT_EQ(std::bit_cast<std::uint64_t>(after[i]), std::bit_cast<std::uint64_t>(expected))
          << to_string(dtype) << " " << before[i];
    }
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) check(dtype, false);
  for (const DType dtype : {DType::f16, DType::bf16}) check(dtype, true);
}

TEST(UnscaleValues, AScaleOfOneChangesNothing) {  // G-26
  OneParameter one;
  GradScaler scaler({.init_scale = 1});
  one.backward(scaler, 0x1p-149);  // a product, even with 1, might flush it to 0
  scaler.unscale_(one.optimizer);
  EXPECT_EQ(one.parameter.grad().to_vector<double>(), (std::vector<double>{0x1p-149, 1}));
}

TEST(UnscaleValues, TheCheckIsOnTheStoredValue) {  // G-27
  OneParameter one;
  GradScaler scaler({.init_scale = 0x1p-10});
  one.backward(scaler, 0x1p120);
  EXPECT_FALSE(scaler.step(one.optimizer).skipped());
  EXPECT_EQ(one.parameter.grad().to_vector<double>()[0], kInf);
}

TEST(UnscaleValues, ParametersWithoutGradientAreLeftOut) {  // G-23
  const Tensor with = zeros({2}, {.requires_grad = true}), without = ones({2}, {.requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{without, with}, {.lr = 1});
  GradScaler scaler({.init_scale = 2});
  static_cast<void>(scaler.scale(zeros({})));
  with.set_grad(full({2}, 6.0));
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  EXPECT_EQ(with.to_vector<double>(), (std::vector<double>{-3, -3}));
  EXPECT_EQ(without.to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_FALSE(without.grad().defined());
}

TEST(UnscaleValues, EmptyAndZeroDimensionalGradientsAreFine) {
  const Tensor nothing = zeros({0, 3}, {.requires_grad = true}), scalar = zeros({}, {.requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{nothing, scalar}, {.lr = 1});
  GradScaler scaler({.init_scale = 2});
  static_cast<void>(scaler.scale(zeros({})));
  nothing.set_grad(zeros({0, 3}));
  scalar.set_grad(tensor(6.0));
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(scalar.item(), -3);
}

TEST(UnscaleValues, WithinAStepTheUpdateSeesHalfGradientsBeforeTheyAreRounded) {
  // 2^-26 is too small for an f16; the f32 master must move by it all the same.
  const Tensor parameter = zeros({1}, {.dtype = DType::f16, .requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{parameter}, {.lr = 1, .master_weights = true});
  GradScaler scaler({.init_scale = 0x1p26});
  static_cast<void>(scaler.scale(zeros({})));
  parameter.set_grad(tensor({1.0}, {.dtype = DType::f16}));
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  double master = 0;
  for (const auto& [key, value] : optimizer.state_dict().tensors) {
    if (key == "0.master") master = value.item();
  }
  EXPECT_EQ(master, -0x1p-26);
  EXPECT_EQ(parameter.grad().item(), 0);
}

}  // namespace
}  // namespace mezzo::amp
