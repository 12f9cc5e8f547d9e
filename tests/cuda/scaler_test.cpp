// Loss scaling on a CUDA device against the CPU: the non-finite check, unscaling, how the scale moves,
// clipping, and a training run under autocast.
#include <cstdint>
#include <memory>
#include <set>

#include "cuda/twin.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::amp {
namespace {

using twin::expect_same;
using twin::kInf;
using twin::kNan;
using twin::leaf;
using twin::set_element;
using twin::Trace;
using twin::values;

class CudaScaler : public twin::CudaTwin {};

/// Parameters of several dtypes and sizes, the last one with strides.
struct Model {
  explicit Model(Device on) : device(on) {
    parameters = {leaf(1, {1031}, DType::f32, on), leaf(2, {3, 5}, DType::bf16, on),
                  leaf(3, {77, 29}, DType::f16, on), leaf(4, {6}, DType::f64, on),
                  transpose(values(5, {6, 7}, DType::f32, on), 0, 1).detach()};
    parameters.back().requires_grad_();
  }
  void set_gradients(std::uint64_t seed) const {
    for (const Tensor& p : parameters) p.set_grad(values(seed++, p.shape(), p.dtype(), device));
  }
  void report(Trace& trace, const optim::Optimizer& optimizer) const {
    for (const Tensor& p : parameters) {
      trace.add("parameter", p);
      trace.add("gradient", p.grad());
    }
    for (const auto& [key, tensor] : optimizer.state_dict().tensors) trace.add(key, tensor);
  }
  Device device;
  std::vector<Tensor> parameters;
};

void report(Trace& trace, const GradScaler& scaler) {
  trace.add("scale", scaler.get_scale());
  trace.add("tracker", static_cast<double>(scaler.growth_tracker()));
  trace.add("ok", static_cast<double>(scaler.steps_ok()));
  trace.add("skipped", static_cast<double>(scaler.steps_skipped()));
  trace.add("floor", scaler.at_floor() ? 1 : 0);
  trace.add("scale tensor", scaler.scale_tensor());
  trace.add("inverse", scaler.inv_scale_tensor());
}

/// As after backward: the scaler knows its device.
void begin(GradScaler& scaler, Device device) {
  static_cast<void>(scaler.scale(zeros({}, {.device = device})));
}

TEST_F(CudaScaler, StepAndUnscaleAgreeWithTheCpu) {
  for (const bool unscale_first : {false, true}) {
    for (const double scale : {1.0, 8.0, 65536.0, 3.0}) {
      expect_same([&](Device device, Trace& trace) {
        const Model model(device);
        optim::Adam adam(model.parameters, {.lr = 0.1, .master_weights = true});
        GradScaler scaler({.init_scale = scale});
        for (std::uint64_t i = 0; i < 3; ++i) {
          begin(scaler, device);
          model.set_gradients(10 * i);
          if (unscale_first) scaler.unscale_(adam);
          trace.add("skipped", scaler.step(adam).skipped() ? 1 : 0);
          scaler.update();
          model.report(trace, adam);
          report(trace, scaler);
        }
      });
    }
  }
}

/// Everything that a skipped step must leave alone, bit for bit.
std::vector<std::vector<double>> snapshot(const Model& model, const optim::Optimizer& optimizer) {
  Trace trace;
  for (const Tensor& p : model.parameters) trace.add("", p);
  for (const auto& [key, tensor] : optimizer.state_dict().tensors) trace.add(key, tensor);
  std::vector<std::vector<double>> all;
  for (const Trace::Entry& entry : trace.entries) all.push_back(entry.values);
  return all;
}

TEST_F(CudaScaler, AnOverflowAnywhereSkipsEverything) {
  const Model model(Device::cuda(0));
  optim::Adam adam(model.parameters, {.lr = 0.1, .master_weights = true});
  GradScaler scaler({.init_scale = 4});
  begin(scaler, model.device);
  model.set_gradients(1);
  EXPECT_FALSE(scaler.step(adam).skipped());
  scaler.update();
  const auto before = snapshot(model, adam);
  int cases = 0;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const std::int64_t numel = model.parameters[p].numel();
    for (const std::int64_t at : std::set<std::int64_t>{0, 1, numel / 2, numel - 2, numel - 1}) {
      for (const double bad : {kInf, -kInf, kNan}) {
        for (const bool unscale_first : {false, true}) {
          SCOPED_TRACE(::testing::Message() << "parameter " << p << " at " << at << ": " << bad);
          scaler.update(4.0);
          model.set_gradients(2);
          set_element(model.parameters[p].grad(), at, bad);
          const std::vector<double> gradient = model.parameters[0].grad().to_vector<double>();
          if (unscale_first) scaler.unscale_(adam);
          const StepResult result = scaler.step(adam);
          scaler.update();
          ASSERT_TRUE(result.skipped());
          ASSERT_EQ(scaler.get_scale(), 2);
          ASSERT_EQ(snapshot(model, adam).size(), before.size());
          const auto after = snapshot(model, adam);
          for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(after[i], before[i]) << i;
          if (!unscale_first && p != 0) {
            ASSERT_EQ(model.parameters[0].grad().to_vector<double>(), gradient);
          }
          ++cases;
        }
      }
    }
  }
  EXPECT_EQ(cases, 5 * 5 * 3 * 2);
  model.set_gradients(3);
  EXPECT_FALSE(scaler.step(adam).skipped());
  EXPECT_NE(snapshot(model, adam), before);
}

