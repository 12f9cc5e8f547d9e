// What kernels/resample/grid_sample.h does on a CUDA device.
#pragma once

#include "mezzo/kernels/resample/grid_sample.h"

namespace mezzo::kernels::cuda {

void grid_sample(Device device, const GridSampleShape& shape, const View& out, const View& x,
                 const View& grid, DType compute);
void grid_sample_input_gradient(Device device, const GridSampleShape& shape, const View& out,
                                const View& grad, const View& grid, DType compute);
void grid_sample_grid_gradient(Device device, const GridSampleShape& shape, const View& out, const View& grad,
                               const View& x, const View& grid, DType compute);

}  // namespace mezzo::kernels::cuda
