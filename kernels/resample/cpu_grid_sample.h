// What kernels/resample/grid_sample.h does on the CPU.
#pragma once

#include "mezzo/kernels/resample/grid_sample.h"

namespace mezzo::kernels::cpu {

void grid_sample(const GridSampleShape& shape, const View& out, const View& x, const View& grid,
                 DType compute);
void grid_sample_input_gradient(const GridSampleShape& shape, const View& out, const View& grad,
                                const View& grid, DType compute);
void grid_sample_grid_gradient(const GridSampleShape& shape, const View& out, const View& grad, const View& x,
                               const View& grid, DType compute);

}  // namespace mezzo::kernels::cpu
