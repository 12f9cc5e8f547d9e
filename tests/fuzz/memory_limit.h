// Keeps a target that asks for much memory from getting it: what it asks for is refused as on a machine that
// has no more.
#pragma once

#include <sys/resource.h>

#include <algorithm>

#include "mezzo/tests/support/sanitizer.h"

namespace mezzo::fuzz {

/// While it lives the process has two GB of addresses. Sanitizers need more themselves and have a limit of
/// their own (tests/support/sanitizer_options.cpp).
class MemoryLimit {
 public:
  MemoryLimit() {
    if (test::under_sanitizer() || ::getrlimit(RLIMIT_AS, &before_) != 0) return;
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{1} << 31U);
    is_set_ = ::setrlimit(RLIMIT_AS, &limit) == 0;
  }
  ~MemoryLimit() {
    if (is_set_) ::setrlimit(RLIMIT_AS, &before_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
  bool is_set_ = false;
};

}  // namespace mezzo::fuzz
