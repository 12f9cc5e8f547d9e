// Which sanitizer checks this program, found at run time: CI links tests that were compiled once with a
// library that is instrumented and with libraries that are not.
#pragma once

extern "C" {
// Each is defined by the run-time library of its sanitizer, and null without it.
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace mezzo::test {

inline bool under_address_sanitizer() { return __asan_init != nullptr; }
inline bool under_thread_sanitizer() { return __tsan_init != nullptr; }
inline bool under_sanitizer() { return under_address_sanitizer() || under_thread_sanitizer(); }

}  // namespace mezzo::test
