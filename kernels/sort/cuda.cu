// The order that sorts rows of values on a CUDA device.
#include "mezzo/kernels/sort/cuda.h"

#include "mezzo/kernels/indexing/indexing.h"

namespace mezzo::kernels::cuda {

namespace {

/// Elements of strided rows as entries. Arrays of `rows`: indices, values.
template <class T, class Entry>
struct LoadValues {
  Array in;
  std::int64_t step;
  Space<2> rows;
  bool descending;
  [[nodiscard]] __device__ Entry operator()(std::int64_t row, std::int64_t place) const {
    std::int64_t at[2];
    rows.offsets(row, at);
    const T value = load<T>(in.data, in.dtype, at[1] + place * step);
    return {sort_key<typename Entry::Key>(value, descending), place};
  }
};

}  // namespace

void sorting_order(Device device, const View& indices, const View& in, std::size_t dim, bool descending) {
  if (layout::numel(indices.shape) == 0) return;
  const std::array<const View*, 2> views{&indices, &in};
  const Walk<2> walk = part_of(views, {static_cast<std::int64_t>(dim)}, false);
  const Space<2> rows(walk.shape, walk.strides);
  const std::int64_t n = in.shape[dim];
  with_entries(in.dtype, n, [&]<class T, class Entry>(TypeTag<T> /*type*/, TypeTag<Entry> /*entry*/) {
    const LoadValues<T, Entry> values{{in.data, in.dtype}, in.strides[dim], rows, descending};
    const SortTarget<Entry> target{.length = indices.shape[dim],
                                   .positions = static_cast<std::int64_t*>(indices.data),
                                   .step = indices.strides[dim],
                                   .rows = rows};
    sort_rows<Entry>(device, values, rows.total(), n, target);
  });
}

}  // namespace mezzo::kernels::cuda
