// Writing and adding where indices say, on a CUDA device, with the bits of the CPU. Kernels that write keep
// for each place the last position whose element falls on it, and write that element. Kernels that add, and
// those that write to few of very many places, sort the indices first, stable, so that one thread deals with
// all elements of a place, in row-major order: no atomics. Of a place that many elements fall on, threads of
// their own combine whole pieces of the run first.
#include "mezzo/core/cuda/check.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/indexing/cuda_elements.h"
#include "mezzo/kernels/indexing/indexing.h"
#include "mezzo/kernels/sort/cuda.h"

namespace mezzo::kernels::cuda {

namespace {

/// Steps up to which a thread walks all of them: as many loads as a tile of the sort takes barriers, and one
/// launch instead of two.
constexpr std::int64_t kFewSteps = 64;

/// A thread per lane. Arrays of the spaces: base, index, source.
template <class T, class Update>
__global__ void put_few(Elements<T> to, const T* source, Space<3> lanes, Space<3> steps, Update update) {
  const std::int64_t total = lanes.total(), step_count = steps.total();
  for (std::int64_t l = first_index(); l < total; l += grid_size()) {
    std::int64_t lane[3];
    lanes.offsets(l, lane);
    for (std::int64_t s = 0; s < step_count; ++s) {
      std::int64_t at[3];
      steps.offsets(s, at);
      const std::int64_t i = to.index[lane[1] + at[1]];
      if (to.has(i)) update(to.base[lane[0] + i * to.step], source[lane[2] + at[2]]);
    }
  }
}

/// The dims of a source: those along which two elements may fall on one place, those along which lanes have
/// indices of their own, and those along which they share them.
struct PutDims {
  Dims walked, own, shared;
  PutDims(const Places& places, const Dims& those_walked) : walked(those_walked) {
    for (std::size_t d = 0; d < places.index.shape.size(); ++d) {
      const auto dim = static_cast<std::int64_t>(d);
      if (!walked.contains(dim)) (places.index.strides[d] == 0 ? shared : own).push_back(dim);
    }
  }
};

/// Writing goes without a sort where there are at most so many places per element: a number is kept for each.
constexpr std::int64_t kMostPlaces = 4;
/// Positions are kept as 1 and above in 32 bits.
constexpr std::int64_t kMostPositions = UINT32_MAX - 1;

/// Numbers of elements along the dims in `counted`, in row-major order and times `step`, as strides.
[[nodiscard]] Dims numbering(const Shape& shape, const Dims& counted, std::int64_t step) {
  Dims strides(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (!counted.contains(static_cast<std::int64_t>(d))) continue;
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

/// A thread per index. Arrays: indices, the row's places in `last`, positions. Backwards, so that most
/// threads find a later position there already, and need no atomic operation.
__global__ void find_last(const std::int64_t* index, std::int64_t limit, std::uint32_t* last,
                          Space<3> space) {
  const std::int64_t total = space.total();
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    std::int64_t at[3];
    space.offsets(total - 1 - e, at);
    const std::int64_t i = index[at[0]];
    const auto position = static_cast<std::uint32_t>(at[2] + 1);
    if (i >= 0 && i < limit && last[at[1] + i] < position) atomicMax(last + at[1] + i, position);
  }
}
/// A thread per element. Arrays: base, indices, source, the row's places in `last`, positions.
template <class T>
__global__ void put_if_last(Elements<T> to, const T* source, const std::uint32_t* last, Space<5> space) {
  for (std::int64_t e = first_index(); e < space.total(); e += grid_size()) {
    std::int64_t at[5];
    space.offsets(e, at);
    const std::int64_t i = to.index[at[1]];
    if (to.has(i) && last[at[3] + i] == static_cast<std::uint32_t>(at[4] + 1))
      to.base[at[0] + i * to.step] = source[at[2]];
  }
}

/// `views`: base, index, source. `kept`: places in all rows.
template <class T>
void put_last(Device device, const Elements<T>& to, const T* source, const std::array<const View*, 3>& views,
              const PutDims& dims, std::int64_t kept) {
  if (kept == 0) return;  // no index is in range
  const std::int64_t bytes = kept * std::int64_t{sizeof(std::uint32_t)};
  const Scratch memory(device, bytes);
  auto* const last = static_cast<std::uint32_t*>(memory.data());
  mezzo::cuda::check(cudaMemsetAsync(last, 0, static_cast<std::size_t>(bytes),
                                     mezzo::cuda::native(mezzo::cuda::current_stream(device))),
                     "cudaMemsetAsync");
  Shape shape = views[2]->shape;
  const View rows{nullptr, DType::i64, shape, numbering(shape, dims.own, to.limit)};
  const View positions{nullptr, DType::i64, shape, numbering(shape, dims.walked, 1)};
  Walk<3> indices = part_of<3>({views[1], &rows, &positions}, dims.shared, false);
  layout::order_along(indices.shape, indices.strides, 0);
  const Space<3> each_index = space_of(indices);
  start_resident(device, each_index.total(), find_last, to.index, to.limit, last, each_index);
  std::array<Dims, 5> strides{views[0]->strides, views[1]->strides, views[2]->strides, rows.strides,
                              positions.strides};
  layout::order_along(shape, strides, 2);
  const Space<5> each_element(shape, strides);
  start_resident(device, each_element.total(), put_if_last<T>, to, source, last, each_element);
}

/// Indices as entries: one out of range, or `skip`, gets the last key, which no index has that is in range.
/// Rows and places in them: the only array is the indices.
template <class Entry>
struct LoadIndices {
  using Key = typename Entry::Key;
  static constexpr Key kNone = ~Key{0};
  const std::int64_t* index;
  std::int64_t limit, skip;
  Space<1> rows, places;
  [[nodiscard]] __device__ Entry operator()(std::int64_t row, std::int64_t place) const {
    const std::int64_t i = index[rows.offset(row) + places.offset(place)];
    return {i >= 0 && i < limit && i != skip ? static_cast<Key>(i) : kNone, place};
  }
};
/// Calls f(TypeTag<Entry>{}) with the smallest entry for `n` indices below `limit`.
template <class F>
void with_index_entries(std::int64_t limit, std::int64_t n, const F& f) {
  constexpr std::int64_t kMost = ShortEntry::kMostPositions;
  if (limit <= kMost && n < kMost)
    f(TypeTag<ShortEntry>{});
  else
    f(TypeTag<LongEntry>{});
}

/// The input of the kernels below: rows of `n` sorted entries, each for as many lanes as share its indices;
/// and what pieces of runs come to, [rows, piece_slots(n), lanes].
template <class T, class Entry>
struct SortedPut {
  Elements<T> to;
  const T* source;
  const Entry* entries;
  T* pieces;
  std::int64_t n;
  Space<2> rows, lanes;  ///< base, source
  Space<1> steps;        ///< source

  /// The source's element of an entry of a lane that begins at `lane`.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE T element(const T* lane, const Entry& entry) const {
    return lane[steps.offset(entry.at())];
  }
};

/// The first of n sorted entries whose key is at least `key`.
template <class Entry>
[[nodiscard]] __device__ std::int64_t first_entry_from(const Entry* entries, std::int64_t n,
                                                       typename Entry::Key key) {
  std::int64_t low = 0, high = n;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (entries[middle].key() < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// A thread per slot of a piece (see kRunPiece) and lane.
template <class T, class Entry, class Update>
__global__ void put_pieces(SortedPut<T, Entry> put, Update update) {
  const std::int64_t lane_count = put.lanes.total(), slots = piece_slots(put.n);
  const std::int64_t total = put.rows.total() * slots * lane_count;
  for (std::int64_t t = first_index(); t < total; t += grid_size()) {
    const std::int64_t at = quotient(t, lane_count), r = quotient(at, slots), slot = at - r * slots;
    const Entry* const entries = put.entries + r * put.n;
    const std::int64_t witness = piece_witness(slot), half = kRunPiece / 2;
    const auto key = entries[witness].key();
    if (key == LoadIndices<Entry>::kNone) continue;
    // A piece reaches half its length to one side of the witness: without that there is nothing to search.
    const bool before = entries[witness - half].key() == key;
    if (!before && (witness + half >= put.n || entries[witness + half].key() != key)) continue;
    const std::int64_t begin = piece_begin(slot, first_entry_from(entries, put.n, key), put.n);
    if (begin < 0 || entries[begin + kRunPiece - 1].key() != key) continue;
    std::int64_t row[2], lane[2];
    put.rows.offsets(r, row);
    put.lanes.offsets(t - at * lane_count, lane);
    const T* const source = put.source + row[1] + lane[1];
    T value = put.element(source, entries[begin]);
    for (std::int64_t k = begin + 1; k < begin + kRunPiece; ++k)
      update(value, put.element(source, entries[k]));
    put.pieces[t] = value;
  }
}

/// A thread per entry and lane: the thread of the first entry of an index adds all its entries, in order;
/// where entries replace one another, the thread of the last entry writes.
template <class T, class Entry, class Update>
__global__ void put_runs(SortedPut<T, Entry> put, Update update) {
  constexpr bool kReplaces = std::is_same_v<Update, AssignTo>;
  const std::int64_t lane_count = put.lanes.total(), total = put.rows.total() * put.n * lane_count;
  for (std::int64_t t = first_index(); t < total; t += grid_size()) {
    const std::int64_t entry = quotient(t, lane_count), r = quotient(entry, put.n), e = entry - r * put.n;
    const Entry* const entries = put.entries + r * put.n;
    const auto key = entries[e].key();
    const std::int64_t neighbour = kReplaces ? e + 1 : e - 1;
    if (key == LoadIndices<Entry>::kNone) continue;
    if (neighbour >= 0 && neighbour < put.n && entries[neighbour].key() == key) continue;
    std::int64_t row[2], lane[2];
    const std::int64_t l = t - entry * lane_count;
    put.rows.offsets(r, row);
    put.lanes.offsets(l, lane);
    const T* const source = put.source + row[1] + lane[1];
    T* const place = put.to.base + row[0] + lane[0] + static_cast<std::int64_t>(key) * put.to.step;
    T value = *place;
    std::int64_t k = e;
    if constexpr (Update::kInPieces) {
      if (e + kRunPiece <= put.n && entries[e + kRunPiece - 1].key() == key) {
        const std::int64_t end = first_entry_from(entries, put.n, static_cast<decltype(key)>(key + 1));
        const T* const pieces = put.pieces + r * piece_slots(put.n) * lane_count + l;
        for (; k + kRunPiece <= end; k += kRunPiece) update(value, pieces[piece_slot(k) * lane_count]);
      }
    }
    for (; k < put.n && entries[k].key() == key; ++k) update(value, put.element(source, entries[k]));
    *place = value;
  }
}

/// Of three arrays two, or one.
[[nodiscard]] Space<2> base_and_source(const Walk<3>& walk) {
  return {walk.shape, {walk.strides[0], walk.strides[2]}};
}
[[nodiscard]] Space<1> only(const Walk<3>& walk, std::size_t k) { return {walk.shape, {walk.strides[k]}}; }

template <class T, class Entry, class Update>
void launch_sorted_put(Device device, SortedPut<T, Entry> put, Update update) {
  const std::int64_t lanes = put.rows.total() * put.lanes.total();
  const std::int64_t pieces = Update::kInPieces ? lanes * piece_slots(put.n) : 0;
  const Scratch memory(device, pieces * std::int64_t{sizeof(T)});
  put.pieces = static_cast<T*>(memory.data());
  if constexpr (Update::kInPieces) {
    start_resident(device, pieces, put_pieces<T, Entry, Update>, put, update);
  }
  start_resident(device, lanes * put.n, put_runs<T, Entry, Update>, put, update);
}

template <class T, class Update>
void launch_put(Device device, const Places& places, const View& source, const Dims& walked, Update update) {
  if (layout::numel(source.shape) == 0) return;
  const std::array<const View*, 3> views{&places.base, &places.index, &source};
  const Elements<T> to = elements_of<T>(places);
  const T* const from = static_cast<const T*>(source.data);
  const Walk<3> steps = part_of(views, walked, true);
  const std::int64_t n = layout::numel(steps.shape);
  if (n <= kFewSteps) {
    const Space<3> lanes = space_of(part_of(views, walked, false));
    return start_resident(device, lanes.total(), put_few<T, Update>, to, from, lanes, space_of(steps),
                          update);
  }
  const PutDims dims(places, walked);
  const Walk<3> rows = part_of(views, dims.own, true), lanes = part_of(views, dims.shared, true);
  const std::int64_t row_count = layout::numel(rows.shape);
  if constexpr (std::is_same_v<Update, AssignTo>) {
    if (to.limit / kMostPlaces <= n && n <= kMostPositions)
      return put_last(device, to, from, views, dims, row_count * to.limit);
  }
  with_index_entries(to.limit, n, [&]<class Entry>(TypeTag<Entry> /*entry*/) {
    const Scratch sorted(device, row_count * n * std::int64_t{sizeof(Entry)});
    auto* const entries = static_cast<Entry*>(sorted.data());
    const LoadIndices<Entry> load{to.index, to.limit, -1, only(rows, 1), only(steps, 1)};
    sort_rows<Entry>(device, load, row_count, n, {.entries = entries, .length = n});
    launch_sorted_put(device,
                      SortedPut<T, Entry>{to, from, entries, nullptr, n, base_and_source(rows),
                                          base_and_source(lanes), only(steps, 2)},
                      update);
  });
}

/// A thread per sorted entry: its position, and the ends of its run.
template <class Entry>
__global__ void store_runs(const Entry* entries, std::int64_t n, std::int64_t* order, std::int64_t* first,
                           std::int64_t* last) {
  for (std::int64_t e = first_index(); e < n; e += grid_size()) {
    const auto key = entries[e].key();
    order[e] = entries[e].at();
    if (key == LoadIndices<Entry>::kNone) continue;
    if (e == 0 || entries[e - 1].key() != key) first[key] = e;
    if (e + 1 == n || entries[e + 1].key() != key) last[key] = e + 1;
  }
}

}  // namespace

void put(Device device, const Places& places, const View& source, const Dims& walked) {
  with_bits(size_of(source.dtype),
            [&](auto bits) { launch_put<decltype(bits)>(device, places, source, walked, AssignTo{}); });
}

void put_add(Device device, const Places& places, const View& source, const Dims& walked) {
  dispatch_compute(source.dtype,
                   [&]<class T>(TypeTag<T>) { launch_put<T>(device, places, source, walked, AddTo{}); });
}

void put_combined(Device device, const Places& places, const View& source, const Dims& walked, Combine how) {
  with_combine(how, [&](auto update) {
    dispatch_compute(source.dtype,
                     [&]<class T>(TypeTag<T>) { launch_put<T>(device, places, source, walked, update); });
  });
}

void find_index_runs(Device device, const std::int64_t* index, const IndexRuns& runs, std::int64_t skip) {
  if (runs.count == 0) return;
  with_index_entries(runs.values, runs.count, [&]<class Entry>(TypeTag<Entry> /*entry*/) {
    const Scratch sorted(device, runs.count * std::int64_t{sizeof(Entry)});
    auto* const entries = static_cast<Entry*>(sorted.data());
    const LoadIndices<Entry> load{index, runs.values, skip, {}, Space<1>({runs.count}, {Dims{1}})};
    sort_rows<Entry>(device, load, 1, runs.count, {.entries = entries, .length = runs.count});
    start_resident(device, runs.count, store_runs<Entry>, entries, runs.count, runs.order, runs.first,
                   runs.last);
  });
}

}  // namespace mezzo::kernels::cuda
