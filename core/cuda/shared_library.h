// Vendor libraries, opened when they are first used: a program that links mezzo starts without them, and a
// process that never touches a GPU never pays for loading them (0.3 s and 200 MB for cuBLASLt).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace mezzo::cuda {

/// A shared library that stays open to the end of the process.
class SharedLibrary {
 public:
  /// Opens the file that the environment's `variable` names; if it names none, the first of `names` that is
  /// found: by the system's search (LD_LIBRARY_PATH, ldconfig), then in the toolkit's folder (CUDA_HOME,
  /// /usr/local/cuda). Throws DeviceError that names `op`, the library and how to get it.
  SharedLibrary(std::string_view op, const char* variable, std::initializer_list<const char*> names,
                std::string_view how_to_get);
  /// The address of a function. Throws DeviceError when the library has none of this name.
  [[nodiscard]] void* symbol(const char* name) const;
  /// symbol() as a pointer of the function's type: `decltype(&cublasLtCreate) create = library["..."]`.
  struct Function {
    void* address;
    template <class F>
    operator F*() const noexcept {
      return reinterpret_cast<F*>(address);
    }
  };
  [[nodiscard]] Function operator[](const char* name) const { return {symbol(name)}; }

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace mezzo::cuda
