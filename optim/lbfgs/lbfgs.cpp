// The iterations of a step: the two-loop recursion on one vector of all parameters, and the move along it.
#include "mezzo/optim/lbfgs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/function.h"
#include "mezzo/ops/ops.h"

namespace mezzo::optim {

// --- the line search: a bracket around a point that satisfies the conditions, then its refinement

/// A point on a line: the step that leads to it, the loss there, its slope along the line, and the gradient.
struct detail::LinePoint {
  double step = 0, loss = 0, slope = 0;
  Tensor gradient;
};

namespace {

using detail::LinePoint;

/// A line, what is known at its start, and how far the search may go.
struct Line {
  mezzo::detail::Function<LinePoint(double)> at;  ///< evaluates the loss after a step
  LinePoint start;
  double largest = 0;  ///< the largest magnitude in the direction
  std::int64_t most_evaluations = 0;
};

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // c1 and c2
constexpr double kLeastBracket = 1e-9;  // of a bracket's length times the direction's largest part

/// The least point of the cubic through two points with their slopes, within bounds; their middle where the
/// cubic has none.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const bool in_order = a.step <= b.step;
  const LinePoint &left = in_order ? a : b, &right = in_order ? b : a;
  const double least =
      right.step - (right.step - left.step) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::min(std::max(least, low), high);
}

/// The search's state. `bracket` has two points, or one that is the answer.
class Search {
 public:
  explicit Search(const Line& line) : line_(line) {}

  LinePoint run(double first) {
    find_bracket(first);
    while (!found_ && rounds_ < line_.most_evaluations) {
      if (std::abs(bracket_[1].step - bracket_[0].step) * line_.largest < kLeastBracket) break;
      refine();
    }
    return found_ ? answer_ : bracket_[low_];
  }

 private:
  [[nodiscard]] bool decreases(const LinePoint& point) const {
    return !(point.loss > line_.start.loss + kDecrease * point.step * line_.start.slope);
  }
  /// Whether a point is flat enough, which makes it the answer.
  [[nodiscard]] bool takes_flat(const LinePoint& point) {
    found_ = std::abs(point.slope) <= -kCurvature * line_.start.slope;
    if (found_) answer_ = point;
    return found_;
  }
  void set_bracket(const LinePoint& a, const LinePoint& b) {
    bracket_ = {a, b};
    sort_bracket();
  }
  void sort_bracket() { low_ = bracket_[0].loss <= bracket_[1].loss ? 0 : 1; }

  void find_bracket(double first) {
    LinePoint previous = line_.start, point = line_.at(first);
    for (; rounds_ < line_.most_evaluations; ++rounds_) {
      if (!decreases(point) || (rounds_ > 1 && point.loss >= previous.loss))
        return set_bracket(previous, point);
      if (takes_flat(point)) return;
      if (point.slope >= 0) return set_bracket(previous, point);
      const double next =
          cubic_minimum(previous, point, point.step + 0.01 * (point.step - previous.step), point.step * 10);
      previous = point;
      point = line_.at(next);
    }
    set_bracket(line_.start, point);
  }

  /// A step within the bracket, not too near to its ends twice in a row.
  [[nodiscard]] double trial() {
    const double low = std::min(bracket_[0].step, bracket_[1].step);
    const double high = std::max(bracket_[0].step, bracket_[1].step);
    const double step = cubic_minimum(bracket_[0], bracket_[1], low, high);
    const double margin = 0.1 * (high - low);
    if (std::min(high - step, step - low) >= margin) {
      was_near_end_ = false;
      return step;
    }
    if (!was_near_end_ && step < high && step > low) {
      was_near_end_ = true;
      return step;
    }
    was_near_end_ = false;
    return std::abs(step - high) < std::abs(step - low) ? high - margin : low + margin;
  }

  void refine() {
    const LinePoint point = line_.at(trial());
    ++rounds_;
    LinePoint &low = bracket_[low_], &high = bracket_[1 - low_];
    if (!decreases(point) || point.loss >= low.loss) {
      high = point;
      sort_bracket();
      return;
    }
    if (takes_flat(point)) return;
    if (point.slope * (high.step - low.step) >= 0) high = low;
    low = point;
  }

