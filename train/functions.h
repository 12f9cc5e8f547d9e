// The parts of any type that a trainer is given, and the pieces of its loop as functions of their own:
// ModelRef, AnyOptimizer, Loss, Forward, EvalMetric, and train::evaluate for loops by hand.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/precision.h"
#include "mezzo/core/function.h"
#include "mezzo/dist/optimizer_maker.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/module.h"
#include "mezzo/train/batch.h"
#include "mezzo/train/checkpoint.h"
#include "mezzo/train/metrics.h"

namespace mezzo::train {

using nn::ModelRef;

/// An optimizer that the program keeps, or shares: an optim::Optimizer, one that evaluates a closure (SAM,
/// LBFGS), or one that a trainer makes (dist::sharded).
class AnyOptimizer {
 public:
  using Closure = mezzo::detail::Function<Tensor()>;

  AnyOptimizer() = default;
  template <class O>
  requires(std::derived_from<O, optim::Optimizer> || requires(O & o, const Closure& c) { o.step(c); })
      AnyOptimizer(O& optimizer)
      : AnyOptimizer(std::shared_ptr<O>(std::shared_ptr<void>(), &optimizer)) {}
  template <class O>
  requires(std::derived_from<O, optim::Optimizer> || requires(O & o, const Closure& c) { o.step(c); })
      AnyOptimizer(std::shared_ptr<O> shared)
      : owner_(shared) {
    if (shared == nullptr) return;
    O& object = *shared;
    if constexpr (std::derived_from<O, optim::Optimizer>) {
      optimizer_ = &object;
    } else {
      evaluate_ = [&object](amp::GradScaler& scaler, const Closure& closure) {
        return scaler.step(object, closure);
      };
      if constexpr (requires { object.optimizer(); })
        optimizer_ = &object.optimizer();
      else
        parameters_ = object.parameters();
    }
    if (optimizer_ == nullptr) {
      if constexpr (detail::HasStateDict<O>) part_.emplace_back("optimizer", object);
    } else {
      part_.emplace_back("optimizer", *optimizer_);
    }
  }

  AnyOptimizer(dist::OptimizerMaker maker) : maker_(std::move(maker)) {}

  [[nodiscard]] bool defined() const noexcept {
    return owner_ != nullptr || optimizer_ != nullptr || evaluate_ || maker_.make;
  }
  /// Makes the optimizer; empty where there is one already.
  [[nodiscard]] const dist::OptimizerMaker& maker() const noexcept { return maker_; }
  [[nodiscard]] optim::Optimizer* optimizer() const noexcept { return optimizer_; }
  [[nodiscard]] bool takes_closure() const noexcept { return static_cast<bool>(evaluate_); }
  /// scaler.step(optimizer, closure).
  amp::StepResult step(amp::GradScaler& scaler, const Closure& closure) const {
    return evaluate_(scaler, closure);
  }
  [[nodiscard]] std::vector<Tensor> parameters() const;
  [[nodiscard]] const Parts& parts() const noexcept { return part_; }

