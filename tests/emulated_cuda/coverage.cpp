// What g++'s -fsanitize-coverage=trace-pc calls at each branch of the sources that have it
// (cmake/FuzzTests.cmake).
#include <cstdint>

/// 65,536 counters where a program of libFuzzer runs; else null.
std::uint8_t* mezzo_coverage_counters = nullptr;

extern "C" void __sanitizer_cov_trace_pc() {
  if (mezzo_coverage_counters == nullptr) return;
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++mezzo_coverage_counters[(place * 0x9E3779B97F4A7C15U) >> 48U];
}
