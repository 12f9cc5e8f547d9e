// What kernels/indexing/indexing.h does on the CPU.
#pragma once

#include "mezzo/kernels/indexing/places.h"

namespace mezzo::kernels::cpu {

[[nodiscard]] std::int64_t first_wrong_index(const std::int64_t* indices, std::int64_t n, std::int64_t low,
                                             std::int64_t limit);
void take(const View& out, const Places& places);
void put(const Places& places, const View& source, const Dims& walked);
void put_add(const Places& places, const View& source, const Dims& walked);
void put_combined(const Places& places, const View& source, const Dims& walked, Combine how);
void find_index_runs(const std::int64_t* index, const IndexRuns& runs, std::int64_t skip);
void sorting_order(const View& indices, const View& in, std::size_t dim, bool descending);

}  // namespace mezzo::kernels::cpu
