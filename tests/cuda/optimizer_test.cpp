// Optimizers on a CUDA device against the CPU: rules, dtypes, layouts, many parameters, and steps that a
// scaler or a fault of the device skips.
#include <utility>

#include "cuda/twin.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/algorithms.h"

namespace mezzo::optim {
namespace {

using twin::expect_same;
using twin::leaf;
using twin::Trace;
using twin::values;

class CudaOptimizer : public twin::CudaTwin {};

/// Sizes around a pack, a block's share and several blocks; none at all, and no dims.
const std::vector<Shape> kShapes{{1}, {3}, {4}, {5}, {31, 33}, {1024}, {1025}, {3, 1366}, {0}, {}};

std::vector<Tensor> leaves(const std::vector<Shape>& shapes, DType dtype, Device device) {
  std::vector<Tensor> result;
  for (const Shape& shape : shapes) result.push_back(leaf(result.size() + 1, shape, dtype, device));
  return result;
}

void set_gradients(const std::vector<Tensor>& parameters, std::uint64_t seed) {
  for (const Tensor& p : parameters) p.set_grad(values(seed++, p.shape(), p.dtype(), p.device()));
}

void report(Trace& trace, const std::string& when, const std::vector<Tensor>& parameters,
            const Optimizer& optimizer) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    trace.add(when + "parameter " + std::to_string(i), parameters[i]);
  for (const auto& [key, tensor] : optimizer.state_dict().tensors) trace.add(when + key, tensor);
}

/// Leaves whose elements do not lie in one run, or not where packs of four begin.
std::vector<Tensor> odd_leaves(Device device, DType dtype) {
  const Tensor memory = values(5, {3000}, dtype, device);
  std::vector<Tensor> result{
      transpose(values(1, {17, 90}, dtype, device), 0, 1),
      slice(memory, 0, 1, 2102),
      slice(values(2, {50, 40}, dtype, device), 1, 3, 36, 2),
      permute(values(3, {3, 5, 70}, dtype, device), {2, 0, 1}),
  };
  for (Tensor& tensor : result) {
    tensor = tensor.detach();
    tensor.requires_grad_();
  }
  return result;
}

const Value kSplit = Value::Map{{"master_weights", "split"}};
const Value kStochastic = Value::Map{{"stochastic_rounding", true}};

const Value kPacked = Value::Map{{"state_bits", 8}};

class CudaEveryOptimizer : public twin::CudaTwin, public ::testing::WithParamInterface<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(All, CudaEveryOptimizer, ::testing::ValuesIn(algorithms()),
                         [](const auto& named) { return named.param.name; });

/// Seven steps, with another learning rate for the last three.
void expect_same_steps(const Algorithm& algorithm, DType dtype, const Value& changes) {
  SCOPED_TRACE(to_string(dtype));
  expect_same([&](Device device, Trace& trace) {
    const std::vector<Tensor> parameters = leaves(kShapes, dtype, device);
    const auto optimizer = algorithm.make(parameters, changes);
    for (std::uint64_t step = 0; step < 7; ++step) {
      if (step == 4) optimizer->set_lr(0.02);
      set_gradients(parameters, 100 * (step + 1));
      optimizer->step();
      report(trace, "step " + std::to_string(step) + ": ", parameters, *optimizer);
    }
  });
}

TEST_P(CudaEveryOptimizer, AgreesWithTheCpu) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    expect_same_steps(GetParam(), dtype, Value::Map{});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    expect_same_steps(GetParam(), dtype, kMasters);
    expect_same_steps(GetParam(), dtype, kStochastic);
  }
  expect_same_steps(GetParam(), DType::bf16, kSplit);
  if (!GetParam().options.contains("state_bits")) return;
  expect_same_steps(GetParam(), DType::f32, kPacked);
  expect_same_steps(GetParam(), DType::f64, kPacked);
  for (Value way : {Value(Value::Map{}), kMasters, kSplit, kStochastic}) {
    way.set("state_bits", 8);
    expect_same_steps(GetParam(), DType::bf16, way);
  }
}

