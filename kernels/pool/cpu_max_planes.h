// The loops of the CPU's largest elements over planes (cpu_planes.h): all places of a group of windows are
// compared in registers, and values and indices written once. 16-bit elements are compared as they are.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_planes.h"

namespace mezzo::kernels::cpu::detail {

/// The largest so far, and its place. NaN counts as larger than all before it, other NaNs too.
template <class T, class I>
MEZZO_ALWAYS_INLINE void take_larger(T value, I place, T& best, I& at) {
  const T old = best;
  const bool take = (value > old) | (value != value);
  best = take ? value : old;
  at = take ? place : at;
}

/// -inf as it stands in arrays of f32, or of a 16-bit floating type.
[[nodiscard]] MEZZO_ALWAYS_INLINE float lowest_of(float infinity) { return -infinity; }
[[nodiscard]] MEZZO_ALWAYS_INLINE std::int16_t lowest_of(std::int16_t infinity) {
  return static_cast<std::int16_t>(infinity | std::numeric_limits<std::int16_t>::min());
}

/// Groups of elements of T are as wide as two vectors of AVX2 at most.
template <class T>
inline constexpr int kMostLanes = 64 / sizeof(T);

/// The largest so far of kLanes neighbouring windows, and where it is. Places are counted from kFirstPlace on
/// in a window. (Not from 0: the compilers make a memset of that, in stores too narrow for the loads that
/// follow.)
template <class T, int kLanes>
struct Largest;
inline constexpr int kFirstPlace = 1;

/// Of f32.
template <int kLanes>
struct Largest<float, kLanes> {
  using Place = std::int32_t;
  float best[kLanes];
  Place at[kLanes];

  MEZZO_ALWAYS_INLINE void begin(int j, float value, Place place) {
    best[j] = value;
    at[j] = place;
  }
  MEZZO_ALWAYS_INLINE void take(int j, float value, Place place) {
    take_larger(value, place, best[j], at[j]);
  }
  MEZZO_ALWAYS_INLINE void store(float* y, float* /*seen*/) const {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) y[j] = best[j];
  }
};

/// Of a 16-bit floating type. They are compared as whole numbers, the magnitude with its sign, so that both
/// zeros are equal; this is no order for NaN, which `seen` finds.
template <int kLanes>
struct Largest<std::int16_t, kLanes> {
  using Place = std::int16_t;
  std::int16_t best[kLanes], bits[kLanes], magnitudes[kLanes];
  Place at[kLanes];

  MEZZO_ALWAYS_INLINE static std::int16_t magnitude(std::int16_t value) {
    return static_cast<std::int16_t>(value & 0x7fff);
  }
  MEZZO_ALWAYS_INLINE static std::int16_t number(std::int16_t value) {
    const auto sign = static_cast<std::int16_t>(value >> 15);
    return static_cast<std::int16_t>((magnitude(value) ^ sign) - sign);
  }
  MEZZO_ALWAYS_INLINE void begin(int j, std::int16_t value, Place place) {
    best[j] = number(value);
    bits[j] = value;
    magnitudes[j] = magnitude(value);
    at[j] = place;
  }
  MEZZO_ALWAYS_INLINE void take(int j, std::int16_t value, Place place) {
    const std::int16_t old = best[j], most = magnitudes[j], compared = number(value);
    const bool take = compared > old;
    best[j] = take ? compared : old;
    bits[j] = take ? value : bits[j];
    at[j] = take ? place : at[j];
    magnitudes[j] = magnitude(value) > most ? magnitude(value) : most;
  }
  /// `seen` goes on with the largest magnitudes.
  MEZZO_ALWAYS_INLINE void store(std::int16_t* y, std::int16_t* seen) const {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) {
      const std::int16_t old = seen[j];
      y[j] = bits[j];
      seen[j] = magnitudes[j] > old ? magnitudes[j] : old;
    }
  }
};

/// Where the results of a group of windows go.
template <class T>
struct MaxResults {
  T* y;
  std::int64_t* indices;
  T seen[kMostLanes<T>] = {};  ///< see Largest

