// AddressSanitizer's hooks, and nothing in their place in builds without it.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated_cuda::asan {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kActive = true;
inline void poison(void* start, std::size_t bytes) { __asan_poison_memory_region(start, bytes); }
inline void unpoison(void* start, std::size_t bytes) { __asan_unpoison_memory_region(start, bytes); }
inline void leave(void** own_fake_stack, const void* next_bottom, std::size_t next_size) {
  __sanitizer_start_switch_fiber(own_fake_stack, next_bottom, next_size);
}
inline void arrive(void* own_fake_stack, const void** previous_bottom, std::size_t* previous_size) {
  __sanitizer_finish_switch_fiber(own_fake_stack, previous_bottom, previous_size);
}
#else
inline constexpr bool kActive = false;
inline void poison(void* /*start*/, std::size_t /*bytes*/) {}
inline void unpoison(void* /*start*/, std::size_t /*bytes*/) {}
inline void leave(void** /*own*/, const void* /*next_bottom*/, std::size_t /*next_size*/) {}
inline void arrive(void* /*own*/, const void** /*previous_bottom*/, std::size_t* /*previous_size*/) {}
#endif

}  // namespace emulated_cuda::asan
