// The training that is soaked: layers of many kinds in mixed precision with a scaler, whose state is a file.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/mezzo.h"

namespace mezzo::soak {

class Training {
 public:
  explicit Training(std::uint64_t seed);

  /// Step number `step`; its data, its dtype and whether its loss overflows follow from the number and the
  /// seed.
  void step(std::int64_t step);
  [[nodiscard]] bool overflows(std::int64_t step) const;

  void save(const std::string& path) const;
  void load(const std::string& path);
  /// Ends an iteration that an exception ended, and drops its gradients.
  void abandon_step();

 private:
  std::uint64_t seed_;
  nn::Sequential net_;
  optim::AdamW optimizer_;
  amp::GradScaler scaler_;
};

}  // namespace mezzo::soak
