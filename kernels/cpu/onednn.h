// What mezzo's uses of oneDNN have in common. Included by the .cpp files that call it, in builds that have
// it.
#pragma once

#include <dnnl.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mezzo::kernels::cpu {

/// Keeps oneDNN on the calling thread: it would start OpenMP threads of its own outside a parallel region,
/// and split the work differently for every number of them.
class OneThread {
 public:
#ifdef _OPENMP
  OneThread() : before_(omp_in_parallel() != 0 ? 1 : omp_get_max_threads()) {
    if (before_ > 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) omp_set_num_threads(before_);
  }

 private:
  int before_;

 public:
#else
  OneThread() {}
#endif
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

inline const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace mezzo::kernels::cpu
