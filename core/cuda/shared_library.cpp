// Opens vendor libraries with dlopen: the file that an environment variable names, or else each known name
// in the loader's path, in CUDA_HOME, in /usr/local/cuda and where CMake found the headers of PyPI's
// packages.
#include "mezzo/core/cuda/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

/// The value of an environment variable; empty when it is not set.
std::string variable_value(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

/// The files to try, in order.
std::vector<std::string> files(const char* variable, std::initializer_list<const char*> names) {
  if (const std::string named = variable_value(variable); !named.empty()) return {named};
  std::vector<std::string> folders{""};
  if (const std::string home = variable_value("CUDA_HOME"); !home.empty())
    folders.push_back(home + "/lib64/");
  folders.emplace_back("/usr/local/cuda/lib64/");
#if defined(MEZZO_WHEEL_FOLDERS)
  folders.insert(folders.end(), {MEZZO_WHEEL_FOLDERS});
#endif
  std::vector<std::string> result;
  for (const std::string_view name : names) {
    for (const std::string& folder : folders) result.push_back(folder + std::string(name));
  }
  return result;
}

}  // namespace

SharedLibrary::SharedLibrary(std::string_view op, const char* variable,
                             std::initializer_list<const char*> names, std::string_view how_to_get) {
  std::string first_error;
  for (const std::string& file : files(variable, names)) {
    name_ = file;
    handle_ = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    const char* const error = dlerror();
    if (first_error.empty() && error != nullptr) first_error = error;
  }
  throw DeviceError(op, std::string("the library ") + *names.begin(), first_error,
                    std::string(how_to_get) + ", or name the file in " + variable);
}

void* SharedLibrary::symbol(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address != nullptr) return address;
  throw DeviceError("cuda", std::string(name) + " in " + name_, "a library without it",
                    "install a newer CUDA toolkit");
}

}  // namespace mezzo::cuda
