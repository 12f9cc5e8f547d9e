// libFuzzer with g++: tells it the counters that tests/emulated_cuda/coverage.cpp counts in, and calls the
// target that MEZZO_FUZZ_TARGET names. Its main is libFuzzer's.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "mezzo/core/warning.h"
#include "mezzo/tests/fuzz/targets.h"

extern std::uint8_t* mezzo_coverage_counters;
extern "C" void __sanitizer_cov_8bit_counters_init(std::uint8_t* begin, std::uint8_t* end);

namespace {

alignas(4096) constinit std::array<std::uint8_t, 65536> counters{};
int (*target)(const std::uint8_t*, std::size_t) = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* const name = std::getenv("MEZZO_FUZZ_TARGET");
  for (const mezzo::fuzz::Target& known : mezzo::fuzz::kTargets) {
    if (name != nullptr && known.name == name) target = known.run;
  }
  if (target == nullptr) {
    std::fprintf(stderr, "MEZZO_FUZZ_TARGET: expected a name of tests/fuzz/targets.h, got '%s'\n",
                 name != nullptr ? name : "");
    std::exit(2);
  }
  mezzo_coverage_counters = counters.data();
  __sanitizer_cov_8bit_counters_init(counters.data(), counters.data() + counters.size());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return target(data, size);
}
