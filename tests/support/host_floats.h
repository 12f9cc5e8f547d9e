// What a host program may do to the floating-point environment of its threads.
#pragma once

#include <cfenv>
#include <vector>

#if defined(__SSE__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace mezzo::test {

struct FloatSetting {
  int rounding = FE_TONEAREST;
  bool flush = false;  ///< subnormal results and operands become 0; on x86 alone
};

inline std::vector<FloatSetting> float_settings() {
  std::vector<FloatSetting> all;
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    all.push_back({rounding, false});
#if defined(__SSE__)
    all.push_back({rounding, true});
#endif
  }
  return all;
}

/// The calling thread's setting while it lives.
class HostFloats {
 public:
  explicit HostFloats(const FloatSetting& setting) {
    std::fegetenv(&before_);
    std::fesetround(setting.rounding);
#if defined(__SSE__)
    _MM_SET_FLUSH_ZERO_MODE(setting.flush ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
    _MM_SET_DENORMALS_ZERO_MODE(setting.flush ? _MM_DENORMALS_ZERO_ON : _MM_DENORMALS_ZERO_OFF);
#endif
  }
  ~HostFloats() { std::fesetenv(&before_); }
  HostFloats(const HostFloats&) = delete;
  HostFloats& operator=(const HostFloats&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace mezzo::test
