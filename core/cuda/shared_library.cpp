#include "mezzo/core/cuda/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

std::vector<std::string> folders() {
  std::vector<std::string> result{""};
  const char* const home = std::getenv("CUDA_HOME");
  if (home != nullptr && *home != '\0') result.push_back(std::string(home) + "/lib64/");
  result.emplace_back("/usr/local/cuda/lib64/");
  return result;
}

}  // namespace

SharedLibrary::SharedLibrary(std::string_view op, std::initializer_list<const char*> names,
                             std::string_view how_to_get) {
  std::string first_error;
  for (const char* const name : names) {
    for (const std::string& folder : folders()) {
      name_ = folder + name;
      handle_ = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* const error = dlerror();
      if (first_error.empty() && error != nullptr) first_error = error;
    }
  }
  throw DeviceError(op, std::string("the library ") + *names.begin(), first_error, how_to_get);
}

void* SharedLibrary::symbol(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address != nullptr) return address;
  throw DeviceError("cuda", std::string(name) + " in " + name_, "a library without it",
                    "install a newer CUDA toolkit");
}

}  // namespace mezzo::cuda
