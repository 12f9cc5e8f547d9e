// The CPU's loops over indexed elements. They wait for memory and not for arithmetic, so there is one variant
// for all instruction sets.
#include "mezzo/kernels/cpu/indexing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"

namespace mezzo::kernels::cpu {

namespace {

/// Walks a shape in row-major order and knows the offsets of N arrays on the way.
template <std::size_t N>
class Odometer {
 public:
  Odometer(const Walk<N>& walk, std::int64_t begin) : walk_(walk), at_(walk.shape.size(), 0) {
    for (std::size_t d = at_.size(); d-- > 0;) {
      at_[d] = begin % walk.shape[d];
      begin /= walk.shape[d];
      for (std::size_t k = 0; k < N; ++k) offsets_[k] += at_[d] * walk.strides[k][d];
    }
  }
  [[nodiscard]] std::int64_t operator[](std::size_t k) const { return offsets_[k]; }
  void next() {
    for (std::size_t d = at_.size(); d-- > 0;) {
      const bool wraps = ++at_[d] == walk_.shape[d];
      const std::int64_t steps = wraps ? 1 - walk_.shape[d] : 1;
      for (std::size_t k = 0; k < N; ++k) offsets_[k] += steps * walk_.strides[k][d];
      if (!wraps) return;
      at_[d] = 0;
    }
  }

 private:
  const Walk<N>& walk_;
  Dims at_;
  std::array<std::int64_t, N> offsets_{};
};

/// The dims merged where they can be.
template <std::size_t N>
[[nodiscard]] Walk<N> merged(Walk<N> walk) {
  layout::collapse(walk.shape, walk.strides);
  return walk;
}

/// Lanes, the elements that never meet, are shared by the threads; each block of lanes walks the rest.
template <class T, class Update>
void put_elements(const Places& places, const View& source, const Dims& walked, Update update) {
  constexpr std::int64_t kLanes = 512;
  const std::array<const View*, 3> views{&places.base, &places.index, &source};
  if (layout::numel(source.shape) == 0) return;
  const Walk<3> lanes = merged(part_of(views, walked, false)), steps = merged(part_of(views, walked, true));
  const std::int64_t step_count = layout::numel(steps.shape);
  T* const base = static_cast<T*>(places.base.data);
  const auto* const index = static_cast<const std::int64_t*>(places.index.data);
  const T* const from = static_cast<const T*>(source.data);
  parallel_for(layout::numel(lanes.shape), kLanes, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::array<std::int64_t, 3>, kLanes> offsets;
    Odometer<3> lane(lanes, begin);
    for (std::int64_t l = begin; l < end; ++l, lane.next()) {
      offsets[static_cast<std::size_t>(l - begin)] = {lane[0], lane[1], lane[2]};
    }
    Odometer<3> step(steps, 0);
    for (std::int64_t s = 0; s < step_count; ++s, step.next()) {
      for (std::size_t l = 0; l < static_cast<std::size_t>(end - begin); ++l) {
        const std::int64_t i = index[offsets[l][1] + step[1]];
        if (places.has(i))
          update(base[offsets[l][0] + step[0] + i * places.step], from[offsets[l][2] + step[2]]);
      }
    }
  });
}

}  // namespace

std::int64_t first_wrong_index(const std::int64_t* indices, std::int64_t n, std::int64_t low,
                               std::int64_t limit) {
  const auto* const found =
      std::find_if(indices, indices + n, [&](std::int64_t i) { return i < low || i >= limit; });
  return found == indices + n ? -1 : found - indices;
}

void take(const View& out, const Places& places) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  const std::array<const View*, 3> views{&out, &places.base, &places.index};
  const Walk<3> walk = merged(part_of(views, {}, false));
  const auto* const index = static_cast<const std::int64_t*>(places.index.data);
  with_bits(size_of(out.dtype), [&](auto bits) {
    using T = decltype(bits);
    T* const to = static_cast<T*>(out.data);
    const T* const base = static_cast<const T*>(places.base.data);
    parallel_for(total, std::int64_t{1} << 15, [&](std::int64_t begin, std::int64_t end) {
      Odometer<3> at(walk, begin);
      for (std::int64_t e = begin; e < end; ++e, at.next()) {
        const std::int64_t i = index[at[2]];
        to[at[0]] = places.has(i) ? base[at[1] + i * places.step] : T{0};
      }
    });
  });
}

void put(const Places& places, const View& source, const Dims& walked) {
  with_bits(size_of(source.dtype),
            [&](auto bits) { put_elements<decltype(bits)>(places, source, walked, AssignTo{}); });
}

void put_add(const Places& places, const View& source, const Dims& walked) {
  dispatch_compute(source.dtype,
                   [&]<class T>(TypeTag<T>) { put_elements<T>(places, source, walked, AddTo{}); });
}

void put_combined(const Places& places, const View& source, const Dims& walked, Combine how) {
  with_combine(how, [&](auto update) {
    dispatch_compute(source.dtype,
                     [&]<class T>(TypeTag<T>) { put_elements<T>(places, source, walked, update); });
  });
}

void sorting_order(const View& indices, const View& in, std::size_t dim, bool descending) {
  const std::int64_t n = in.shape[dim], wanted = indices.shape[dim];
  if (layout::numel(indices.shape) == 0) return;
  const Walk<2> lanes =
      part_of(std::array<const View*, 2>{&indices, &in}, {static_cast<std::int64_t>(dim)}, false);
  auto* const result = static_cast<std::int64_t*>(indices.data);
  const auto* const base = static_cast<const std::byte*>(in.data);
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / n);
  dispatch_compute(in.dtype, [&]<class T>(TypeTag<T>) {
    parallel_for(layout::numel(lanes.shape), grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> values(static_cast<std::size_t>(n));
      std::vector<std::int64_t> order(static_cast<std::size_t>(n));
      const auto before = [&](std::int64_t a, std::int64_t b) {
        return sorts_before(values[static_cast<std::size_t>(a)], a, values[static_cast<std::size_t>(b)], b,
                            descending);
      };
      Odometer<2> lane(lanes, begin);
      for (std::int64_t l = begin; l < end; ++l, lane.next()) {
        gather(base + lane[1] * size_of(in.dtype), in.dtype, in.strides[dim], values.data(), dtype_of<T>, n);
        std::iota(order.begin(), order.end(), std::int64_t{0});
        // No two positions are equal in this order, so either algorithm is stable.
        if (wanted < n)
          std::partial_sort(order.begin(), order.begin() + wanted, order.end(), before);
        else
          std::sort(order.begin(), order.end(), before);
        for (std::int64_t i = 0; i < wanted; ++i)
          result[lane[0] + i * indices.strides[dim]] = order[static_cast<std::size_t>(i)];
      }
    });
  });
}

}  // namespace mezzo::kernels::cpu
