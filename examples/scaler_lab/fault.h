// What can be made to go wrong: the faults that the command line asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scaler_lab {

/// What a fault does to the result of a layer.
enum class FaultKind {
  overflow_forward,   ///< it is multiplied until its largest element leaves f16
  overflow_backward,  ///< its gradient is multiplied until it leaves f16
  underflow,          ///< its gradient is made so small that f16 holds it only with a large scale
};
[[nodiscard]] std::string_view to_string(FaultKind kind);

/// One fault, in steps [first, last], counted from 1.
struct Fault {
  FaultKind kind = FaultKind::overflow_forward;
  std::int64_t first = 1, last = 1;
  std::string layer;

  [[nodiscard]] bool acts_at(std::int64_t step) const { return step >= first && step <= last; }
};
/// "overflow forward at hidden1".
[[nodiscard]] std::string to_string(const Fault& fault);

/// Reads STEP[-STEP]:LAYER and, unless `underflow`, an optional :forward or :backward. Throws ValueError for
/// text of another form, a layer that is not one of `layers`, and steps outside of [1, steps].
[[nodiscard]] Fault parse_fault(const std::string& text, bool underflow, std::int64_t steps,
                                const std::vector<std::string>& layers);

}  // namespace scaler_lab
