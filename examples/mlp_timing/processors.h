// Who used the processors meanwhile.
#pragma once

#include <optional>

namespace mlp_timing {

/// Counts from its making on.
class ProcessorUse {
 public:
  ProcessorUse();
  /// The share of all processors' time that went to other processes and other virtual machines; none where
  /// the system does not say, or after less than half a second, as it counts in hundredths.
  [[nodiscard]] std::optional<double> others() const;

 private:
  struct Seconds {
    double own = 0, all = 0, wall = 0;
    bool known = false;
  };
  static Seconds now();
  Seconds start_;
};

}  // namespace mlp_timing
