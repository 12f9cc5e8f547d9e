// Stands in for the CUDA toolkit's header of the same name when kernels are compiled as plain C++
// (MEZZO_CUDA_EMULATED). It has CUDA's names and signatures for what mezzo uses, and no more: what is missing
// here is not to be used in kernels without thought. Control over the emulation itself is in
// emulated_cuda/control.h.
#pragma once

#include "emulated_cuda/api.h"
#include "emulated_cuda/atomics.h"
#include "emulated_cuda/device.h"
#include "emulated_cuda/launch.h"
#include "emulated_cuda/matrix.h"
#include "emulated_cuda/types.h"
#include "emulated_cuda/warp.h"

#define CUDART_VERSION 13000
