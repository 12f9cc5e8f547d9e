// The line search of LBFGS. Internal to optim.
#pragma once

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"

namespace mezzo::optim::detail {

/// A point on a line: the step that leads to it, the loss there, its slope along the line, and the gradient.
struct LinePoint {
  double step = 0, loss = 0, slope = 0;
  Tensor gradient;
};

/// A line, what is known at its start, and how far the search may go.
struct Line {
  mezzo::detail::Function<LinePoint(double)> at;  ///< evaluates the loss after a step
  LinePoint start;
  double largest = 0;  ///< the largest magnitude in the direction
  std::int64_t most_evaluations = 0;
};

/// A point that satisfies the strong Wolfe conditions (1e-4 and 0.9), beginning with `first` as the step; the
/// best one found where the evaluations do not suffice.
/// Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 3.5 and 3.6, as minFunc and
/// torch.optim.LBFGS have them.
[[nodiscard]] LinePoint strong_wolfe(const Line& line, double first);

}  // namespace mezzo::optim::detail