  /// From element `to` on. All windows are one place's, `first` is their first place.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE void store(const Largest<T, kLanes>& found, std::int64_t to, std::int64_t first) {
    found.store(y + to, seen);
    store_places(found.at, indices + to, first);
  }
  /// The same for windows along a row, whose first places are `step` apart.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE void store(const Largest<T, kLanes>& found, std::int64_t to, std::int64_t first,
                                 std::int64_t step) {
    using Place = typename Largest<T, kLanes>::Place;
    Place places[kLanes];
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j)
      places[j] = static_cast<Place>(found.at[j] + static_cast<Place>(j) * static_cast<Place>(step));
    found.store(y + to, seen);
    store_places(places, indices + to, first);
  }
  /// Whether all values were compared rightly.
  [[nodiscard]] MEZZO_ALWAYS_INLINE bool sound(T infinity) const {
    T most = 0;
    for (const T magnitude : seen) most = magnitude > most ? magnitude : most;
    return most <= infinity;
  }

 private:
  template <class Place, int kLanes>
  MEZZO_ALWAYS_INLINE static void store_places(const Place (&places)[kLanes], std::int64_t* to,
                                               std::int64_t first) {
    const std::int64_t before = first - kFirstPlace;
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) to[j] = before + places[j];
  }
};

/// Rows [first, first + count) of the results of a plane; `x` is row `top` of the input, and `y` and
/// `indices` begin with row `first`. `infinity` is that of T as it stands in the arrays. The loops return
/// false where 16-bit values have NaN among them: then the results are not right.
template <class T>
struct MaxBlock {
  const T* x;
  std::int64_t top;
  T* y;
  std::int64_t* indices;
  std::int64_t first, count;
  T infinity;
};

/// Channels-last planes.
template <class T>
struct MaxOfChannels {
  static bool run(MaxBlock<T> block, PlaneWindows w) {
    const std::int64_t row = w.in_w * w.inner;
    MaxResults<T> results{block.y, block.indices};
    for (std::int64_t o = 0; o < block.count; ++o) {
      const PlaceRange rows = w.rows(block.first + o);
      for (std::int64_t p = 0; p < w.out_w; ++p) {
        const PlaceRange places = w.places(p);
        const T* const from = block.x + (rows.first - block.top) * row + places.first * w.inner;
        const std::int64_t to = (o * w.out_w + p) * w.inner, place = rows.first * w.in_w + places.first;
        each_group<kMostLanes<T>>(
            w.inner, false, MEZZO_GROUP_STEP(c) {
              Largest<T, kLanes> found;
              MEZZO_KEEP_LOOP
              for (int j = 0; j < kLanes; ++j) found.begin(j, lowest_of(block.infinity), kFirstPlace);
              for (std::int64_t r = 0; r < rows.count(); ++r) {
                for (std::int64_t i = 0; i < places.count(); ++i)
                  take(found, from + r * row + i * w.inner + c, kFirstPlace + r * w.in_w + i);
              }
              results.store(found, to + c, place);
            });
      }
    }
    return results.sound(block.infinity);
  }

 private:
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void take(Largest<T, kLanes>& found, const T* x, std::int64_t at) {
    const auto place = static_cast<typename Largest<T, kLanes>::Place>(at);
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) found.take(j, x[j], place);
  }
};

/// Row-major planes, windows in_pairs().
template <class T>
struct MaxOfPairs {
  static bool run(MaxBlock<T> block, PlaneWindows w) {
    MaxResults<T> results{block.y, block.indices};
    const std::int64_t width = w.in_w;
    for (std::int64_t o = 0; o < block.count; ++o) {
      const T* const upper = block.x + 2 * o * width;
      const T* const lower = upper + width;
      const std::int64_t to = o * w.out_w, place = 2 * (block.first + o) * width;
      // Into rows that come later.
      const bool beyond = (block.count - 1 - o) * w.out_w >= kMostLanes<T>;
      each_group<kMostLanes<T>>(
          w.out_w, beyond, MEZZO_GROUP_STEP(p) {
            using Place = typename Largest<T, kLanes>::Place;
            const auto below = static_cast<Place>(kFirstPlace + width);
            Largest<T, kLanes> found;
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) {
              found.begin(j, upper[2 * (p + j)], kFirstPlace);
              found.take(j, upper[2 * (p + j) + 1], kFirstPlace + 1);
            }
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) {
              found.take(j, lower[2 * (p + j)], below);
              found.take(j, lower[2 * (p + j) + 1], static_cast<Place>(below + 1));
            }
            results.store(found, to + p, place + 2 * p, 2);
          });
    }
    return results.sound(block.infinity);
  }
};

