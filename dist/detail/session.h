// The open session, for the rest of dist.
#pragma once

#include <chrono>

namespace mezzo::dist {

/// How long a collective may take before all processes are ended.
[[nodiscard]] std::chrono::milliseconds collective_timeout();

}  // namespace mezzo::dist
