// The CPU's loops over indexed elements. They wait for memory and not for arithmetic, so there is one variant
// for all instruction sets.
#include "mezzo/kernels/indexing/indexing.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "mezzo/kernels/cpu/parallel.h"

namespace mezzo::kernels::cpu {

namespace {

/// The dims merged where they can be.
template <std::size_t N>
[[nodiscard]] Walk<N> merged(Walk<N> walk) {
  layout::collapse(walk.shape, walk.strides);
  return walk;
}

/// Elements [begin, end) of a walk with merged dims in row-major order, as runs along its last dim:
/// run(offsets, strides, count).
template <std::size_t N, class Run>
MEZZO_ALWAYS_INLINE void for_runs(const Walk<N>& walk, std::int64_t begin, std::int64_t end, const Run& run) {
  const std::size_t rank = walk.shape.size();
  std::array<std::int64_t, N> offsets{}, strides{};
  if (rank == 0) {
    if (begin < end) run(offsets, strides, std::int64_t{1});
    return;
  }
  Dims at(rank, 0);
  std::int64_t rest = begin;
  for (std::size_t d = rank; d-- > 0; rest /= walk.shape[d]) {
    at[d] = rest % walk.shape[d];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += at[d] * walk.strides[k][d];
  }
  const std::size_t last = rank - 1;
  for (std::size_t k = 0; k < N; ++k) strides[k] = walk.strides[k][last];
  while (begin < end) {
    const std::int64_t count = std::min(walk.shape[last] - at[last], end - begin);
    run(offsets, strides, count);
    begin += count;
    at[last] += count;
    for (std::size_t k = 0; k < N; ++k) offsets[k] += count * strides[k];
    for (std::size_t d = last; d > 0 && at[d] == walk.shape[d]; --d) {
      at[d] = 0;
      ++at[d - 1];
      for (std::size_t k = 0; k < N; ++k)
        offsets[k] += walk.strides[k][d - 1] - walk.shape[d] * walk.strides[k][d];
    }
  }
}

/// update(place, element) along a run. Offsets: base, index, source.
template <class T, class Update>
struct PutRun {
  /// Writes wait for one another, so what they need is asked for this many elements ahead where places lie
  /// further apart than the nearest cache reaches.
  static constexpr std::int64_t kAhead = 32, kNear = std::int64_t{1} << 15;
  const Places& places;
  const T* source;
  Update update;
  bool far = places.limit * std::abs(places.step) * std::int64_t{sizeof(T)} > kNear;

  MEZZO_ALWAYS_INLINE void operator()(const std::array<std::int64_t, 3>& at,
                                      const std::array<std::int64_t, 3>& steps, std::int64_t count) const {
    T* const to = static_cast<T*>(places.base.data) + at[0];
    const auto* const index = static_cast<const std::int64_t*>(places.index.data) + at[1];
    const T* const from = source + at[2];
    if (steps[1] != 0) {
      using One = std::integral_constant<std::int64_t, 1>;
      if (steps[0] == 0 && places.step == 1 && steps[1] == 1 && steps[2] == 1)
        each(to, index, from, count, std::integral_constant<std::int64_t, 0>{}, One{}, One{}, One{});
      else
        each(to, index, from, count, steps[0], places.step, steps[1], steps[2]);
    } else if (const std::int64_t i = *index; places.has(i)) {
      T* const there = to + i * places.step;
      if (steps[0] == 1 && steps[2] == 1) {
        for (std::int64_t e = 0; e < count; ++e) update(there[e], from[e]);
      } else {
        for (std::int64_t e = 0; e < count; ++e) update(there[e * steps[0]], from[e * steps[2]]);
      }
    }
  }

