// A program that knows nothing of mezzo opens shared libraries at run time and calls what is in them:
// `open_library LIBRARY [FUNCTION]` opens and closes one a hundred times before; `open_library LIBRARY...
// --together FUNCTION` opens several, each of which has a copy of mezzo of its own, and calls the function of
// all at once. FUNCTION takes nothing and returns 0 when all is well.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

using Function = int (*)();

/// The function of a library, called on a thread that ends with the library's objects in it, and here.
int call_twice(void* library, const char* name) {
  const auto function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) return fail("dlsym");
  int of_thread = 1;
  std::thread([&] { of_thread = function(); }).join();
  if (function() == 0 && of_thread == 0) return 0;
  std::fprintf(stderr, "open_library: %s failed\n", name);
  return 1;
}

int open_and_close(const char* path, const char* function) {
  for (int i = 0; i < 100; ++i) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail("dlopen");
    if (dlclose(library) != 0) return fail("dlclose");
  }
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
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
  if (function != nullptr && call_twice(library, function) != 0) return 1;
  return dlclose(library) == 0 ? 0 : fail("dlclose");
}

/// All names are global, so that those of one copy could take the place of another's.
int open_together(const std::vector<const char*>& paths, const char* function) {
  std::vector<void*> libraries;
  std::set<std::string> copies;
  for (const char* path : paths) {
    libraries.push_back(dlopen(path, RTLD_NOW | RTLD_GLOBAL));
    if (libraries.back() == nullptr) return fail("dlopen");
    const auto copy = reinterpret_cast<const char* (*)()>(dlsym(libraries.back(), "mezzo_plugin_library"));
    if (copy == nullptr) return fail("dlsym");
    std::printf("%s calls %s\n", path, copy());
    copies.insert(copy());
  }
  if (copies.size() != paths.size()) {
    std::fprintf(stderr, "open_library: expected each library to call a mezzo of its own\n");
    return 1;
  }
  std::vector<int> results(libraries.size(), 1);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < libraries.size(); ++i)
    threads.emplace_back([&, i] { results[i] = call_twice(libraries[i], function); });
  for (std::thread& thread : threads) thread.join();
  for (const int result : results)
    if (result != 0) return 1;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 3 && std::strcmp(argv[argc - 2], "--together") == 0)
    return open_together({argv + 1, argv + argc - 2}, argv[argc - 1]);
  return open_and_close(argv[1], argc > 2 ? argv[2] : nullptr);
}
