// What mezzo's uses of oneDNN have in common. Included by the .cpp files that call it, in builds that have
// it.
#pragma once

#include <dlfcn.h>

#include <dnnl.hpp>

namespace mezzo::kernels::cpu {

/// Keeps oneDNN on the calling thread: it would start threads of OpenMP, and split the work differently for
/// every number of them. Which OpenMP that is oneDNN's builder chose, so it is looked up among what the
/// process has loaded.
class OneThread {
 public:
  OneThread() : before_(openmp().get != nullptr && openmp().set != nullptr ? openmp().get() : 1) {
    if (before_ > 1) openmp().set(1);
  }
  ~OneThread() {
    if (before_ > 1) openmp().set(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  /// The calling thread's setting.
  struct OpenMp {
    int (*get)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    void (*set)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  };
  static const OpenMp& openmp() {
    static const OpenMp there;
    return there;
  }

  int before_;
};

inline const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace mezzo::kernels::cpu
