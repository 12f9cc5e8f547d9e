// Tensors' members, optimizers, schedules, scalers, regions, captured steps and files: bad arguments, empty
// lists, objects that were moved from.
#include <gtest/gtest.h>

#include <limits>

#include "misuse/misuse.h"
#include "misuse/tensor_members.h"
#include "support/algorithms.h"

namespace mezzo::misuse {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

TEST(Misuse, OfEveryMemberOfATensor) {
  sweep({member<DType>("dtype", &Tensor::dtype),
         member<Device>("device", &Tensor::device),
         member<MemoryFormat>("suggest_memory_format", &Tensor::suggest_memory_format),
         member<Scalar>("item_scalar", &Tensor::item_scalar),
         member<Tensor>("clone", &Tensor::clone),
         member<Tensor, MemoryFormat>("contiguous", &Tensor::contiguous),
         member<Tensor>("detach", &Tensor::detach),
         member<Tensor>("grad", &Tensor::grad),
         member<Tensor, DType>("to dtype", &Tensor::to),
         member<Tensor, Device>("to device", &Tensor::to),
         member<Tensor, MemoryFormat>("to format", &Tensor::to),
         member<bool, MemoryFormat>("is_contiguous", &Tensor::is_contiguous),
         member<bool>("is_leaf", &Tensor::is_leaf),
         member<bool>("is_inference", &Tensor::is_inference),
         member<bool>("requires_grad", &Tensor::requires_grad),
         {"strides", [](Draw& draw) { static_cast<void>(draw_tensor(draw).strides()); }},
         {"shape", [](Draw& draw) { static_cast<void>(draw_tensor(draw).shape()); }},
         member<T, Scalar>("add_ number", &Tensor::add_),
         member<T, T, Scalar>("add_", &Tensor::add_),
         member<T, T, T, Scalar, Scalar>("addmm_", &Tensor::addmm_),
         member<T, T>("copy_", &Tensor::copy_),
         member<T, Scalar>("fill_", &Tensor::fill_),
         member<T, Scalar>("mul_ number", &Tensor::mul_),
         member<T, T>("mul_", &Tensor::mul_),
         member<T, bool>("requires_grad_", &Tensor::requires_grad_),
         member<T>("zero_", &Tensor::zero_),
         member<std::int64_t>("dim", &Tensor::dim),
         member<std::int64_t>("numel", &Tensor::numel),
         member<std::int64_t, std::int64_t>("size", &Tensor::size),
         member<std::uint32_t>("version", &Tensor::version),
         member<std::vector<double>>("to_vector", &Tensor::to_vector<double>),
         member<double>("item", &Tensor::item<double>),
         {"data", [](Draw& draw) { static_cast<void>(draw_tensor(draw).data<float>()); }},
         {"mutable_data", [](Draw& draw) { static_cast<void>(draw_tensor(draw).mutable_data<float>()); }},
         member<void>("backward", &Tensor::backward),
         member<void, std::size_t>("remove_hook", &Tensor::remove_hook),
         member<void, T>("set_grad", &Tensor::set_grad),
         {"register_hook of nothing",
          [](Draw& draw) { static_cast<void>(draw_tensor(draw).register_hook({})); }},
         {"a hook that returns anything",
          [](Draw& draw) {
            const Tensor x = ones({2, 3}).requires_grad_(), other = draw_tensor(draw);
            static_cast<void>(x.register_hook([&](const Tensor&) { return other; }));
            sum(x).backward();
          }}},
        60);
}

// --- optimizers and schedules

TEST(Misuse, OfEveryOptimizer) {
  for (const optim::Algorithm& algorithm : optim::algorithms()) {
    const Tensor w = ones({2, 3}).requires_grad_(), moved = Tensor();
    const auto make = [&](const char* what, const std::vector<Tensor>& parameters,
                          const Value& changes = Value::Map{}) {
      expect_sound(algorithm.name + " of " + what, [&] {
        const auto optimizer = algorithm.make(parameters, changes);
        w.set_grad(ones({2, 3}));
        optimizer->step();
        optimizer->zero_grad();
      });
    };
    make("nothing", {});
    make("a parameter twice", {w, w});
    make("an undefined tensor", {moved});
    make("a tensor without gradients", {ones({2})});
    make("a tensor with history", {w * 2.0});
    make("integers", {ones({2}, {.dtype = DType::i64})});
    make("no elements", {ones({0}).requires_grad_()});
    for (const double lr : {kNan, kInf, -1.0, 1e300}) make("lr", {w}, Value::Map{{"lr", lr}});
    const Tensor half = ones({2, 3}, {.dtype = DType::f16}).requires_grad_();
    for (const char* kind : {"split", "half"}) make("masters", {half}, Value::Map{{"master_weights", kind}});
    const auto optimizer = algorithm.make({w});
    expect_sound(algorithm.name + ".lr(7)", [&] { static_cast<void>(optimizer->lr(7)); });
    expect_sound(algorithm.name + ".set_lr", [&] { optimizer->set_lr(kNan); });
    expect_sound(algorithm.name + ".set_momentum", [&] { optimizer->set_momentum(2); });
    expect_sound(algorithm.name + ".rates(7)", [&] { static_cast<void>(optimizer->rates(7)); });
    expect_sound(algorithm.name + ".parameter_name(7)",
                 [&] { static_cast<void>(optimizer->parameter_name(7)); });
    expect_sound(algorithm.name + ".has_master(7)", [&] { static_cast<void>(optimizer->has_master(7)); });
    expect_sound(algorithm.name + ".load_state_dict", [&] { optimizer->load_state_dict({}); });
    expect_sound(algorithm.name + ".step(empty closure)",
                 [&] { static_cast<void>(optimizer->step(mezzo::detail::Function<Tensor()>())); });
    expect_sound(algorithm.name + ".step(closure of nothing)",
                 [&] { static_cast<void>(optimizer->step([] { return Tensor(); })); });
    expect_sound("find_nonfinite", [&] { static_cast<void>(amp::find_nonfinite(*optimizer)); });
  }
  for (const Value& value : {Value(), Value("half"), Value(2)})
    expect_sound("MasterWeights", [&] { static_cast<void>(optim::MasterWeights::from_value(value)); });
}

/// A schedule of options drawn, on an optimizer of two groups, stepped a little.
template <class Options>
Function schedule_of(const char* name) {
  return {name, [](Draw& draw) {
            const Tensor w = ones({2}).requires_grad_();
            optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 0.1, .momentum = draw.once_in(2) ? 0.9 : 0.0});
            optim::LRSchedulerOf<Options> scheduler(sgd, Drawn<Options>::from(draw));
            for (int i = 0; i < 4; ++i) {
              w.set_grad(ones({2}));
              sgd.step();
              scheduler.step();
            }
            static_cast<void>(scheduler.get_last_lr());
            scheduler.load_state_dict(Value(draw_int(draw)));
          }};
}