 private:
  std::shared_ptr<void> owner_;
  optim::Optimizer* optimizer_ = nullptr;
  mezzo::detail::Function<amp::StepResult(amp::GradScaler&, const Closure&)> evaluate_;
  std::vector<Tensor> parameters_;
  dist::OptimizerMaker maker_;
  Parts part_;
};

namespace detail {

/// The types of a callable's arguments, where it has one signature.
template <class... A>
struct Arguments {
  static constexpr std::size_t kCount = sizeof...(A);
  using Last = std::remove_cvref_t<decltype((std::type_identity<A>(), ...))>;
};
template <class F>
struct ArgumentsOf : ArgumentsOf<decltype(&F::operator())> {};
template <class R, class C, class... A>
struct ArgumentsOf<R (C::*)(A...)> : Arguments<A...> {};
template <class R, class C, class... A>
struct ArgumentsOf<R (C::*)(A...) const> : Arguments<A...> {};
template <class R, class... A>
struct ArgumentsOf<R (*)(A...)> : Arguments<A...> {};

/// The type of batch that F takes as its last argument; of a generic lambda data::Example.
template <class F>
struct BatchOfFunction {
  using type = data::Example;
};
template <class F>
requires(std::is_pointer_v<F> || requires { &F::operator(); }) struct BatchOfFunction<F> {
  using type = std::remove_cvref_t<typename ArgumentsOf<F>::Last::type>;
};
template <class F>
using BatchOfCallable = typename BatchOfFunction<F>::type;

/// A function of a batch whose type is checked when the trainer is made: f(batch), or f(a..., batch).
template <class R, class... A>
struct BatchFunction {
  BatchFunction() = default;
  template <class F>
  requires(!std::same_as<F, BatchFunction>) BatchFunction(F f) : batch(&typeid(BatchOfCallable<F>)) {
    call = [f = std::move(f)](A... a, const AnyBatch& of) mutable -> R {
      return static_cast<R>(f(a..., of.get<BatchOfCallable<F>>()));
    };
  }
  mezzo::detail::Function<R(A..., const AnyBatch&)> call = {};
  const std::type_info* batch = nullptr;  ///< nullptr: of batches with an input and a target
};

/// Input and target of a batch: of an Example its parts, of a pair of tensors first and second; a tensor is
/// both.
[[nodiscard]] bool has_input_and_target(const std::type_info& batch);
[[nodiscard]] const Tensor& input_of(const AnyBatch& batch);
[[nodiscard]] const Tensor& target_of(const AnyBatch& batch);

}  // namespace detail

/// The loss of a batch: an nn::Loss, or a function by name, `cross_entropy`; f(output, target), as `[](const
/// Tensor& y, const Tensor& t) { ... }`; f(output, batch) for batches of any type; or f(batch), which calls
/// the model itself. Each returns one number, the mean over the samples.
class Loss {
 public:
  Loss() = default;
  template <nn::detail::ModuleValue<nn::Loss> L>
  requires(!std::is_lvalue_reference_v<L>) Loss(L&& loss)
      : Loss(nn::detail::shared<L>(std::forward<L>(loss))) {}
  template <std::derived_from<nn::Loss> L>
  Loss(std::shared_ptr<L> loss) : module_(loss) {
    if (loss == nullptr) return;
    function_.call = [loss](const Tensor& output, const AnyBatch& batch) {
      return (*loss)(output, detail::target_of(batch));
    };
    if (!loss->weighs_targets()) return;
    divisor_ = [loss](const AnyBatch& batch) { return loss->mean_divisor(detail::target_of(batch)); };
  }
  /// A function of ops/loss.h by its name, as `cross_entropy`: its mean.
  Loss(Tensor (*f)(const Tensor&, const Tensor&, Reduction))
      : Loss([f](const Tensor& output, const Tensor& target) { return f(output, target, Reduction::mean); }) {
    using Reduced = Tensor (*)(const Tensor&, const Tensor&, Reduction);
    if (f == static_cast<Reduced>(cross_entropy)) *this = Loss(nn::CrossEntropyLoss());
    if (f == static_cast<Reduced>(nll_loss)) *this = Loss(nn::NLLLoss());
  }
  template <class F>
  requires(!std::derived_from<F, nn::Module> && !std::same_as<F, Loss> &&
           (std::is_pointer_v<F> || std::is_class_v<F>)&&!requires(F f) { f.get(); }) Loss(F f) {
    if constexpr (std::invocable<F&, const Tensor&, const Tensor&>) {
      function_.call = [f = std::move(f)](const Tensor& output, const AnyBatch& batch) mutable {
        return f(output, detail::target_of(batch));
      };
    } else if constexpr (std::invocable<F&, const Tensor&, detail::BatchOfCallable<F>&>) {
      function_ = std::move(f);
    } else {
      calls_model_ = true;
      function_ = [f = std::move(f)](const Tensor& /*output*/, detail::BatchOfCallable<F>& batch) mutable {
        return f(batch);
      };
    }
  }

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(function_.call); }
  /// Whether it calls the model itself: there is no output then.
  [[nodiscard]] bool calls_model() const noexcept { return calls_model_; }
  [[nodiscard]] nn::Module* module() const noexcept { return module_.get(); }
  [[nodiscard]] const detail::BatchFunction<Tensor, const Tensor&>& function() const noexcept {
    return function_;
  }
  /// Whether its mean over a batch divides by mean_divisor(batch), as nn::Loss::weighs_targets.
  [[nodiscard]] bool weighs_targets() const noexcept { return static_cast<bool>(divisor_); }
  [[nodiscard]] Tensor mean_divisor(const AnyBatch& batch) const { return divisor_(batch); }

 private:
  detail::BatchFunction<Tensor, const Tensor&> function_;
  mezzo::detail::Function<Tensor(const AnyBatch&)> divisor_;
  std::shared_ptr<nn::Module> module_;
  bool calls_model_ = false;
};

/// The model's output for a batch, f(batch): for models that take more than one tensor, and batches of other
/// types.
using Forward = detail::BatchFunction<Tensor>;

/// Tokens in a batch, f(batch), on the host.
using TokenCount = detail::BatchFunction<std::int64_t>;

/// The unit that the loss of a batch is a mean over. Parts of a batch, batches of a step, shares of ranks and
/// batches of an evaluation are weighed by it, so that together they give what one batch would give.
enum class WeighBy : std::uint8_t {
  loss,  ///< the loss's divisor where it has one (nn::Loss::mean_divisor), else samples
  samples,
  tokens,  ///< TrainerOptions::tokens
};

