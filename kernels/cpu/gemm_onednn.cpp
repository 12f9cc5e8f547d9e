// oneDNN's f32 product as a tile engine. dnnl_sgemm is used, and not the matmul primitive: it is the same in
// oneDNN 2 and 3, needs no primitive cache, and was measured as fast. Empty in a build without oneDNN.
#include "mezzo/kernels/cpu/gemm_tile.h"

#ifdef MEZZO_HAVE_ONEDNN

#include <dnnl.h>

#include <string>

#include "mezzo/core/error.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mezzo::kernels::cpu {
namespace {

/// Keeps oneDNN on the calling thread: it would start OpenMP threads of its own outside a parallel region,
/// and split the product differently for every number of them.
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

}  // namespace

void gemm_onednn_f32(const GemmTile<float>& tile) {
  const OneThread one_thread;
  const dnnl_status_t status =
      dnnl_sgemm(tile.a_transposed ? 'T' : 'N', tile.b_transposed ? 'T' : 'N', tile.m, tile.n, tile.k,
                 tile.alpha, tile.a, tile.lda, tile.b, tile.ldb, tile.beta, tile.c, tile.ldc);
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory) {
    throw OutOfMemoryError("dnnl_sgemm", "memory for its packed panels", "none",
                           "free memory or set MEZZO_CPU_GEMM=eigen");
  }
  throw Error("dnnl_sgemm", "status 0", "status " + std::to_string(static_cast<int>(status)),
              "set MEZZO_CPU_GEMM=eigen and report this");
}

std::string gemm_onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace mezzo::kernels::cpu

#endif  // MEZZO_HAVE_ONEDNN