TEST(Misuse, OfEverySchedule) {
  using namespace optim;
  sweep({schedule_of<ConstantLROptions>("ConstantLR"), schedule_of<StepLROptions>("StepLR"),
         schedule_of<MultiStepLROptions>("MultiStepLR"), schedule_of<ExponentialLROptions>("ExponentialLR"),
         schedule_of<CosineAnnealingLROptions>("CosineAnnealingLR"),
         schedule_of<CosineAnnealingWarmRestartsOptions>("CosineAnnealingWarmRestarts"),
         schedule_of<LinearLROptions>("LinearLR"), schedule_of<LinearWarmupOptions>("LinearWarmup"),
         schedule_of<WarmupCosineOptions>("WarmupCosine"),
         schedule_of<WarmupStableDecayOptions>("WarmupStableDecay"),
         schedule_of<PolynomialLROptions>("PolynomialLR"), schedule_of<OneCycleLROptions>("OneCycleLR")},
        200);
  const Tensor w = ones({2}).requires_grad_();
  SGD sgd(std::vector<Tensor>{w}, {.lr = 0.1});
  expect_sound("LambdaLR of nothing", [&] { LRSchedulerOf<LambdaLROptions>(sgd, LambdaLROptions{}); });
  expect_sound("ChainedScheduler of none",
               [&] { LRSchedulerOf<ChainedSchedulerOptions>(sgd, ChainedSchedulerOptions{}); });
  expect_sound("SequentialLR of none",
               [&] { LRSchedulerOf<SequentialLROptions>(sgd, SequentialLROptions{}); });
  for (const double bad : {kNan, kInf, -1.0, 2.0}) {
    expect_sound("ReduceLROnPlateau", [&] {
      ReduceLROnPlateau scheduler(sgd, ReduceLROnPlateauOptions{.factor = bad});
      scheduler.step(bad);
    });
  }
  expect_sound("remap of nothing", [&] { static_cast<void>(remap(sgd, {})); });
  expect_sound("remap of undefined tensors", [&] {
    static_cast<void>(remap(sgd, {{Tensor(), w}, {w, Tensor()}}));
  });
}

