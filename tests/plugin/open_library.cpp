// A program that knows nothing of mezzo opens a shared library at run time, a hundred times, and then calls
// what is in it: `open_library LIBRARY [FUNCTION]`. FUNCTION takes nothing and returns 0 when all is well.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <thread>

namespace {

// Bytes of thread-local memory of libmezzo, which the system takes from a reserve of about 1,600 for all
// libraries.
int thread_local_bytes(dl_phdr_info* info, std::size_t /*size*/, void* result) {
  if (std::strstr(info->dlpi_name, "libmezzo.so") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_TLS) *static_cast<std::size_t*>(result) = info->dlpi_phdr[i].p_memsz;
  }
  return 0;
}

int fail(const char* what) {
  std::fprintf(stderr, "open_library: %s: %s\n", what, dlerror());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int i = 0; i < 100; ++i) {
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail("dlopen");
    if (dlclose(library) != 0) return fail("dlclose");
  }
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail("dlopen");
  std::size_t bytes = 0;
  dl_iterate_phdr(thread_local_bytes, &bytes);
  std::printf("libmezzo has %zu bytes of thread-local memory\n", bytes);
#ifdef MEZZO_FIXED_THREAD_LOCALS
  if (bytes == 0 || bytes > 256) {
    std::fprintf(stderr, "open_library: expected at most 256; hold what is larger as a PerThread\n");
    return 1;
  }
#endif
  if (argc < 3) return 0;
  const auto function = reinterpret_cast<int (*)()>(dlsym(library, argv[2]));
  if (function == nullptr) return fail("dlsym");
  int of_thread = 1;
  std::thread([&] { of_thread = function(); }).join();  // which ends with the library's objects in it
  if (function() != 0 || of_thread != 0) {
    std::fprintf(stderr, "open_library: %s failed\n", argv[2]);
    return 1;
  }
  return dlclose(library) == 0 ? 0 : fail("dlclose");
}