TEST_F(CudaScaler, TheLargestFiniteValuesAreFinite) {
  expect_same([](Device device, Trace& trace) {
    for (const auto& [dtype, largest] :
         {std::pair{DType::f32, 0x1.fffffep127}, std::pair{DType::f64, 0x1.fffffffffffffp1023},
          std::pair{DType::bf16, 0x1.fep127}}) {
      const Tensor p = leaf(1, {9}, dtype, device);
      optim::SGD sgd(std::vector<Tensor>{p}, {.lr = 0});
      GradScaler scaler({.init_scale = 2});
      begin(scaler, device);
      p.set_grad(full({9}, largest, {.dtype = dtype, .device = device}));
      trace.add("skipped", scaler.step(sgd).skipped() ? 1 : 0);
    }
  });
}

TEST_F(CudaScaler, GradientsOfAnyLayoutAreCheckedAndUnscaled) {
  for (const bool bad : {false, true}) {
    expect_same([bad](Device device, Trace& trace) {
      const std::vector<Tensor> parameters{leaf(1, {40, 70}, DType::f32, device),
                                           leaf(2, {25, 13}, DType::f32, device),
                                           leaf(3, {1999}, DType::bf16, device)};
      optim::SGD sgd(parameters, {.lr = 0.1});
      const Tensor wide = values(5, {25, 26}, DType::f32, device);
      parameters[0].set_grad(transpose(values(4, {70, 40}, DType::f32, device), 0, 1));
      parameters[1].set_grad(slice(wide, 1, 0, 26, 2));
      parameters[2].set_grad(slice(values(6, {2000}, DType::bf16, device), 0, 1));
      // Not part of any gradient, so it does not count; the other one does.
      set_element(wide, 25 * 26 - 1, kInf);
      if (bad) set_element(wide, 25 * 26 - 2, kInf);
      GradScaler scaler({.init_scale = 8});
      begin(scaler, device);
      scaler.unscale_(sgd);
      trace.add("skipped", scaler.step(sgd).skipped() ? 1 : 0);
      for (const Tensor& p : parameters) {
        trace.add("gradient", p.grad());
        trace.add("parameter", p);
      }
      trace.add("around", wide);
    });
  }
}

TEST_F(CudaScaler, ManyGradientsAreAllLookedAt) {
  const Device device = Device::cuda(0);
  std::vector<Tensor> parameters;
  for (std::uint64_t i = 0; i < 1500; ++i) parameters.push_back(leaf(i, {3}, DType::f32, device));
  optim::SGD sgd(parameters, {.lr = 0.1});
  GradScaler scaler({.init_scale = 4});
  begin(scaler, device);
  for (const std::size_t bad : {std::size_t{0}, std::size_t{700}, std::size_t{1499}, parameters.size()}) {
    for (const Tensor& p : parameters) p.set_grad(ones({3}, {.device = device}));
    if (bad < parameters.size()) set_element(parameters[bad].grad(), 2, kNan);
    EXPECT_EQ(scaler.step(sgd).skipped(), bad < parameters.size()) << bad;
    scaler.update();
  }
  EXPECT_EQ(scaler.get_scale(), 0.5);
}

