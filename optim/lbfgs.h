// LBFGS: a quasi-Newton method for losses without noise, which evaluates the model several times per step.
#pragma once

#include <concepts>
#include <optional>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"
#include "mezzo/core/value.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

namespace detail {
struct LinePoint;
}

/// How LBFGS finds the length of a step: `none` takes lr.
enum class LineSearch : std::uint8_t { none, strong_wolfe };

struct LBFGSOptions {
  double lr = 1;                              ///< finite, >= 0
  std::int64_t max_iter = 20;                 ///< of a step, >= 1
  std::optional<std::int64_t> max_eval = {};  ///< evaluations of a step, >= 1; 5/4 max_iter
  double tolerance_grad = 1e-7;               ///< a step ends when no part of the gradient is larger
  double tolerance_change = 1e-9;             ///< or when neither loss nor parameters change by more
  std::int64_t history_size = 100;            ///< earlier iterations that are remembered, >= 1
  LineSearch line_search_fn = LineSearch::none;
};

/// Directions are -H g, where H, an estimate of the inverse Hessian, is made of the last differences of
/// gradients and of parameters. All parameters are one vector, so there are no groups. It takes
/// 2 history_size + 3 times the memory of the parameters, and each iteration reads numbers back to the host.
/// Dtypes: parameters f32 or f64.
///
/// A GradScaler refuses it, as it compares the losses of several evaluations. Train in f32, or in a bf16
/// region inside the closure.
///   optim::LBFGS optimizer(net, {.line_search_fn = optim::LineSearch::strong_wolfe});
///   optimizer.step([&] {
///     optimizer.zero_grad();
///     const Tensor loss = mse_loss(net(x), y);
///     loss.backward();
///     return loss;
///   });
/// Source: torch.optim.LBFGS; Nocedal and Wright, "Numerical Optimization", 2006, algorithm 7.5.
class LBFGS {
 public:
  /// Throws: what Optimizer's constructor throws for parameters, DTypeError for 16-bit parameters, and
  /// ValueError for options out of range.
  explicit LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options = {});
  explicit LBFGS(const NamedTensors& parameters, const LBFGSOptions& options = {});
  template <class M>
  requires requires(const M& module) {
    { module.named_parameters() } -> std::convertible_to<NamedTensors>;
  }
  explicit LBFGS(const M& module, const LBFGSOptions& options = {})
      : LBFGS(NamedTensors(module.named_parameters()), options) {}

  /// Up to max_iter iterations. `closure` clears gradients, computes the loss, calls backward and returns the
  /// loss; a parameter without gradient counts as one with zeros. Returns the first loss. When the closure
  /// throws, parameters are where it was evaluated last. Throws: ValueError for an empty closure and for a
  /// loss that is not one number.
  Tensor step(const mezzo::detail::Function<Tensor()>& closure);
  /// Drops all gradients, or fills them with zeros where they are.
  void zero_grad(bool set_to_none = true);

  [[nodiscard]] double lr() const noexcept { return options_.lr; }
  /// Throws: ValueError unless it is finite and >= 0.
  void set_lr(double lr);
  [[nodiscard]] const LBFGSOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::vector<Tensor> parameters() const;

  /// Options, counts and vectors: what a later step goes on from, bit for bit.
  [[nodiscard]] OptimizerState state_dict() const;
  /// Throws: StateError, ShapeError or DTypeError when it is not of an LBFGS with these parameters,
  /// ValueError for options that are not valid; nothing has changed then.
  void load_state_dict(const OptimizerState& state);

 private:
  /// An earlier iteration: differences of gradients and of parameters, and 1 / their product.
  struct Memory {
    Tensor gradients, parameters;
    double inverse = 0;
  };
  /// The state that one step hands to the next.
  struct History {
    std::int64_t iterations = 0, evaluations = 0;
    Tensor direction, gradient;  ///< of the iteration before; undefined before the first
    double step = 0;             ///< along the direction
    double scale = 1;            ///< of the identity that H begins with
    std::vector<Memory> memories;
  };

  void check(const LBFGSOptions& options) const;
  /// All gradients as one vector.
  [[nodiscard]] Tensor gathered() const;
  /// Adds step times the direction to the parameters.
  void move(double step, const Tensor& direction);
  [[nodiscard]] double evaluate(const mezzo::detail::Function<Tensor()>& closure, Tensor& loss);
  void remember(const Tensor& gradient);
  void turn(const Tensor& gradient);
  [[nodiscard]] detail::LinePoint search(const mezzo::detail::Function<Tensor()>& closure,
                                         const detail::LinePoint& start, double first,
                                         std::int64_t most_evaluations);
  [[nodiscard]] Tensor descent(const Tensor& gradient) const;

  NamedTensors parameters_;
  LBFGSOptions options_;
  DType dtype_ = DType::f32;  ///< of the vectors
  History history_;
};

}  // namespace mezzo::optim
