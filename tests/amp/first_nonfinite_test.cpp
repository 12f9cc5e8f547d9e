// Which parameter made the scaler skip: StepResult::first_nonfinite, and find_nonfinite, which looks at the
// gradients as they are. On the device, where there is one.
#include "mezzo/autograd/engine.h"
#include "mezzo/core/backend.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"
#include "mezzo/tests/amp/scaler_support.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo::amp {
namespace {

using Index = std::optional<std::size_t>;

/// Parameters of many sizes, dtypes and layouts, the third of them without a gradient.
struct Parameters {
  static constexpr std::size_t kWithout = 2;
  explicit Parameters(std::int64_t count = 6) {
    const bool many = count > 6;  // small ones then
    const std::vector<Shape> shapes{{5}, {many ? 3 : 300, 401}, {3}, {7, 9}, {2, 3}, {many ? 90 : 90000}};
    for (std::int64_t i = 0; i < count; ++i) {
      const auto kind = static_cast<std::size_t>(i % 6);
      const DType dtype = kind == 4 ? DType::bf16 : kind == 0 ? DType::f16 : DType::f32;
      list.push_back(ones(shapes[kind], {.dtype = dtype, .device = device}).requires_grad_());
    }
  }
  /// Gradients of 1, but for the first or last element of those in `bad`.
  void set_gradients(const std::vector<std::size_t>& bad, double value = kInf) const {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i == kWithout) continue;
      Tensor gradient = ones(list[i].shape(), {.dtype = list[i].dtype(), .device = device});
      if (i == 3) gradient = transpose(ones({9, 7}, {.device = device}), 0, 1);  // not row-major
      if (std::find(bad.begin(), bad.end(), i) != bad.end()) {
        const Tensor flat = gradient.is_contiguous() ? reshape(gradient, {-1}) : select(gradient, 0, 6);
        select(flat, 0, i % 2 == 0 ? 0 : flat.numel() - 1).fill_(value);
      }
      list[i].set_grad(gradient);
    }
  }
  Device device = Device::best();
  std::vector<Tensor> list;
};

/// A scaler that knows its device.
struct Scaler : GradScaler {
  explicit Scaler(Device device) : GradScaler({.init_scale = 4}) {
    static_cast<void>(scale(zeros({}, {.device = device})));
  }
};

TEST(FirstNonfinite, IsTheLeastIndexHoweverManyAreBad) {
  const Parameters parameters;
  optim::Adam adam(parameters.list, {.master_weights = true});
  for (const int threads : {1, 2}) {
    const test::ThreadGuard guard(threads);
    for (const bool unscale_first : {false, true}) {
      for (const std::vector<std::size_t>& bad : {std::vector<std::size_t>{},
                                                  {0},
                                                  {1},
                                                  {3},
                                                  {4},
                                                  {5},
                                                  {4, 5},
                                                  {1, 3, 5},
                                                  {3, 5},
                                                  {0, 1, 3, 4, 5}}) {
        Scaler scaler(parameters.device);
        parameters.set_gradients(bad);
        if (unscale_first) scaler.unscale_(adam);
        const StepResult result = scaler.step(adam);
        EXPECT_EQ(result.first_nonfinite(), bad.empty() ? Index() : Index(bad.front()));
        EXPECT_EQ(result.skipped(), !bad.empty());
      }
    }
  }
}

TEST(FirstNonfinite, OfMoreParametersThanALaunchTakes) {
  const Parameters parameters(2400);
  optim::Adam adam(parameters.list, {.master_weights = true});
  Scaler scaler(parameters.device);
  for (const std::vector<std::size_t>& bad :
       {std::vector<std::size_t>{2399}, {1201, 2398}, {7, 1300, 2390}}) {
    parameters.set_gradients(bad, kNan);
    EXPECT_EQ(scaler.step(adam).first_nonfinite(), Index(bad.front()));
    scaler.update();
  }
}