TEST_P(CudaEveryOptimizer, PackedMomentsOfAnyStridesAgreeWithTheCpu) {
  if (!GetParam().options.contains("state_bits")) return;
  expect_same([&](Device device, Trace& trace) {
    std::vector<Tensor> parameters{transpose(values(1, {97, 90}, DType::bf16, device), 0, 1),
                                   slice(values(2, {150, 40}, DType::bf16, device), 1, 3, 36, 1)};
    for (Tensor& tensor : parameters) {
      tensor = tensor.detach();
      tensor.requires_grad_();
    }
    const auto optimizer =
        GetParam().make(parameters, Value::Map{{"state_bits", 8}, {"master_weights", "split"}});
    for (std::uint64_t step = 0; step < 3; ++step) {
      set_gradients(parameters, 10 * step);
      optimizer->step();
    }
    report(trace, "", parameters, *optimizer);
  });
}

TEST_P(CudaEveryOptimizer, AnyStridesAgreeWithTheCpu) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const Value& changes : {Value(Value::Map{}), kMasters, kSplit, kStochastic}) {
      expect_same([&](Device device, Trace& trace) {
        std::vector<Tensor> parameters = odd_leaves(device, dtype);
        parameters.push_back(leaf(9, {40, 30}, dtype, device));
        const auto optimizer = GetParam().make(parameters, changes);
        for (std::uint64_t step = 0; step < 3; ++step) {
          set_gradients(parameters, 10 * step);
          // A gradient with strides for a parameter without.
          parameters.back().set_grad(transpose(values(step, {30, 40}, dtype, device), 0, 1));
          optimizer->step();
        }
        report(trace, "", parameters, *optimizer);
      });
    }
  }
}

TEST_P(CudaEveryOptimizer, MomentumTakenToZeroAgreesWithTheCpu) {
  const Value& options = GetParam().options;
  if (!options.contains("momentum") || options.at("momentum").as_double() == 0) return;
  for (const std::int64_t state_bits : {32, 8}) {
    expect_same([&](Device device, Trace& trace) {
      const std::vector<Tensor> parameters{leaf(1, {4100}, DType::f32, device)};
      const auto optimizer = GetParam().make(parameters, Value::Map{{"state_bits", state_bits}});
      for (std::uint64_t step = 0; step < 4; ++step) {
        if (step == 2) optimizer->set_momentum(0);
        set_gradients(parameters, 10 * step);
        optimizer->step();
        trace.add("step " + std::to_string(step), parameters[0]);
      }
    });
  }
}

TEST_P(CudaEveryOptimizer, TheUpdateDoesNotDependOnWhetherGradientsAreLeftUnscaled) {
  const Device device = Device::cuda(0);
  const auto train = [&](bool write_unscaled, double left) {
    std::vector<Tensor> parameters = leaves({{5}, {1030}}, DType::f32, device);
    parameters.push_back(odd_leaves(device, DType::bf16)[0]);
    const auto optimizer = GetParam().make(parameters, kMasters);
    amp::GradScaler scaler({.init_scale = 4, .write_unscaled = write_unscaled});
    for (std::uint64_t step = 0; step < 3; ++step) {
      static_cast<void>(scaler.scale(zeros({}, {.device = device})));
      set_gradients(parameters, 10 * step);
      scaler.step(*optimizer);
      scaler.update();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Tensor& p = parameters[i];
        const Tensor expected = values(10 * step + i, p.shape(), p.dtype(), Device::cpu()) * left;
        EXPECT_TRUE(p.grad().to(Device::cpu()).to_vector<double>() == expected.to_vector<double>());
      }
    }
    std::vector<std::vector<double>> all;
    Trace trace;
    report(trace, "", parameters, *optimizer);
    for (const Trace::Entry& entry : trace.entries) all.push_back(entry.values);
    return all;
  };
  EXPECT_EQ(train(true, 0.25), train(false, 1.0));
}