  const Line& line_;
  std::array<LinePoint, 2> bracket_;
  std::size_t low_ = 0;
  LinePoint answer_;
  bool found_ = false, was_near_end_ = false;
  std::int64_t rounds_ = 0;
};

/// A point that satisfies the strong Wolfe conditions (1e-4 and 0.9), beginning with `first` as the step; the
/// best one found where the evaluations do not suffice.
/// Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 3.5 and 3.6, as minFunc and
/// torch.optim.LBFGS have them.
LinePoint strong_wolfe(const Line& line, double first) { return Search(line).run(first); }

// --- the iterations

constexpr double kLeastCurvature = 1e-10;  // of y s, for a pair that is remembered

double largest(const Tensor& x) { return amax(abs(x)).item(); }
double product(const Tensor& a, const Tensor& b) { return dot(a, b).item(); }

NamedTensors checked(const NamedTensors& parameters) {
  if (parameters.empty()) throw ValueError("LBFGS", "at least one parameter", "none", "give it a model's");
  std::set<const TensorImpl*> seen;
  for (const auto& [name, tensor] : parameters) {
    require_parameter(
        "LBFGS", tensor,
        parameters.front().second.defined() ? parameters.front().second.device() : Device::cpu());
    if (is_16bit(tensor.dtype())) {
      throw DTypeError("LBFGS", "parameters of f32 or f64", to_string(tensor.dtype()),
                       "keep them in f32, and compute in 16 bits by autocast");
    }
    if (!seen.insert(tensor.ref().get()).second) {
      throw ValueError("LBFGS", "each parameter once",
                       (name.empty() ? to_string(tensor.shape()) : name) + " twice", "list it once");
    }
  }
  return parameters;
}

}  // namespace

LBFGS::LBFGS(const std::vector<Tensor>& parameters, const LBFGSOptions& options)
    : LBFGS(unnamed(parameters), options) {}

LBFGS::LBFGS(const NamedTensors& parameters, const LBFGSOptions& options)
    : parameters_(checked(parameters)), options_(options) {
  check(options);
  for (const auto& [name, tensor] : parameters_) {
    if (tensor.dtype() == DType::f64) dtype_ = DType::f64;
  }
}

void LBFGS::check(const LBFGSOptions& options) const {
  require_not_negative("LBFGS", {{"lr", options.lr},
                                 {"tolerance_grad", options.tolerance_grad},
                                 {"tolerance_change", options.tolerance_change}});
  const auto at_least_one = [](const char* what, std::int64_t number) {
    require_option("LBFGS", number >= 1, std::string(what) + " of at least 1", static_cast<double>(number));
  };
  at_least_one("max_iter", options.max_iter);
  at_least_one("max_eval", options.max_eval.value_or(1));
  at_least_one("history_size", options.history_size);
}

void LBFGS::set_lr(double lr) {
  require_not_negative("LBFGS", {{"lr", lr}});
  options_.lr = lr;
}

std::vector<Tensor> LBFGS::parameters() const {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : parameters_) result.push_back(tensor);
  return result;
}

void LBFGS::zero_grad(bool set_to_none) {
  for (const auto& [name, tensor] : parameters_) {
    const Tensor gradient = tensor.grad();
    if (!gradient.defined()) continue;
    if (set_to_none)
      tensor.set_grad({});
    else
      gradient.zero_();
  }
}

// --- one step

Tensor LBFGS::gathered() const {
  std::vector<Tensor> parts;
  for (const auto& [name, tensor] : parameters_) {
    const Tensor gradient = tensor.grad();
    const Tensor part = gradient.defined() ? gradient.detach() : zeros_like(tensor.detach());
    parts.push_back(to(reshape(part, {-1}), dtype_));
  }
  return cat(parts);
}

void LBFGS::move(double step, const Tensor& direction) {
  const NoGrad no_grad;
  std::int64_t from = 0;
  for (const auto& [name, tensor] : parameters_) {
    tensor.add_(to(view(narrow(direction, 0, from, tensor.numel()), tensor.shape()), tensor.dtype()), step);
    from += tensor.numel();
  }
}

double LBFGS::evaluate(const mezzo::detail::Function<Tensor()>& closure, Tensor& loss) {
  {
    const EnableGrad recording;
    loss = closure();
  }
  ++history_.evaluations;
  if (!loss.defined() || loss.numel() != 1) {
    throw ValueError("LBFGS.step", "a closure that returns the loss, one number",
                     loss.defined() ? to_string(loss.shape()) : "an undefined tensor", "return the loss");
  }
  return loss.item();
}

