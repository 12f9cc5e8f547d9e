// unfold and fold on the CPU; see kernels/pool/columns.h.
#pragma once

#include "mezzo/kernels/pool/columns.h"

namespace mezzo::kernels::cpu {

void unfold(std::int64_t planes, const Windows& windows, const View& columns, const View& x);
void fold(std::int64_t planes, const Windows& windows, const View& x, const View& columns);

}  // namespace mezzo::kernels::cpu