TEST_F(CudaScaler, ALargeGradientIsLookedAtEverywhere) {
  const Device device = Device::cuda(0);
  const std::int64_t size = 2'600'003;
  const std::vector<Tensor> parameters{leaf(1, {3}, DType::f32, device),
                                       leaf(2, {size}, DType::bf16, device)};
  optim::SGD sgd(parameters, {.lr = 0});
  GradScaler scaler({.init_scale = 4});
  begin(scaler, device);
  for (const Tensor& p : parameters) p.set_grad(ones(p.shape(), {.dtype = p.dtype(), .device = device}));
  EXPECT_FALSE(scaler.step(sgd).skipped());
  scaler.update();
  for (const std::int64_t bad : {std::int64_t{0}, size / 3, size / 2 + 1, size - 4, size - 1}) {
    parameters[1].grad().fill_(1);
    set_element(parameters[1].grad(), bad, kNan);
    EXPECT_TRUE(scaler.step(sgd).skipped()) << bad;
    scaler.update();
  }
}

TEST_F(CudaScaler, AWholeStepIsThreeLaunches) {
  const Model model(Device::cuda(0));
  optim::SGD sgd({model.parameters[0], model.parameters[1]}, {.lr = 0.1});
  GradScaler scaler;
  for (int i = 0; i < 2; ++i) {
    begin(scaler, model.device);
    model.set_gradients(1);
    const std::uint64_t before = cuda::launches();
    static_cast<void>(scaler.step(sgd));
    scaler.update();
    if (i == 1) {
      EXPECT_EQ(cuda::launches() - before, 3U) << "check, update of the parameters, update of the scale";
    }
  }
}

TEST_F(CudaScaler, AFaultOfTheDeviceCountsAsAnOverflow) {
  const Model model(Device::cuda(0));
  optim::SGD sgd(model.parameters, {.lr = 0.1, .master_weights = true});
  for (const bool unscale_first : {false, true}) {
    GradScaler scaler({.init_scale = 4});
    begin(scaler, model.device);
    model.set_gradients(1);
    const auto before = snapshot(model, sgd);
    const Tensor classes = tensor({-7}, {.dtype = DType::i64, .device = model.device});
    const Tensor loss = nll_loss(values(3, {1, 5}, DType::f32, model.device), classes);
    if (unscale_first) scaler.unscale_(sgd);
    const StepResult result = scaler.step(sgd);
    scaler.update();
    EXPECT_THROW(static_cast<void>(loss.item()), IndexError);
    EXPECT_TRUE(result.skipped());
    EXPECT_EQ(scaler.get_scale(), 2);
    for (std::size_t p = 0; p < model.parameters.size(); ++p)
      EXPECT_EQ(model.parameters[p].detach().to_vector<double>(), before[p]) << p;
  }
}

TEST_F(CudaScaler, TheScaleMovesAsOnTheCpu) {
  for (const std::int64_t hysteresis : {1, 3})
    expect_same([=](Device device, Trace& trace) {
      const Tensor p = leaf(1, {5}, DType::f32, device);
      optim::SGD sgd(std::vector<Tensor>{p}, {.lr = 0.1});
      GradScaler scaler({.init_scale = 8,
                         .growth_factor = 3,
                         .backoff_factor = 0.3,
                         .growth_interval = 2,
                         .hysteresis = hysteresis,
                         .min_scale = 1,
                         .max_scale = 100});
      const std::string pattern = "..............xx.x.....xxxxx...s..t.x..";
      for (const char c : pattern) {
        begin(scaler, device);
        p.set_grad(full({5}, c == 'x' ? kInf : 1.0, {.device = device}));
        static_cast<void>(scaler.step(sgd));
        if (c == 's')
          scaler.update(7.0);
        else if (c == 't')
          scaler.update(tensor(11.0, {.dtype = DType::f64, .device = device}));
        else
          scaler.update();
        report(trace, scaler);
      }
      trace.add("parameter", p);
      GradScaler resumed({.hysteresis = hysteresis});
      begin(resumed, device);
      resumed.load_state_dict(scaler.state_dict());
      report(trace, resumed);
    });
}

TEST_F(CudaScaler, AnyNumberOfOptimizersCountsAsOneIteration) {
  const Device device = Device::cuda(0);
  std::vector<Tensor> parameters;
  std::vector<std::unique_ptr<optim::SGD>> optimizers;
  for (std::uint64_t i = 0; i < 300; ++i) {
    parameters.push_back(leaf(i, {2}, DType::f32, device));
    optimizers.push_back(std::make_unique<optim::SGD>(std::vector<Tensor>{parameters.back()}));
  }
  GradScaler scaler({.init_scale = 4});
  begin(scaler, device);
  std::int64_t skipped = 0;
  for (const std::size_t bad : {std::size_t{0}, std::size_t{127}, std::size_t{128}, std::size_t{299}}) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].set_grad(full({2}, i == bad ? kInf : 1.0, {.device = device}));
      EXPECT_EQ(scaler.step(*optimizers[i]).skipped(), i == bad);
    }
    scaler.update();
    EXPECT_EQ(scaler.steps_skipped(), ++skipped) << bad;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_grad(ones({2}, {.device = device}));
    static_cast<void>(scaler.step(*optimizers[i]));
  }
  scaler.update(4.0);
  EXPECT_EQ(scaler.steps_skipped(), skipped);
  EXPECT_EQ(scaler.steps_ok(), 1);
}

