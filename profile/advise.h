// Why mixed precision is not faster, and what to write to change that.
//   std::cout << amp::advise(net, batch, {.dtype = DType::bf16});         // of a clone: nothing changes
//   std::cout << amp::advise([&](bool autocast) { /* a whole step */ });  // it makes the steps that it is
//   told
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/function.h"
#include "mezzo/nn/summary.h"
#include "mezzo/ops/loss.h"
#include "mezzo/profile/report.h"

namespace mezzo::amp {

struct AdviseOptions {
  /// f16 or bf16. Default: f16 on CUDA and bf16 on the CPU. A function's regions have their own.
  std::optional<DType> dtype = {};
  std::int64_t warmup = 2;  ///< steps of each run before those that count
  std::int64_t steps = 5;   ///< that count, of each run and trial; at least 1
  bool trials = true;       ///< try what is proposed; else all gains are bounds
};

/// What a piece of advice is about.
enum class AdviceKind : std::uint8_t {
  no_region,      ///< no op ran in 16 bits
  hardware,       ///< the device has no instructions for the dtype
  loader,         ///< the step waits for its data
  program,        ///< time in the program's own code, outside of ops
  host_reads,     ///< values are read back to the host
  optimizer,      ///< it updates by ops, parameter by parameter
  small_ops,      ///< ops so short that calling them is what takes the time
  batch,          ///< a larger batch from which on autocast pays
  bound,          ///< most of the time is in ops that stay in f32 (Amdahl)
  sizes,          ///< sizes of products that are no multiples
  weight_casts,   ///< weights that are cast again and again
  islands,        ///< f32 ops between 16-bit ones
  memory_format,  ///< images in row-major order
  float8,         ///< products in float8
  captured,       ///< a captured step
  gradients,      ///< f16 gradients that vanish, skipped steps
  memory,         ///< what is kept for backward, and what of it still is f32
};

struct Advice {
  AdviceKind kind = AdviceKind::no_region;
  std::string text;  ///< the cause with its numbers, then what to write
  /// The time of a step now by the time then. Empty where time is not what changes.
  std::optional<double> gain = {};
  bool tried = false;  ///< the gain was measured; else it is a bound that is not reached
};

/// What `advise` has found.
struct Advisory {
  Device device;
  DType dtype = DType::bf16;
  double f32_seconds = 0, seconds = 0;  ///< of a step in f32 and under autocast: shortest turns
  std::vector<Advice> advice;           ///< the largest share of the step first; empty: nothing to gain here
  std::vector<std::string> facts;       ///< shares of the step: what autocast can change, casts, calls
  std::vector<std::string> in_vain;     ///< what was tried and brought nothing
  std::vector<std::string> untried;     ///< what could not be tried, and why
  profile::Report f32, autocast;
};

/// Lines with numbers; advice first, then what was tried in vain and what could not be tried.
[[nodiscard]] std::string to_string(const Advisory& advisory);
std::ostream& operator<<(std::ostream& stream, const Advisory& advisory);

namespace detail {

template <class L>
concept LossFunction = std::is_invocable_r_v<Tensor, L&, const Tensor&, const Tensor&>;
template <class F>
concept StepFunction = std::invocable<F&, bool> || std::invocable<F&>;

/// A model with the batch that it is trained on. `clone` may be empty: then no other model can be tried.
struct AdvisedModel {
  mezzo::detail::Function<std::shared_ptr<nn::Module>()> clone = {};
  mezzo::detail::Function<Tensor(nn::Module&, const Tensor&)> forward = {};
  Tensor input = {}, target = {};
  mezzo::detail::Function<Tensor(const Tensor&, const Tensor&)> loss = {};  ///< empty: the sum of the output
};
/// A function that makes a step.
struct AdvisedStep {
  mezzo::detail::Function<void(bool)> step = {};
  bool opens_region = false;          ///< it takes no notice of its argument
  const nn::Module* model = nullptr;  ///< whose modules get rows in the reports
  std::string why_no_model = {};      ///< why there is no AdvisedModel; empty: as this is a function
};

[[nodiscard]] Advisory advise_model(const AdvisedModel& model, const AdviseOptions& options);
/// With trials on the model where there is one.
[[nodiscard]] Advisory advise_step(const AdvisedStep& step, const AdvisedModel& model,
                                   const AdviseOptions& options);

template <nn::UnaryModule M>
[[nodiscard]] AdvisedModel advised_model(M& net, const Tensor& input) {
  return {.clone = [&net]() -> std::shared_ptr<nn::Module> { return nn::clone(net); },
          .forward = [](nn::Module& copy, const Tensor& x) -> Tensor {
            const auto result = nn::call(dynamic_cast<M&>(copy), x);
            const Tensor* const first = nn::detail::first_tensor(result);
            return first == nullptr ? Tensor() : *first;
          },
          .input = input};
}

}  // namespace detail

/// Trains clones of the model on this batch, in f32 and under autocast, with SGD at a learning rate of 0, in
/// f16 with a GradScaler. The loss is the sum of the output. Then it tries on clones what the times suggest:
/// other sizes of products, 2, 4 and 8 times the batch, norms in 16 bits, channels-last, float8, a captured
/// step, rules of precision by module. The model and the default generator are as before in the end. Takes
/// the time of some dozens of steps. Throws: ValueError for an undefined input, for a dtype other than f16
/// and bf16, for fewer than 1 step; StateError for a model that cannot be cloned, and while a
/// profile::Profiler records; what the model throws.
template <nn::UnaryModule M>
[[nodiscard]] Advisory advise(M& net, const Tensor& input, const AdviseOptions& options = {}) {
  return detail::advise_model(detail::advised_model(net, input), options);
}
/// The same with loss(output, target): a function, one of ops/loss.h by its name, or an nn::Loss.
/// Throws: ValueError also for an undefined target.
template <nn::UnaryModule M, detail::LossFunction L>
[[nodiscard]] Advisory advise(M& net, const Tensor& input, const Tensor& target, L&& loss,
                              const AdviseOptions& options = {}) {
  detail::AdvisedModel model = detail::advised_model(net, input);
  model.target = target;
  model.loss = [&loss](const Tensor& output, const Tensor& wanted) -> Tensor { return loss(output, wanted); };
  return detail::advise_model(model, options);
}
template <nn::UnaryModule M>
[[nodiscard]] Advisory advise(M& net, const Tensor& input, const Tensor& target,
                              Tensor (*loss)(const Tensor&, const Tensor&, Reduction),
                              const AdviseOptions& options = {}) {
  const auto mean = [loss](const Tensor& y, const Tensor& t) { return loss(y, t, Reduction::mean); };
  return advise(net, input, target, mean, options);
}
/// A function that makes one whole step at each call: step(autocast), which opens a region when it is told
/// to, or step(), which opens its own. For the f32 run of the latter all ops of category lower_precision get
/// PolicyOverrides of category fp32. The steps are real ones, some dozens: what they train is trained
/// further. Batches and models cannot be varied; `untried` says so. Throws: ValueError for an empty function
/// and fewer than 1 step; StateError while a profile::Profiler records; what the function throws.
template <detail::StepFunction F>
[[nodiscard]] Advisory advise(F step, const AdviseOptions& options = {}) {
  detail::AdvisedStep advised;
  if constexpr (std::invocable<F&, bool>) {
    advised.step = std::move(step);
  } else {
    mezzo::detail::Function<void()> own(std::move(step));
    advised.opens_region = true;
    if (own) advised.step = [own](bool /*autocast*/) { own(); };
  }
  return detail::advise_step(advised, {}, options);
}

}  // namespace mezzo::amp