/// Keeps the differences that the last move has made.
void LBFGS::remember(const Tensor& gradient) {
  const Tensor y = sub(gradient, history_.gradient), s = mul(history_.direction, history_.step);
  const double ys = product(y, s);
  if (!(ys > kLeastCurvature)) return;
  if (std::ssize(history_.memories) == options_.history_size)
    history_.memories.erase(history_.memories.begin());
  history_.memories.push_back({y, s, 1 / ys});
  history_.scale = ys / product(y, y);
}

/// -H g.
Tensor LBFGS::descent(const Tensor& gradient) const {
  const std::vector<Memory>& memories = history_.memories;
  std::vector<double> alphas(memories.size());
  const Tensor q = neg(gradient);
  for (std::size_t i = memories.size(); i-- > 0;) {
    alphas[i] = product(memories[i].parameters, q) * memories[i].inverse;
    q.add_(memories[i].gradients, -alphas[i]);
  }
  const Tensor r = mul(q, history_.scale);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const double beta = product(memories[i].gradients, r) * memories[i].inverse;
    r.add_(memories[i].parameters, alphas[i] - beta);
  }
  return r;
}

/// The end of a line search along the present direction. Parameters are where they were afterwards.
LinePoint LBFGS::search(const mezzo::detail::Function<Tensor()>& closure, const LinePoint& start,
                        double first, std::int64_t most_evaluations) {
  std::vector<Tensor> origin;
  for (const auto& [name, tensor] : parameters_) origin.push_back(clone(tensor.detach()));
  const auto go_back = [&] {
    for (std::size_t i = 0; i < origin.size(); ++i) parameters_[i].second.copy_(origin[i]);
  };
  const auto at = [&](double step) {
    move(step, history_.direction);
    Tensor loss;
    LinePoint point{.step = step, .loss = evaluate(closure, loss), .slope = 0, .gradient = gathered()};
    point.slope = product(point.gradient, history_.direction);
    go_back();
    return point;
  };
  return strong_wolfe({.at = at,
                       .start = start,
                       .largest = largest(history_.direction),
                       .most_evaluations = most_evaluations},
                      first);
}

/// Makes the direction of the next iteration from a gradient.
void LBFGS::turn(const Tensor& gradient) {
  if (history_.iterations++ == 0) {
    history_.direction = neg(gradient);
  } else {
    remember(gradient);
    history_.direction = descent(gradient);
  }
  history_.gradient = gradient;
  history_.step = options_.lr;
  if (history_.iterations == 1) history_.step *= std::min(1.0, 1 / sum(abs(gradient)).item());
}

Tensor LBFGS::step(const mezzo::detail::Function<Tensor()>& closure) {
  if (!closure)
    throw ValueError("LBFGS.step", "a closure", "an empty function", "pass one that returns the loss");
  const NoGrad no_grad;
  const std::int64_t before = history_.evaluations;
  // 5/4 max_iter, which may be as large as a number can be.
  const std::int64_t quarter = options_.max_iter / 4, rest = options_.max_iter % 4;
  const std::int64_t room = std::numeric_limits<std::int64_t>::max() - options_.max_iter;
  const std::int64_t most =
      options_.max_eval.value_or(options_.max_iter + std::min(quarter + (rest * 5 / 4 - rest), room));
  const auto left = [&] { return most - (history_.evaluations - before); };
  Tensor first_loss, later_loss;
  double loss = evaluate(closure, first_loss);
  Tensor gradient = gathered();
  if (largest(gradient) <= options_.tolerance_grad) return first_loss;
  for (std::int64_t i = 1;; ++i) {
    turn(gradient);
    const double former_loss = loss, slope = product(gradient, history_.direction);
    if (slope > -options_.tolerance_change) break;
    const bool searches = options_.line_search_fn == LineSearch::strong_wolfe;
    if (searches) {
      const LinePoint found = search(closure, {0, loss, slope, gradient}, history_.step, left());
      history_.step = found.step;
      loss = found.loss;
      gradient = found.gradient;
    }
    move(history_.step, history_.direction);
    if (i == options_.max_iter) break;
    if (!searches) {
      loss = evaluate(closure, later_loss);
      gradient = gathered();
    }
    if (left() <= 0 || largest(gradient) <= options_.tolerance_grad) break;
    if (largest(mul(history_.direction, history_.step)) <= options_.tolerance_change) break;
    if (std::abs(loss - former_loss) < options_.tolerance_change) break;
  }
  return first_loss;
}

}  // namespace mezzo::optim
