// Poolings on the CPU; see kernels/pool/pool.h.
#pragma once

#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

void max_pool(const Pooling& pooling, const View& y, std::int64_t* indices, const View& x);
[[nodiscard]] std::int64_t max_pool_backward(const Pooling& pooling, const View& dx, const View& grad,
                                             const std::int64_t* indices);
void average_pool(const AveragePooling& pooling, const View& y, const View& x);
void average_pool_backward(const AveragePooling& pooling, const View& dx, const View& grad);

}  // namespace mezzo::kernels::cpu