TEST_P(CudaEveryOptimizer, ASkippedStepChangesNothing) {
  const Device device = Device::cuda(0);
  std::vector<Tensor> parameters = leaves({{5}, {1030}}, DType::f32, device);
  parameters.push_back(odd_leaves(device, DType::bf16)[0]);
  const auto optimizer = GetParam().make(parameters, kMasters);
  amp::GradScaler scaler({.init_scale = 4});
  const auto step = [&](std::uint64_t seed, bool overflow) {
    static_cast<void>(scaler.scale(zeros({}, {.device = device})));
    set_gradients(parameters, seed);
    if (overflow) twin::set_element(parameters[1].grad(), 7, twin::kInf);
    scaler.step(*optimizer);
    scaler.update();
    Trace trace;
    report(trace, "", parameters, *optimizer);
    std::vector<std::vector<double>> all;
    for (const Trace::Entry& entry : trace.entries) all.push_back(entry.values);
    return all;
  };
  for (const std::uint64_t seed : {10, 20}) {
    const auto skipped_first = step(seed, true);
    const auto made = step(seed + 1, false);
    EXPECT_NE(made, skipped_first);
    EXPECT_EQ(step(seed + 2, true), made);
  }
  EXPECT_EQ(optimizer->state_dict().tensors.front().second.item<std::int64_t>(), 2);
}

TEST_P(CudaEveryOptimizer, StateGoesToTheDeviceAndBack) {
  const auto moved = [](const std::vector<Tensor>& parameters, Device device) {
    std::vector<Tensor> result;
    for (const Tensor& p : parameters) result.push_back(p.detach().clone().to(device).requires_grad_());
    return result;
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    expect_same([&](Device device, Trace& trace) {
      std::vector<Tensor> parameters = leaves({{20}, {3, 3}}, dtype, Device::cpu());
      auto optimizer = GetParam().make(parameters, kMasters);
      for (const auto& [next, seed] : {std::pair{device, 1U}, std::pair{Device::cpu(), 2U}}) {
        set_gradients(parameters, seed);
        optimizer->step();
        const OptimizerState state = optimizer->state_dict();
        parameters = moved(parameters, next);
        optimizer = GetParam().make(parameters, Value::Map{{"lr", 0.5}});
        optimizer->load_state_dict(state);
        set_gradients(parameters, 10 + seed);
        optimizer->step();
        report(trace, std::string(seed == 1 ? "there" : "back") + ": ", parameters, *optimizer);
      }
    });
  }
}

TEST_F(CudaOptimizer, OneGroupMayHoldAllDtypes) {
  expect_same([](Device device, Trace& trace) {
    std::vector<Tensor> parameters;
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::f64, DType::f32})
      parameters.push_back(leaf(parameters.size(), {37, 41}, dtype, device));
    Adam adam(parameters, {.master_weights = true});
    for (std::uint64_t step = 0; step < 3; ++step) {
      set_gradients(parameters, 10 * step);
      adam.step();
    }
    report(trace, "", parameters, adam);
  });
}

TEST_F(CudaOptimizer, ManyParametersAgreeWithTheCpu) {
  expect_same([](Device device, Trace& trace) {
    std::vector<Tensor> parameters;
    for (std::uint64_t i = 0; i < 400; ++i) {
      const auto size = static_cast<std::int64_t>(i % 7 == 0 ? 1100 : i % 5 + 1);
      parameters.push_back(leaf(i, {size}, DType::f32, device));
    }
    SGD sgd(parameters, {.lr = 0.5, .momentum = 0.9});
    for (std::uint64_t step = 0; step < 2; ++step) {
      set_gradients(parameters, 1000 * step);
      sgd.step();
    }
    report(trace, "", parameters, sgd);
  });
}

TEST_F(CudaOptimizer, AGroupIsOneLaunch) {
  for (const auto& [count, most] :
       {std::pair{1, 1U}, std::pair{16, 1U}, std::pair{100, 1U}, std::pair{300, 2U}}) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < count; ++i) parameters.push_back(leaf(1, {5}, DType::f32, Device::cuda(0)));
    AdamW adam(parameters);
    set_gradients(parameters, 1);
    adam.step();
    const std::uint64_t before = cuda::launches();
    adam.step();
    EXPECT_EQ(cuda::launches() - before, most) << count;
    EXPECT_EQ(adam.state_dict().tensors.front().second.item<std::int64_t>(), 2);
  }
}

