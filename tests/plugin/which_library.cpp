// Which copy of the library a plugin calls: `mezzo_plugin_library` gives its file, so that two copies in one
// process can be told apart.
#include <dlfcn.h>

#include "mezzo/core/threads.h"

extern "C" const char* mezzo_plugin_library() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&mezzo::set_num_threads), &info) != 0 ? info.dli_fname : "";
}
