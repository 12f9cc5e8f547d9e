// Anomaly detection: which op first produced inf or NaN, in which module, in forward or in backward. Declared
// for autograd, as in torch, and here because only nn knows the tree of modules.
#pragma once

#include <optional>
#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

/// A value that was not finite.
struct Anomaly {
  std::string op;            ///< the op's name
  std::string place;         ///< the module whose forward called it ("Linear 'encoder.fc'"); empty: none
  bool in_backward = false;  ///< its gradient function made it, and not the op itself
  /// In backward, but by an op outside of all gradient functions: a sum of gradients ("add"), or one in a
  /// hook.
  bool between_gradients = false;
  /// The op's input, not its output: of quantize_f8, whose float8 scale is NaN where a value is not finite.
  bool of_input = false;
  std::size_t index = 0;  ///< which of its outputs; in backward, to which of its inputs the gradient belongs
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t count = 0;  ///< elements that are inf or NaN
  /// One line with all of it.
  [[nodiscard]] std::string text() const;
};

struct AnomalyOptions {
  bool check_forward = true;  ///< look at what ops return, not only at gradients
  bool throws = true;         ///< AutogradError at the first anomaly; else it is remembered and all goes on
};

/// Checks the ops and gradients of this thread while it lives. It reports the op that
///   * returns NaN and got none, or inf and got finite tensors only. masked_fill, pad and fill may place an
///     inf that they were given, and attention's logsumexp of a row without keys is -inf: masks are no alarm;
///   * has a gradient that is not finite, while the gradients of its results are.
/// Not looked at are in-place writes, what ops call inside themselves, and sums into a `.grad` that is there
/// already. The module is known if its forward ran while one of these lived, called by its call operator.
///
/// Costs a pass and a host read per op: for a second look, not for every step. A CapturedStep refuses that
/// read with StateError while it captures. Scopes nest: each checks for itself, and other observers of ops,
/// modules and backward go on watching. Source: torch.autograd.detect_anomaly, which looks for NaN in
/// backward only.
///
/// They may end in any order, inside of a running module, hook or observer, on another thread while no op
/// runs on the thread that they watch (the one that made them), and after that thread.
class DetectAnomaly : mezzo::detail::NoCopy {
 public:
  explicit DetectAnomaly(AnomalyOptions options = {});
  ~DetectAnomaly();
  /// The first anomaly since the object was made or reset.
  [[nodiscard]] const std::optional<Anomaly>& found() const noexcept;
  void reset();

 private:
  class Watch;
  Ref<Watch> watch_;  // it may be at work when this ends
};

/// `const auto anomaly = autograd::detect_anomaly();`
[[nodiscard]] inline DetectAnomaly detect_anomaly(AnomalyOptions options = {}) {
  return DetectAnomaly(options);
}

}  // namespace mezzo::autograd

namespace mezzo {
using autograd::DetectAnomaly;  // beside NoGrad and EnableGrad
}
