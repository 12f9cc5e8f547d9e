// The runs in f32 and under autocast: their times in turns, what a step runs, and a profile of each.
#include <algorithm>
#include <exception>

#include "mezzo/amp/norm_surgery.h"
#include "mezzo/amp/policy.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/nn/parametrizations.h"
#include "mezzo/ops/ops.h"
#include "mezzo/profile/advise/runs.h"
#include "mezzo/profile/advise/watch.h"
#include "mezzo/profile/profiler.h"
#include "mezzo/profile/recorder.h"

namespace mezzo::amp::detail {

namespace {

/// The least length of a turn: clocks and the scheduler are some tens of microseconds off.
constexpr double kTurnSeconds = 2e-3;
/// Calls by which the cost of one is measured, as often as kTurnSeconds allows a few times.
constexpr int kCalls = 500;
/// Recordings of each run: other programs disturb one of three, and rarely all.
constexpr int kRecordings = 3;

void check(const AdviseOptions& options) {
  const auto dtype = options.dtype;
  if (dtype && *dtype != DType::f16 && *dtype != DType::bf16)
    throw ValueError("advise", "dtype f16 or bf16", to_string(*dtype), "name one, or leave it to the device");
  if (options.steps < 1)
    throw ValueError("advise", "at least 1 step", std::to_string(options.steps), "leave .steps = 5");
  if (options.warmup < 0)
    throw ValueError("advise", "a warmup of at least 0", std::to_string(options.warmup), "leave .warmup = 2");
}

/// The default generator as it was, at the end.
class KeptRandom : mezzo::detail::NoCopy {
 public:
  ~KeptRandom() { default_generator().set_state(state_); }

 private:
  GeneratorState state_ = default_generator().state();
};

double seconds_of(Device device, const Run& run, std::int64_t times) {
  synchronize(device);
  const std::int64_t begin = profile::nanoseconds();
  for (std::int64_t i = 0; i < times; ++i) run();
  synchronize(device);
  return static_cast<double>(profile::nanoseconds() - begin) * 1e-9 / static_cast<double>(times);
}

/// What one op costs whatever its size: a product of one number by one.
double seconds_of_call(Device device) {
  const NoInputHook no_autocast;
  const Tensor x = ones({1, 1}, {.device = device}), w = ones({1, 1}, {.device = device});
  const Run run = [&] { static_cast<void>(linear(x, w)); };
  double best = seconds_of(device, run, kCalls);
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of(device, run, kCalls));
  return best;
}

profile::Report recorded(Device device, const nn::Module* model, const Run& run,
                         const AdviseOptions& options) {
  profile::ProfilerOptions profiled{.warmup = 0, .steps = options.steps, .device = device, .rates = false};
  if (model != nullptr) profiled.model = const_cast<nn::Module&>(*model);
  profile::Profiler profiler(profiled);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const auto step = profiler.step();
    run();
  }
  profile::Report report = profiler.report();
  if (report.steps == 0)
    throw StateError("advise", "no profile::Profiler that records", "one that does",
                     "call it before or after the profiled steps");
  return report;
}

/// The least disturbed of some recordings.
profile::Report profile_of(Device device, const nn::Module* model, const Run& run,
                           const AdviseOptions& options) {
  profile::Report best = recorded(device, model, run, options);
  for (int i = 1; i < kRecordings; ++i) {
    profile::Report next = recorded(device, model, run, options);
    if (next.seconds < best.seconds) best = std::move(next);
  }
  return best;
}

bool has_instructions(Device device, DType dtype) {
  return !device.is_cpu() || (dtype == DType::bf16 && kernels::cpu::has_bf16_instructions());
}

/// One step as if no op were of category lower_precision.
void run_in_f32(const Run& step) {
  std::vector<std::unique_ptr<PolicyOverride>> overrides;
  for (const PolicyRow& row : policy()) {
    if (row.category == Category::lower_precision)
      overrides.push_back(std::make_unique<PolicyOverride>(row.op, Category::fp32));
  }
  step();
}

/// All measurements but trials.
Measurements measure(const AdvisedStep& step, const Run& f32, const Run& autocast,
                     const nn::Module* autocast_model, const AdviseOptions& options) {
  Measurements measured;
  measured.opens_region = step.opens_region;
  for (std::int64_t i = 0; i < std::max(options.warmup, std::int64_t{1}); ++i) autocast();
  {
    const Watch watch;
    autocast();
    measured.watched = watch.result();
  }
  measured.device = measured.watched.device.value_or(Device::cpu());
  measured.dtype = measured.watched.dtype.value_or(
      options.dtype.value_or(measured.device.is_cpu() ? DType::bf16 : DType::f16));
  measured.has_instructions = has_instructions(measured.device, measured.dtype);
  for (std::int64_t i = 0; i < options.warmup; ++i) f32();
  const auto seconds = seconds_in_turns(measured.device, {f32, autocast}, options);
  measured.f32_seconds = shortest(seconds[0]);
  measured.seconds = shortest(seconds[1]);
  measured.f32 = profile_of(measured.device, step.model, f32, options);
  measured.autocast = profile_of(measured.device, autocast_model, autocast, options);
  measured.call_seconds = seconds_of_call(measured.device);
  return measured;
}

}  // namespace

