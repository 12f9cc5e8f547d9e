// AddressSanitizer ends the program where malloc would give nothing. Tests ask for more memory than there is
// and want to see what becomes of that, and fuzz targets for more than a shared machine should give. Eight
// callers of malloc and free in a report instead of 30 take a tenth less time in the sweep of ops.
// ASAN_OPTIONS in the environment still comes first. Without the sanitizer nobody calls it.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=2048:malloc_context_size=8";
}