TEST(FirstNonfinite, IsNotForgottenByClippingAndUpdating) {
  const Parameters parameters;
  optim::Adam adam(parameters.list, {.master_weights = true});
  Scaler scaler(parameters.device);
  parameters.set_gradients({3}, kNan);
  scaler.unscale_(adam);
  static_cast<void>(optim::clip_grad_norm_(adam.parameters(), 1.0));
  EXPECT_EQ(find_nonfinite(adam)->index, 0U) << "the norm is NaN, and so is all that it scales";
  const StepResult bad = scaler.step(adam);
  scaler.update();
  parameters.set_gradients({});
  const StepResult good = scaler.step(adam);
  scaler.update();
  EXPECT_EQ(bad.first_nonfinite(), Index(3));
  EXPECT_EQ(good.first_nonfinite(), Index());
}

TEST(FirstNonfinite, IsOneHostReadAndNoneUnlessAsked) {
  const Parameters parameters;
  optim::Adam adam(parameters.list, {.master_weights = true});
  Scaler scaler(parameters.device);
  parameters.set_gradients({5});
  const std::uint64_t before = host_reads();
  const StepResult result = scaler.step(adam);
  EXPECT_EQ(host_reads(), before);
  EXPECT_EQ(adam.parameter_name(result.first_nonfinite().value()), "parameter 5 [90000]");
  EXPECT_EQ(host_reads(), before + 1);
}

TEST(FirstNonfinite, IsOfTheOptimizerThatStepped) {
  const Parameters a, b;
  optim::Adam first(a.list, {.master_weights = true}), second(b.list, {.master_weights = true});
  Scaler scaler(a.device);
  a.set_gradients({});
  b.set_gradients({4});
  EXPECT_EQ(scaler.step(first).first_nonfinite(), Index());
  EXPECT_EQ(scaler.step(second).first_nonfinite(), Index(4));
}

TEST(FirstNonfinite, IsNothingWithoutAScaler) {
  OneParameter one;
  GradScaler scaler({.enabled = false});
  one.backward(scaler, kInf);
  EXPECT_EQ(scaler.step(one.optimizer).first_nonfinite(), Index());
  EXPECT_EQ(StepResult().first_nonfinite(), Index());
}

TEST(FindNonfinite, NamesTheFirstParameterAndCountsItsBadElements) {
  const Tensor a = zeros({2, 2}, {.requires_grad = true}), b = zeros({3}, {.requires_grad = true});
  const Tensor c = zeros({2}, {.requires_grad = true}), d = zeros({2}, {.requires_grad = true});
  const optim::SGD optimizer(optim::NamedTensors{{"a", a}, {"b", b}, {"layer.c", c}, {"d", d}});
  EXPECT_FALSE(find_nonfinite(optimizer).has_value()) << "no gradients at all";
  a.set_grad(full({2, 2}, 3e38));
  c.set_grad(zeros({2}));
  EXPECT_FALSE(find_nonfinite(optimizer).has_value()) << "large is not infinite";
  c.set_grad(tensor({kInf, kNan}));
  d.set_grad(tensor({kInf, 0.0}));
  const std::optional<NonFinite> found = find_nonfinite(optimizer);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 2U);
  EXPECT_EQ(found->parameter, "layer.c");
  EXPECT_EQ(found->count, 2);
}

TEST(FindNonfinite, DescribesUnnamedParametersAndFindsEveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor p = zeros({3}, {.dtype = dtype, .requires_grad = true});
    const optim::SGD optimizer(std::vector<Tensor>{p});
    for (const double bad : {kInf, -kInf, kNan}) {
      p.set_grad(tensor({0.0, bad, 1.0}, {.dtype = dtype}));
      const std::optional<NonFinite> found = find_nonfinite(optimizer);
      ASSERT_TRUE(found.has_value()) << to_string(dtype) << " " << bad;
      EXPECT_EQ(found->parameter, "parameter 0 [3]");
      EXPECT_EQ(found->count, 1);
    }
  }
}

TEST(FindNonfinite, WorksAfterASkippedStep) {
  GradScaler scaler;
  OneParameter one;
  one.backward(scaler, kInf);
  ASSERT_TRUE(scaler.step(one.optimizer).skipped());
  scaler.update();
  EXPECT_TRUE(find_nonfinite(one.optimizer).has_value());
}

}  // namespace
}  // namespace mezzo::amp
