// The name of the op that runs on this thread, so that an error of the device can name it. Every op call sets
// it, at the price of two stores.
#pragma once

#include <string_view>

#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// Innermost op of this thread; empty outside of ops. Points to the op's static name.
inline constinit thread_local std::string_view current_op{};

/// Sets `current_op` while it lives. `name` must outlive the process' use of CUDA (ops' names are static).
class OpScope : NoCopy {
 public:
  explicit OpScope(std::string_view name) noexcept : previous_(current_op) { current_op = name; }
  ~OpScope() { current_op = previous_; }

 private:
  std::string_view previous_;
};

}  // namespace mezzo::detail