 private:
  /// The steps may be constants: vectors are common.
  template <class Along, class Step, class IndexStep, class SourceStep>
  MEZZO_ALWAYS_INLINE void each(T* to, const std::int64_t* index, const T* from, std::int64_t count,
                                Along along, Step step, IndexStep index_step, SourceStep source_step) const {
    const std::int64_t limit = places.limit;
    const auto one = [&](std::int64_t e) {
      const std::int64_t i = index[e * index_step];
      if (i >= 0 && i < limit) update(to[e * along + i * step], from[e * source_step]);
    };
    std::int64_t e = 0;
    for (; far && e + kAhead < count; ++e) {
      const std::int64_t next = index[(e + kAhead) * index_step];
      // An index out of range asks for a place that exists.
      __builtin_prefetch(to + (e + kAhead) * along + (next >= 0 && next < limit ? next : 0) * step, 1);
      one(e);
    }
    for (; e < count; ++e) one(e);
  }
};

/// Lanes, the elements that never meet, are shared by the threads. Few lanes are walked one by one, so that
/// the inner loop is long, and so are lanes whose elements are neighbours; else each step goes over a block
/// of lanes.
template <class T, class Update>
void put_elements(const Places& places, const View& source, const Dims& walked, Update update) {
  constexpr std::int64_t kFewLanes = 16, kLeastLanes = 128, kLanes = 1024, kElements = std::int64_t{1} << 15;
  const std::array<const View*, 3> views{&places.base, &places.index, &source};
  if (layout::numel(source.shape) == 0) return;
  const Walk<3> lanes = merged(part_of(views, walked, false)), steps = merged(part_of(views, walked, true));
  const std::int64_t step_count = layout::numel(steps.shape), lane_count = layout::numel(lanes.shape);
  const PutRun<T, Update> put{places, static_cast<const T*>(source.data), update};
  const bool along_memory = !steps.shape.empty() && steps.strides[2].back() == 1 && step_count >= kFewLanes;
  const bool by_lane = along_memory || lane_count < kFewLanes;
  const std::int64_t grain = std::clamp(kElements / step_count, by_lane ? 1 : kLeastLanes, kLanes);
  const Walk<3>&outer = by_lane ? lanes : steps, &inner = by_lane ? steps : lanes;
  const auto walk = [&](std::int64_t outer_begin, std::int64_t outer_end, std::int64_t begin,
                        std::int64_t end) {
    for_runs(outer, outer_begin, outer_end, [&](const auto& base, const auto& strides, std::int64_t count) {
      for (std::int64_t o = 0; o < count; ++o) {
        for_runs(inner, begin, end, [&](auto at, const auto& steps_of, std::int64_t length) {
          for (std::size_t k = 0; k < 3; ++k) at[k] += base[k] + o * strides[k];
          put(at, steps_of, length);
        });
      }
    });
  };
  parallel_for(lane_count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (by_lane)
      walk(begin, end, 0, step_count);
    else
      walk(0, step_count, begin, end);
  });
}

/// A run of `take`. Offsets: result, base, index.
template <class T>
struct TakeRun {
  T* result;
  const Places& places;

  MEZZO_ALWAYS_INLINE void operator()(const std::array<std::int64_t, 3>& at,
                                      const std::array<std::int64_t, 3>& steps, std::int64_t count) const {
    T* const to = result + at[0];
    const T* const base = static_cast<const T*>(places.base.data) + at[1];
    const auto* const index = static_cast<const std::int64_t*>(places.index.data) + at[2];
    if (steps[2] != 0) {
      const std::int64_t step = places.step, limit = places.limit;  // which a store to T might change
      for (std::int64_t e = 0; e < count; ++e) {
        const std::int64_t i = index[e * steps[2]];
        to[e * steps[0]] = i >= 0 && i < limit ? base[e * steps[1] + i * step] : T{0};
      }
    } else if (!places.has(*index)) {
      for (std::int64_t e = 0; e < count; ++e) to[e * steps[0]] = T{0};
    } else if (const T* const from = base + *index * places.step; steps[0] == 1 && steps[1] == 1) {
      std::copy_n(from, count, to);
    } else {
      for (std::int64_t e = 0; e < count; ++e) to[e * steps[0]] = from[e * steps[1]];
    }
  }
};

}  // namespace

std::int64_t first_wrong_index(const char* /*op*/, const std::int64_t* indices, std::int64_t n,
                               std::int64_t low, std::int64_t limit) {
  std::atomic<bool> any_wrong = false;
  const auto first = static_cast<std::uint64_t>(low), last = static_cast<std::uint64_t>(limit) - 1 - first;
  parallel_for(n, std::int64_t{1} << 16, [&](std::int64_t begin, std::int64_t end) {
    // The signs of two differences say it: every processor has vectors of these, but few have comparisons.
    std::uint64_t wrong = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t above = static_cast<std::uint64_t>(indices[i]) - first;
      wrong |= above | (last - above);
    }
    if ((wrong >> 63) != 0) any_wrong.store(true, std::memory_order_relaxed);
  });
  if (!any_wrong) return -1;
  return std::find_if(indices, indices + n, [&](std::int64_t i) { return i < low || i >= limit; }) - indices;
}

void take(const View& out, const Places& places) {
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  const std::array<const View*, 3> views{&out, &places.base, &places.index};
  const Walk<3> walk = merged(part_of(views, {}, false));
  with_bits(size_of(out.dtype), [&](auto bits) {
    using T = decltype(bits);
    const TakeRun<T> take{static_cast<T*>(out.data), places};
    parallel_for(total, std::int64_t{1} << 15,
                 [&](std::int64_t begin, std::int64_t end) { for_runs(walk, begin, end, take); });
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

void find_index_runs(const std::int64_t* index, const IndexRuns& runs, std::int64_t skip) {
  const auto has = [&](std::int64_t i) { return i >= 0 && i < runs.values && i != skip; };
  for (std::int64_t n = 0; n < runs.count; ++n) {
    if (has(index[n])) ++runs.last[index[n]];
  }
  std::int64_t place = 0;
  for (std::int64_t v = 0; v < runs.values; ++v) {
    if (runs.last[v] == 0) continue;
    const std::int64_t count = runs.last[v];
    runs.first[v] = runs.last[v] = place;
    place += count;
  }
  for (std::int64_t n = 0; n < runs.count; ++n)
    runs.order[has(index[n]) ? runs.last[index[n]]++ : place++] = n;
}

}  // namespace mezzo::kernels::cpu