TEST_F(CudaOptimizer, BlocksShareALargeParameter) {
  // More chunks than blocks, so that most blocks begin and end inside of one.
  expect_same([](Device device, Trace& trace) {
    const std::vector<Tensor> parameters = leaves({{5}, {2'600'003}, {0}, {1030}}, DType::f32, device);
    SGD sgd(parameters, {.lr = 0.5});
    set_gradients(parameters, 7);
    sgd.step();
    report(trace, "", parameters, sgd);
  });
}

TEST_F(CudaOptimizer, NeighboursOfAStridedParameterStay) {
  const Tensor memory = values(5, {64}, DType::f32, Device::cuda(0));
  const std::vector<double> before = memory.to_vector<double>();
  const Tensor parameter = slice(memory, 0, 1, 62, 3).detach();
  parameter.requires_grad_();
  SGD sgd(std::vector<Tensor>{parameter}, {.lr = 1});
  parameter.set_grad(ones(parameter.shape(), {.device = Device::cuda(0)}));
  sgd.step();
  const std::vector<double> after = memory.to_vector<double>();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool written = i >= 1 && i < 62 && (i - 1) % 3 == 0;
    EXPECT_EQ(after[i], written ? static_cast<double>(static_cast<float>(before[i] - 1)) : before[i]) << i;
  }
}

TEST_F(CudaOptimizer, WritesTheCopiesThatAutocastUses) {
  const Device device = Device::cuda(0);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor weight = leaf(1, {33, 65}, DType::f32, device);
    SGD sgd(std::vector<Tensor>{weight}, {.lr = 0.5});
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor used = half_copy(weight, dtype);  // as an op in a region does
      weight.set_grad(values(7 + step, weight.shape(), DType::f32, device));
      sgd.step();
    }
    const Tensor copy = half_copy(weight, dtype);
    EXPECT_EQ(copy.to_vector<double>(), weight.detach().to(dtype).to_vector<double>());
    EXPECT_NE(copy.to_vector<double>(), values(1, {33, 65}, dtype, device).to_vector<double>());
  }
}

TEST_F(CudaOptimizer, AStepReadsNothingBack) {
  const std::vector<Tensor> parameters = leaves({{65, 3}, {7}}, DType::f16, Device::cuda(0));
  Adam adam(parameters, {.master_weights = true});
  const std::uint64_t before = host_reads();
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (const Tensor& p : parameters)
      p.set_grad(ones(p.shape(), {.dtype = p.dtype(), .device = p.device()}));
    adam.set_lr(0.1);
    adam.step();
    adam.zero_grad();
  }
  EXPECT_EQ(host_reads(), before);
}

TEST_F(CudaOptimizer, AFaultOfTheDeviceSkipsTheStep) {
  const Device device = Device::cuda(0);
  const std::vector<Tensor> parameters = leaves({{100}, {1030}}, DType::f32, device);
  Adam adam(parameters, {.lr = 0.1});
  set_gradients(parameters, 50);
  adam.step();
  const auto snapshot = [&] {
    Trace trace;
    report(trace, "", parameters, adam);
    std::vector<std::vector<double>> all;
    for (const Trace::Entry& entry : trace.entries) all.push_back(entry.values);
    return all;
  };
  const auto before = snapshot();
  const Tensor scores = values(3, {4, 5}, DType::f32, device);
  const Tensor classes = tensor({0, 4, 5, 1}, {.dtype = DType::i64, .device = device});  // 5 is none
  const Tensor loss = nll_loss(scores, classes);
  adam.step();
  EXPECT_THROW(static_cast<void>(loss.item()), IndexError);
  EXPECT_EQ(snapshot(), before);
  adam.step();  // the fault was reported, and training goes on
  EXPECT_NE(snapshot(), before);
  EXPECT_EQ(adam.state_dict().tensors.front().second.item<std::int64_t>(), 2);
}

}  // namespace
}  // namespace mezzo::optim
