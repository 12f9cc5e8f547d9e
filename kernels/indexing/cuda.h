// What kernels/indexing/indexing.h does on a CUDA device.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/kernels/indexing/places.h"

namespace mezzo::kernels::cuda {

/// The host does not learn the result: an index out of range becomes a fault of the device.
void check_indices(Device device, const char* op, const std::int64_t* indices, std::int64_t n,
                   std::int64_t low, std::int64_t limit);
void take(Device device, const View& out, const Places& places);
void put(Device device, const Places& places, const View& source, const Dims& walked);
void put_add(Device device, const Places& places, const View& source, const Dims& walked);
void put_combined(Device device, const Places& places, const View& source, const Dims& walked, Combine how);
void find_index_runs(Device device, const std::int64_t* index, const IndexRuns& runs, std::int64_t skip);
void sorting_order(Device device, const View& indices, const View& in, std::size_t dim, bool descending);

}  // namespace mezzo::kernels::cuda