TEST_F(CudaScaler, ClippingAgreesWithTheCpu) {
  for (const double norm_type : {2.0, 1.0, kInf}) {
    for (const bool scaled : {false, true}) {
      for (const bool bad : {false, true}) {
        expect_same(
            [&](Device device, Trace& trace) {
              const Model model(device);
              optim::SGD sgd(model.parameters, {.lr = 0.1, .master_weights = true});
              GradScaler scaler({.init_scale = 16, .enabled = scaled});
              begin(scaler, device);
              model.set_gradients(1);
              if (bad) set_element(model.parameters[1].grad(), 3, kInf);
              scaler.unscale_(sgd);
              const std::uint64_t before = host_reads();
              const Tensor total = optim::clip_grad_norm_(model.parameters, 0.5, norm_type);
              EXPECT_EQ(host_reads(), before);
              EXPECT_EQ(total.device(), device);
              trace.add("total", total);
              if (scaled || !bad) static_cast<void>(scaler.step(sgd));
              model.report(trace, sgd);
            },
            16);  // the sums of the norm are in another order
      }
    }
  }
  EXPECT_EQ(optim::clip_grad_norm_(Model(Device::cuda(0)).parameters, 1).device(), Device::cuda(0));
}

/// y = relu(x w1^T + b1) w2^T + b2.
struct Mlp {
  explicit Mlp(Device device)
      : parameters{leaf(1, {24, 10}, DType::f32, device), leaf(2, {24}, DType::f32, device),
                   leaf(3, {3, 24}, DType::f32, device), leaf(4, {3}, DType::f32, device)} {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return linear(relu(linear(x, parameters[0], parameters[1])), parameters[2], parameters[3]);
  }
  std::vector<Tensor> parameters;
};

/// Thirty iterations with an overflow in the middle. Nothing is read before the last of them is over.
template <class O>
void train(Device device, Trace& trace, DType dtype, bool clip) {
  const Mlp net(device);
  O optimizer(net.parameters, {.lr = 0.02});
  GradScaler scaler({.init_scale = 1024, .growth_interval = 7});
  std::vector<Tensor> losses, scales;
  const Tensor x = values(20, {16, 10}, DType::f32, device), y = values(21, {16, 3}, DType::f32, device);
  const std::uint64_t before = host_reads();
  for (int i = 0; i < 30; ++i) {
    Tensor loss;
    {
      const Autocast autocast(device, dtype);
      loss = mse_loss(net.forward(x), y);
    }
    scaler.scale(loss).backward();
    if (i == 15) set_element(net.parameters[2].grad(), 70, kInf);
    if (clip) {
      scaler.unscale_(optimizer);
      static_cast<void>(optim::clip_grad_norm_(net.parameters, 0.7));
    }
    static_cast<void>(scaler.step(optimizer));
    scaler.update();
    optimizer.zero_grad();
    losses.push_back(loss.detach());
    scales.push_back(scaler.scale_tensor());
  }
  EXPECT_EQ(host_reads(), before);
  std::set<double> seen;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    trace.add("scale", scales[i].item());
    seen.insert(scales[i].item());
    trace.add("loss", losses[i].to(dtype));
  }
  EXPECT_GE(seen.size(), 3U) << "the scale should have moved";
  EXPECT_LT(losses.back().item(), 0.8 * losses.front().item()) << "it should have learned";
  trace.add("skipped", static_cast<double>(scaler.steps_skipped()));
  trace.add("ok", static_cast<double>(scaler.steps_ok()));
}

TEST_F(CudaScaler, TrainingAgreesWithTheCpu) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const bool clip : {false, true}) {
      SCOPED_TRACE(::testing::Message() << to_string(dtype) << (clip ? " clipped" : ""));
      expect_same([&](Device device, Trace& trace) { train<optim::SGD>(device, trace, dtype, clip); }, 2);
      expect_same([&](Device device, Trace& trace) { train<optim::AdamW>(device, trace, dtype, clip); }, 2);
    }
  }
}

}  // namespace
}  // namespace mezzo::amp