// --- amp

void expect_scaler_sound(const std::string& which, amp::GradScaler& scaler) {
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 0.1});
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"scale", [&] { static_cast<void>(scaler.scale(Tensor())); }},
      {"scale of integers", [&] { static_cast<void>(scaler.scale(ones({2}, {.dtype = DType::i64}))); }},
      {"scale of nothing", [&] { static_cast<void>(scaler.scale(std::vector<Tensor>{})); }},
      {"unscale_", [&] { scaler.unscale_(sgd); }},
      {"restart_iteration", [&] { scaler.restart_iteration(); }},
      {"step", [&] { static_cast<void>(scaler.step(sgd)); }},
      {"step with a closure", [&] { static_cast<void>(scaler.step(sgd, {})); }},
      {"update", [&] { scaler.update(); }},
      {"update of NaN", [&] { scaler.update(kNan); }},
      {"update of a tensor", [&] { scaler.update(Tensor()); }},
      {"scale_tensor", [&] { static_cast<void>(scaler.scale_tensor()); }},
      {"inv_scale_tensor", [&] { static_cast<void>(scaler.inv_scale_tensor()); }},
      {"steps_skipped_tensor", [&] { static_cast<void>(scaler.steps_skipped_tensor()); }},
      {"get_scale", [&] { static_cast<void>(scaler.get_scale()); }},
      {"growth_tracker", [&] { static_cast<void>(scaler.growth_tracker()); }},
      {"steps_ok", [&] { static_cast<void>(scaler.steps_ok()); }},
      {"steps_skipped", [&] { static_cast<void>(scaler.steps_skipped()); }},
      {"at_floor", [&] { static_cast<void>(scaler.at_floor()); }},
      {"report", [&] { static_cast<void>(scaler.report()); }},
      {"set_growth_factor", [&] { scaler.set_growth_factor(kNan); }},
      {"set_backoff_factor", [&] { scaler.set_backoff_factor(2); }},
      {"set_growth_interval", [&] { scaler.set_growth_interval(-1); }},
      {"set_options", [&] { scaler.set_options({.init_scale = 1e300}); }},
      {"state_dict", [&] { scaler.load_state_dict(scaler.state_dict()); }},
      {"load_state_dict", [&] { scaler.load_state_dict(Value(3)); }},
      {"scale after all", [&] { static_cast<void>(scaler.scale(sum(w))); }},
  };
  for (const auto& [name, call] : calls) expect_sound("GradScaler, " + which + ": " + name, call);
}

TEST(Misuse, OfAScaler) {
  amp::GradScaler fresh, used, off({.enabled = false});
  static_cast<void>(used.scale(ones({})));
  expect_scaler_sound("fresh", fresh);
  expect_scaler_sound("used", used);
  expect_scaler_sound("off", off);
  const amp::GradScaler there = std::move(used);
  expect_scaler_sound("moved from", used);  // NOLINT: that is the point
  expect_scaler_sound("moved from, twice", used);
  for (const double scale : {0.0, -1.0, kNan, kInf, 1e300}) {
    expect_sound("GradScaler options", [&] { amp::GradScaler({.init_scale = scale}); });
  }
}

