// The kernels that read or write elements where an array of indices says (gather, scatter, index and their
// like), and the order that sorts.
//
// Results are the same for any number of threads: two elements that fall on one place are dealt with in
// row-major order. Results are the same on every device, but for floating sums (put_add) of a place that
// kRunPiece elements or more fall on: there a device adds up whole pieces first.
#pragma once

#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/indexing/places.h"

namespace mezzo::kernels {

/// The position of the first of `n` indices outside of [low, limit), or -1. On a CUDA device the host does
/// not wait: the result is -1, and a wrong index becomes a fault of the device that names `op` (a string that
/// lives forever; see core/cuda/fault.h).
MEZZO_KERNEL(first_wrong_index, std::int64_t(const char* op, const std::int64_t* indices, std::int64_t n,
                                             std::int64_t low, std::int64_t limit));

/// out[e] = the element at place e; 0 where its index is out of range. `out` has the places' shape and the
/// array's dtype.
MEZZO_KERNEL(take, void(const View& out, const Places& places));

/// The element at place e = source[e], one after the other; indices out of range are left out. `source` has
/// the places' shape and the array's dtype. `walked` lists the dims along which two elements may fall on one
/// place: there the index alone decides (base has stride 0), and all others must lead to different places.
MEZZO_KERNEL(put, void(const Places& places, const View& source, const Dims& walked));
/// put, but source[e] is added to what is there. Both arrays have the same dtype: f32, f64 or i64.
MEZZO_KERNEL(put_add, void(const Places& places, const View& source, const Dims& walked));
/// put, but the place becomes its product with source[e], or the larger or smaller of both.
MEZZO_KERNEL(put_combined, void(const Places& places, const View& source, const Dims& walked, Combine how));

/// runs.order = the positions in `index`, runs.count of them, sorted by the value there, equal values in
/// order. The positions of value v are at [first[v], last[v]) of it; first and last hold zeros before, and
/// keep them for values without positions. `skip` and values out of range come last and are in no run.
MEZZO_KERNEL(find_index_runs, void(const std::int64_t* index, const IndexRuns& runs, std::int64_t skip));

/// indices (i64) = positions along `dim` in the order that sorts `in`, as many of the first as `indices` has
/// along it; its other sizes are `in`'s. Equal elements keep their order, NaN counts as the largest.
MEZZO_KERNEL(sorting_order, void(const View& indices, const View& in, std::size_t dim, bool descending));

}  // namespace mezzo::kernels