/// Row-major planes. `memory` is as many rows as a window has (PhasedRow), with -inf where there is no place,
/// and kMostLanes elements that are read and not used.
template <class T>
struct MaxOfPlane {
  static bool run(MaxBlock<T> block, PlaneWindows w, PhasedRow phased, T* memory) {
    MaxResults<T> results{block.y, block.indices};
    std::int64_t known = block.top;
    for (std::int64_t o = 0; o < block.count; ++o) {
      const PlaceRange rows = w.rows(block.first + o);
      for (known = std::max(known, rows.first); known < rows.last; ++known)
        spread(block.x + (known - block.top) * w.in_w, memory + known % w.kernel_h * phased.size(), phased);
      const std::int64_t to = o * w.out_w, place = rows.first * w.in_w - w.padding_w;
      const bool beyond = (block.count - 1 - o) * w.out_w >= kMostLanes<T>;  // into rows that come later
      each_group<kMostLanes<T>>(
          w.out_w, beyond, MEZZO_GROUP_STEP(p) {
            Largest<T, kLanes> found;
            start(found, block.infinity, w, p);
            for (std::int64_t r = rows.first; r < rows.last; ++r) {
              const T* const row = memory + r % w.kernel_h * phased.size() + p;
              std::int64_t at = kFirstPlace + (r - rows.first) * w.in_w, left = w.kernel_w;
              for (std::int64_t q = 0; left > 0; ++q) {
                for (std::int64_t phase = 0; phase < phased.stride && left > 0; ++phase, --left, ++at) {
                  const auto here = static_cast<typename Largest<T, kLanes>::Place>(at);
                  const T* const x = row + phase * phased.pitch + q;
                  MEZZO_KEEP_LOOP
                  for (int j = 0; j < kLanes; ++j) found.take(j, x[j], here);
                }
              }
            }
            results.store(found, to + p, place + w.stride_w * p, w.stride_w);
          });
    }
    return results.sound(block.infinity);
  }

 private:
  /// -inf, at the first place of each window that is in the input, where a window may begin in the padding.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void start(Largest<T, kLanes>& found, T infinity, const PlaneWindows& w,
                                        std::int64_t p) {
    using Place = typename Largest<T, kLanes>::Place;
    const auto outside = static_cast<Place>(std::max<std::int64_t>(w.padding_w - w.stride_w * p, 0));
    const auto step = static_cast<Place>(w.stride_w);
    const T least = lowest_of(infinity);
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) {
      const auto left = static_cast<Place>(outside - static_cast<Place>(j) * step);
      found.begin(j, least, static_cast<Place>(kFirstPlace + (left > 0 ? left : Place{0})));
    }
  }
  MEZZO_ALWAYS_INLINE static void spread(const T* x, T* to, const PhasedRow& phased) {
    if (phased.stride == 2) {
      T *const even = to + phased.start(0), *const odd = to + phased.start(1);
      const std::int64_t pairs = std::min(phased.count(0), phased.count(1));
      each_group<kMostLanes<T>>(
          pairs, false, MEZZO_GROUP_STEP(i) {
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) {
              even[i + j] = x[2 * (i + j)];
              odd[i + j] = x[2 * (i + j) + 1];
            }
          });
      if (phased.count(0) > pairs) even[pairs] = x[2 * pairs];
      return;
    }
    for (std::int64_t phase = 0; phase < phased.stride; ++phase) {
      T* const run = to + phased.start(phase);
      for (std::int64_t i = 0; i < phased.count(phase); ++i) run[i] = x[phase + i * phased.stride];
    }
  }
};

}  // namespace mezzo::kernels::cpu::detail
