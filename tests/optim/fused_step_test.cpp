// A step over all parameters at once against the plain way, one optimizer per parameter: the same bits,
// however many threads share the work.
#include <atomic>
#include <map>

#include "mezzo/core/backend.h"
#include "mezzo/core/threads.h"
#include "mezzo/kernels/optim/cpu_update.h"
#include "mezzo/kernels/scaler/scaler_record.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/thread_guard.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

/// Sizes around those of tiles and chunks, enough in all for several threads, more small ones than one launch
/// takes, strides, every dtype.
struct Model {
  explicit Model(Device device) {
    const auto add = [&](const Tensor& values) {
      parameters.push_back(values.to(device).detach().requires_grad_());
    };
    for (const std::int64_t size : {1, 100, 1024, 16384 - 64, 16384, 16385, 90000}) {
      add(randn({size}));
      add(randn({size}).to(DType::f16));
    }
    add(randn({0, 3}));
    add(randn({}));
    add(transpose(randn({300, 70}), 0, 1));
    add(slice(randn({50, 60}), 1, 0, 60, 2));
    add(randn({5000}).to(DType::bf16));
    add(randn({20000}).to(DType::f64));
    for (int i = 0; i < 200; ++i) add(randn({7 + i % 5}));
  }
  /// Gradients of step `step`; every fifth parameter has none in the first one, and counts one step less.
  void set_gradients(std::uint64_t step) const {
    Generator generator(50 + step);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& p = parameters[i];
      const Tensor gradient = randn(p.shape(), {}, generator).to(p.device());
      p.set_grad(step == 0 && i % 5 == 0 ? Tensor() : gradient.to(p.dtype()));
    }
  }
  std::vector<Tensor> parameters;
};

Model seeded(Device device) {
  manual_seed(11);
  return Model(device);
}

std::vector<std::vector<std::uint64_t>> all_bits(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<std::uint64_t>> result;
  for (const Tensor& tensor : tensors) result.push_back(bits(tensor.detach()));
  return result;
}

/// A scaler's record with a scale of 2^3 on the device.
Tensor record_on(Device device) {
  Tensor bytes =
      empty({static_cast<std::int64_t>(sizeof(ScalerRecord))}, {.dtype = DType::u8, .device = device});
  ScalerRecord record;
  record.scale = 8;
  record.inv_scale = 0.125F;
  backend(device).copy_from_host(bytes.impl().data(), &record, sizeof record, device.index);
  return bytes;
}

template <class Optimizer, class Options>
void expect_fused_is_plain(Options options, int threads) {
  const Device device = Device::best();
  options.master_weights = true;
  const Model fused = seeded(device), plain = seeded(device);
  Optimizer all(fused.parameters, options);
  std::vector<std::unique_ptr<Optimizer>> each;
  for (const Tensor& p : plain.parameters)
    each.push_back(std::make_unique<Optimizer>(std::vector<Tensor>{p}, options));
  const Tensor record = record_on(device);
  const test::ThreadGuard guard(threads);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const ScalerControl control{
        .record = step == 1 ? static_cast<const ScalerRecord*>(record.impl().data()) : nullptr,
        .unscale = step == 1};
    fused.set_gradients(step);
    plain.set_gradients(step);
    set_num_threads(threads);
    all.step(control);
    set_num_threads(1);
    for (const auto& one : each) one->step(control);
    for (std::size_t i = 0; i < fused.parameters.size(); ++i) {
      const Tensor &a = fused.parameters[i], &b = plain.parameters[i];
      ASSERT_EQ(bits(a.detach()), bits(b.detach())) << "parameter " << i << " after step " << step;
      if (!a.grad().defined()) continue;
      ASSERT_EQ(bits(a.grad()), bits(b.grad())) << "gradient " << i;
    }
  }
  for (std::size_t i = 0; i < each.size(); ++i) {
    for (const auto& [key, tensor] : each[i]->state_dict().tensors)
      ASSERT_EQ(bits(state_of(all, std::to_string(i) + key.substr(1))), bits(tensor)) << i << " " << key;
  }
}

TEST(FusedStep, OfSgdIsThatOfOneParameterAtATime) {
  for (const int threads : {1, 2, 5})
    expect_fused_is_plain<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, threads);
}

TEST(FusedStep, OfAdamWIsThatOfOneParameterAtATime) {
  for (const int threads : {1, 2, 5}) expect_fused_is_plain<AdamW>(AdamWOptions{.lr = 0.1}, threads);
  expect_fused_is_plain<AdamW>(AdamWOptions{.lr = 0.1, .amsgrad = true}, 3);
}

/// Counts how often it is made.
template <class T>
struct CountedFn : kernels::UpdateRule<0> {
  static inline std::atomic<int> made = 0;
  static CountedFn at(const int& /*rule*/, const kernels::StepNow& now) {
    ++made;
    return {{}, static_cast<T>(now.rates.lr)};
  }
  void operator()(T& p, T gradient, T* /*state*/) const { p -= lr * gradient; }
  T lr;
};

TEST(FusedStep, TakesSmallParametersOfTheCpuTogether) {
  constexpr std::int64_t kCount = 400, kSize = 50;
  std::vector<float> values(kCount * kSize, 1), gradients(kCount * kSize, 2);
  std::vector<std::int64_t> steps(kCount, 4);
  steps[7] = 9;
  std::vector<kernels::ParameterUpdate> updates(kCount);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    updates[i].value = {values.data() + i * kSize, DType::f32, {kSize}, {1}};
    updates[i].gradient = {gradients.data() + i * kSize, DType::f32, {kSize}, {1}};
    updates[i].step = &steps[i];
  }
  const kernels::Rates rates{.lr = 0.25};
  CountedFn<float>::made = 0;
  kernels::cpu::update<CountedFn>(updates, 0, {.rates = &rates});
  // A chunk is 16,384 elements, each parameter counting as 128; and one is at another step.
  EXPECT_LE(CountedFn<float>::made, 128 * kCount / 16384 + 1 + 2);
  EXPECT_EQ(values, std::vector<float>(kCount * kSize, 0.5F));
  EXPECT_EQ(steps[7], 10);
  EXPECT_EQ(steps[0], 5);
  EXPECT_EQ(steps.back(), 5);
}

TEST(FusedStep, OfASkippedRecordChangesNothing) {
  const Device device = Device::best();
  const Model model = seeded(device);
  AdamW adam(model.parameters, {.lr = 0.1});
  model.set_gradients(1);
  const Tensor bytes = record_on(device);
  ScalerRecord record;
  record.found_inf = 1;
  backend(device).copy_from_host(bytes.impl().data(), &record, sizeof record, device.index);
  const auto before = all_bits(model.parameters);
  adam.step({.record = static_cast<const ScalerRecord*>(bytes.impl().data()), .unscale = true});
  EXPECT_EQ(all_bits(model.parameters), before);
  EXPECT_EQ(state_bits(adam), (std::map<std::string, std::vector<std::uint64_t>>{}));
}

}  // namespace
}  // namespace mezzo::optim
