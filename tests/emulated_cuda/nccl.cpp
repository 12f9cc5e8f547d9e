// Counters and settings of the emulated NCCL, one object per process. Its functions are in nccl/.
#include "emulated_cuda/nccl.h"

namespace emulated_cuda {

Nccl& nccl() {
  static Nccl state;
  return state;
}

}  // namespace emulated_cuda
