// Counters and settings of the emulated cuDNN, one object per process. Its functions are in dnn/.
#include "emulated_cuda/dnn.h"

namespace emulated_cuda {

DnnState& dnn() {
  static DnnState state;
  return state;
}

}  // namespace emulated_cuda