double shortest(const std::vector<double>& turns) { return *std::min_element(turns.begin(), turns.end()); }

std::vector<std::vector<double>> seconds_in_turns(Device device, const std::vector<Run>& runs,
                                                  const AdviseOptions& options) {
  std::vector<std::int64_t> times;
  for (const Run& run : runs) {
    run();
    times.push_back(std::max(std::int64_t{1}, std::int64_t(kTurnSeconds / seconds_of(device, run, 1))));
  }
  std::vector<std::vector<double>> seconds(runs.size());
  for (std::int64_t turn = 0; turn < options.steps; ++turn) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::size_t at = turn % 2 == 0 ? i : runs.size() - 1 - i;
      seconds[at].push_back(seconds_of(device, runs[at], times[at]));
    }
  }
  return seconds;
}

ModelStep::ModelStep(const AdvisedModel& model, const Variant& variant)
    : model_(model),
      variant_(variant),
      net_(model.clone()),
      input_(model.input),
      target_(model.target),
      scaler_({.enabled = variant.dtype == DType::f16}) {
  if (variant.without_parametrizations) static_cast<void>(nn::remove_parametrizations(*net_));
  if (variant.norms == Variant::Norms::fused) static_cast<void>(apply_fused_layernorm(*net_));
  if (variant.norms == Variant::Norms::low_precision) {
    static_cast<void>(apply_low_precision_layernorm(*net_));
    static_cast<void>(apply_low_precision_groupnorm(*net_));
  }
  if (variant.batches > 1) {
    input_ = repeat_interleave(input_, variant.batches, 0);
    if (target_.defined()) target_ = repeat_interleave(target_, variant.batches, 0);
  }
  if (variant.channels_last) input_ = input_.to(MemoryFormat::channels_last);
  const auto named = net_->named_parameters();
  if (!named.empty() && variant.with_optimizer) optimizer_.emplace(named, optim::SGDOptions{.lr = 0});
}

Tensor ModelStep::scaled_loss() {
  std::optional<Autocast> region;
  if (variant_.dtype)
    region.emplace(input_.device(), *variant_.dtype, AutocastOptions{.fp8 = variant_.float8});
  const Tensor output = model_.forward(*net_, input_);
  const Tensor loss = model_.loss ? model_.loss(output, target_) : sum(output);
  return scaler_.scale(loss);
}

void ModelStep::operator()() {
  if (optimizer_)
    optimizer_->zero_grad();
  else
    net_->zero_grad();
  scaled_loss().backward();
  if (!optimizer_) return;
  static_cast<void>(scaler_.step(*optimizer_));
  scaler_.update();
}

Advisory advise_model(const AdvisedModel& model, const AdviseOptions& options) {
  check(options);
  if (!model.input.defined())
    throw ValueError("advise", "a batch", "an undefined tensor", "pass the model's input");
  if (model.loss && !model.target.defined())
    throw ValueError("advise", "a target", "an undefined tensor", "pass what the loss compares with");
  const KeptRandom random;
  const NoInputHook no_autocast;  // of a region around the call
  const DType dtype = options.dtype.value_or(model.input.device().is_cpu() ? DType::bf16 : DType::f16);
  ModelStep f32(model, {}), autocast(model, {.dtype = dtype});
  const Run f32_run = [&f32] { f32(); }, autocast_run = [&autocast] { autocast(); };
  Measurements measured = measure({.model = &f32.net()}, f32_run, autocast_run, &autocast.net(), options);
  measured.samples = model.input.dim() > 0 ? model.input.size(0) : 0;
  make_trials(measured, model, autocast_run, options);
  return judge(std::move(measured));
}

Advisory advise_step(const AdvisedStep& step, const AdvisedModel& model, const AdviseOptions& options) {
  check(options);
  if (!step.step)
    throw ValueError("advise", "a function that makes a step", "an empty one", "pass step or step(autocast)");
  const KeptRandom random;
  const NoInputHook no_autocast;  // of a region around the call
  const Run autocast = [&step] { step.step(true); };
  const Run f32 = [&step, &autocast] {
    if (step.opens_region)
      run_in_f32(autocast);
    else
      step.step(false);
  };
  Measurements measured = measure(step, f32, autocast, step.model, options);
  if (model.clone) {
    measured.samples = model.input.defined() && model.input.dim() > 0 ? model.input.size(0) : 0;
  } else {
    measured.untried.push_back("other batches, norms, channels-last, float8 and rules of precision: " +
                               (step.why_no_model.empty()
                                    ? "of a function; advise(net, batch) tries them on clones"
                                    : step.why_no_model));
  }
  make_trials(measured, model, autocast, options);
  return judge(std::move(measured));
}

}  // namespace mezzo::amp::detail
