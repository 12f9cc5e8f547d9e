// What a process holds and uses, as the system says.
#pragma once

#include <cstdint>

namespace mezzo::soak {

struct Process {
  double mebibytes = 0;      ///< of memory that is resident
  std::int64_t files = 0;    ///< open ones
  std::int64_t threads = 0;  ///< of the process
  std::int64_t tensor_bytes = 0;
};

[[nodiscard]] Process look_at_process();

/// Seconds of processor time that all threads have used.
[[nodiscard]] double processor_seconds();

}  // namespace mezzo::soak