/// A WeighBy, or f(batch), a number from 0 on the host: `[](const Batch& b) { return b.mask.sum().item(); }`.
/// The loss of a batch that weighs 0 may be NaN: it counts nothing.
class LossWeight {
 public:
  LossWeight() = default;
  LossWeight(WeighBy by) : by_(by) {}
  template <class F>
  requires(!std::same_as<F, LossWeight> && !std::same_as<F, WeighBy>) LossWeight(F f)
      : function_(std::move(f)) {}
  [[nodiscard]] WeighBy by() const noexcept { return by_; }
  [[nodiscard]] const detail::BatchFunction<double>& function() const noexcept { return function_; }

 private:
  WeighBy by_ = WeighBy::loss;
  detail::BatchFunction<double> function_;
};

/// A metric of evaluations with its name: {"accuracy", train::Accuracy()}. It is updated with output and
/// target of each batch, or by f(metric, output, batch). Of a metric with a number per class (Average::none)
/// each is a result, "f1/0", "f1/1". A matrix is none, as a warning says: read the metric's compute().
class EvalMetric {
 public:
  template <std::derived_from<Metric> M>
  EvalMetric(std::string name, M metric)
      : EvalMetric(std::move(name), std::make_shared<M>(std::move(metric))) {}
  template <std::derived_from<Metric> M>
  EvalMetric(std::string name, std::shared_ptr<M> metric) : name_(std::move(name)), metric_(metric) {
    update_.call = [metric](const Tensor& output, const AnyBatch& batch) {
      metric->update(output, detail::target_of(batch));
    };
  }
  template <std::derived_from<Metric> M, class F>
  EvalMetric(std::string name, M metric, F f) : name_(std::move(name)) {
    auto shared = std::make_shared<M>(std::move(metric));
    metric_ = shared;
    update_ = [shared, f = std::move(f)](const Tensor& output, detail::BatchOfCallable<F>& batch) mutable {
      f(*shared, output, batch);
    };
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The names of the numbers of `result`, which the metric has computed; none for a matrix. Throws:
  /// ShapeError for more than 1024.
  [[nodiscard]] std::vector<std::string> names(const Tensor& result) const;
  [[nodiscard]] Metric& metric() const noexcept { return *metric_; }
  [[nodiscard]] const detail::BatchFunction<void, const Tensor&>& update() const noexcept { return update_; }

 private:
  std::string name_;
  std::shared_ptr<Metric> metric_;
  detail::BatchFunction<void, const Tensor&> update_;
};

/// Results of an evaluation by the metrics' names, and "loss" where there is one.
using EvalResults = std::map<std::string, double>;

namespace detail {
/// The result of that name. Throws: ValueError in the name of `op`, with names that there are.
[[nodiscard]] double result_of(std::string_view op, const EvalResults& results, const std::string& metric);
}  // namespace detail

struct EvaluateOptions {
  Loss loss = {};                                   ///< its mean becomes the result "loss"
  LossWeight weigh_by = {};                         ///< what it is a mean over; not tokens
  Forward forward = {};                             ///< default: the model, a Layer, of a batch's input
  amp::Precision precision = amp::Precision::fp32;  ///< of the autocast region
  std::optional<Device> device = {};                ///< default: the model's first parameter's
};

/// Metrics of a model over a loader, which begins at its epoch 0: in evaluation mode, without recording. The
/// modules' modes and the loader's place come back. One host read per metric, at the end. What
/// Trainer::eval does, for loops by hand:
///   train::evaluate(net, test_loader, {{"accuracy", train::Accuracy()}}).at("accuracy")
/// Of a metric with a number per class each is a result (EvalMetric). Throws: ValueError for a missing model
/// or loader and for batches of another type, and what model, loss and metrics throw.
EvalResults evaluate(const ModelRef& model, const AnyLoader& loader, const std::vector<EvalMetric>& metrics,
                     const EvaluateOptions& options = {});

struct UpdateBNOptions {
  Forward forward = {};                             ///< default: the model, a Layer, of a batch's input
  amp::Precision precision = amp::Precision::fp32;  ///< of the autocast region
  std::optional<Device> device = {};                ///< default: the model's first parameter's
};

/// Running statistics of the model's batch norms anew: their mean over the loader's batches (epoch 0), with
/// the model in training mode and its present weights. For averages of weights, whose activations no training
/// has seen:
///   ema->average().copy_to_weights();
///   train::update_bn(net, train_loader);
/// Modes and the loader's place come back. Nothing happens without batch norms. Throws: ValueError for a
/// missing model or loader, one without batches, and batches of another type. Source:
/// torch.optim.swa_utils.update_bn.
void update_bn(const ModelRef& model, const AnyLoader& loader, const UpdateBNOptions& options = {});

}  // namespace mezzo::train
