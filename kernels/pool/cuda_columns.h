// What kernels/pool/columns.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/pool/columns.h"

namespace mezzo::kernels::cuda {

void unfold(Device device, std::int64_t planes, const Windows& windows, const View& columns, const View& x);
void fold(Device device, std::int64_t planes, const Windows& windows, const View& x, const View& columns);

}  // namespace mezzo::kernels::cuda