TEST(Misuse, OfBackwardAndObservers) {
  const Tensor x = ones({2}).requires_grad_(), y = sum(x * x);
  const std::vector<Tensor> none, undefined{Tensor()}, outputs{y}, inputs{x};
  expect_sound("backward of nothing", [&] { backward(none); });
  expect_sound("backward of undefined", [&] { backward(undefined); });
  expect_sound("backward of a wrong gradient", [&] { backward(outputs, std::vector<Tensor>{ones({7})}); });
  expect_sound("backward of two gradients", [&] {
    backward(outputs, std::vector<Tensor>{Tensor(), Tensor()});
  });
  expect_sound("grad of nothing", [&] { static_cast<void>(grad(none, inputs)); });
  expect_sound("grad by nothing",
               [&] { static_cast<void>(grad(outputs, none, {}, {.retain_graph = true})); });
  expect_sound("grad by undefined", [&] { static_cast<void>(grad(outputs, undefined)); });
  expect_sound("grad by what has no part",
               [&] { static_cast<void>(grad(outputs, std::vector<Tensor>{ones({2}).requires_grad_()})); });
  expect_sound("backward", [&] { y.backward(); });
  expect_sound("backward twice", [&] { y.backward(); });
  const autograd::DetectAnomaly watch;
  const amp::Trace trace;
  expect_sound("an op that fails under observers", [&] {
    static_cast<void>(matmul(ones({2, 3}), ones({2, 3})));
  });
  expect_sound("an anomaly", [&] { static_cast<void>(log(zeros({2}))); });
  expect_sound("reports", [&] { static_cast<void>(trace.report().to_value()); });
}

TEST(Misuse, OfRegionsAndCapturedSteps) {
  for (int dtype = 0; dtype < static_cast<int>(kDTypeCount); ++dtype) {
    const amp::Fp8 fp8{.gradients = static_cast<DType>(dtype), .max_n = -dtype, .skip = {"", "nothing"}};
    expect_sound("Autocast, fp8", [&] {
      const amp::Autocast region(Device::cpu(), DType::bf16, {.fp8 = fp8});
      static_cast<void>(nn::Linear(16, 16)(ones({2, 16})));
    });
    expect_sound("Autocast", [&] { amp::Autocast(Device::cpu(), static_cast<DType>(dtype)); });
    expect_sound("Autocast elsewhere", [&] { amp::Autocast(Device::cuda(99), static_cast<DType>(dtype)); });
  }
  const amp::Autocast region(Device::cpu(), DType::f16);
  expect_sound("cast_to_region", [] { static_cast<void>(amp::cast_to_region(Tensor())); });
  expect_sound("PolicyOverride", [] { amp::PolicyOverride("nothing", Category::fp32); });
  expect_sound("CapturedStep of nothing", [] { amp::CapturedStep(Device::cpu(), {}); });
  expect_sound("CapturedStep, warmup", [] {
    amp::CapturedStep(
        Device::cpu(), [] { return ones({}); }, -1);
  });
  expect_sound("CapturedStep elsewhere",
               [] { amp::CapturedStep(Device::cuda(99), [] { return ones({}); }); });
  expect_sound("CapturedStep that returns nothing", [] {
    amp::CapturedStep step(Device::cpu(), [] { return Tensor(); });
    static_cast<void>(step());
  });
}

// --- files and values

TEST(Misuse, OfValuesAndFiles) {
  for (const Value& value : {Value(), Value(true), Value(1), Value(2.5), Value("text"), Value(Value::List{}),
                             Value(Value::Map{})}) {
    expect_sound("Value::as_bool", [&] { static_cast<void>(value.as_bool()); });
    expect_sound("Value::as_int", [&] { static_cast<void>(value.as_int()); });
    expect_sound("Value::as_double", [&] { static_cast<void>(value.as_double()); });
    expect_sound("Value::as_string", [&] { static_cast<void>(value.as_string()); });
    expect_sound("Value::as_list", [&] { static_cast<void>(value.as_list()); });
    expect_sound("Value::as_map", [&] { static_cast<void>(value.as_map()); });
  }
  expect_sound("read_idx", [] { static_cast<void>(io::read_idx("/nowhere")); });
  expect_sound("TensorFile", [] { static_cast<void>(io::TensorFile::load("/nowhere")); });
  expect_sound("SafeTensors::open", [] { static_cast<void>(io::SafeTensors::open("/nowhere")); });
  expect_sound("SafeTensors of nothing", [] { static_cast<void>(io::SafeTensors::from_bytes({})); });
  const std::string deep(100000, '[');
  expect_sound("parse_json of 100000 lists", [&] { static_cast<void>(io::parse_json(deep)); });
}

}  // namespace
}  // namespace mezzo::misuse
