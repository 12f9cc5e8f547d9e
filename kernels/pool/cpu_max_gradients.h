// The gradient of the largest elements over planes (cpu_planes.h) on the CPU: each place gathers it from the
// windows over it, in their order, where adding element by element takes one at a time.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_max_planes.h"
#include "mezzo/kernels/pool/cpu_planes.h"

namespace mezzo::kernels::cpu::detail {

/// Rows [first, first + count) of the gradient of a plane, which `dx` begins with; `grad` and `indices` begin
/// with row `top` of the windows.
struct MaxGradientBlock {
  float* dx;
  std::int64_t first, count;
  const float* grad;
  const std::int64_t* indices;
  std::int64_t top;
};

/// Whether all indices so far are places of their windows, as those of max_pool are. A gradient that is
/// gathered would lose others.
class IndexCheck {
 public:
  MEZZO_ALWAYS_INLINE explicit IndexCheck(const PlaneWindows& w) : last_(w.in_h * w.in_w - 1) {}
  /// `at`: see narrow_indices. Lanes from `count` on are windows of other rows, which are not compared with
  /// their places. A window that goes beyond a side of the image is looked at by look_at_sides.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE void look(const std::int64_t* indices, const std::int32_t* at, std::int64_t count,
                                const PlaneWindows& w) {
    const auto lanes = static_cast<std::int32_t>(count < kLanes ? count : kLanes);
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) wrong_[j] |= indices[j] | (last_ - indices[j]);
    std::int32_t outside[kLanes];
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) outside[j] = j < lanes ? -1 : 0;
    const auto width = static_cast<std::uint32_t>(w.kernel_w);
    for (std::int64_t r = 0; r < w.kernel_h; ++r) {
      const auto row = static_cast<std::int32_t>(r * w.in_w);
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) outside[j] &= static_cast<std::uint32_t>(at[j] - row) < width ? 0 : -1;
    }
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) outside_[j] |= outside[j];
  }
  /// The windows of row `o` whose columns go beyond a side.
  MEZZO_ALWAYS_INLINE void look_at_sides(const std::int64_t* indices, std::int64_t o, const PlaneWindows& w) {
    const PlaceRange rows = w.rows(o);
    for (std::int64_t i = 0; i < w.out_w; ++i) {
      const std::int64_t start = i * w.stride_w - w.padding_w;
      if (start >= 0 && start + w.kernel_w <= w.in_w) {
        i = std::max(i, (w.in_w + w.padding_w - w.kernel_w) / w.stride_w);  // the last that does not
        continue;
      }
      const PlaceRange places = w.places(i);
      const std::int64_t row = indices[i] / w.in_w, place = indices[i] % w.in_w;
      const bool inside =
          row >= rows.first && row < rows.last && place >= places.first && place < places.last;
      outside_[0] |= inside ? 0 : -1;
    }
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE bool sound() const {
    std::int64_t all = 0;
    for (const std::int64_t one : wrong_) all |= one;
    for (const std::int32_t one : outside_) all |= one;
    return all >= 0;
  }

 private:
  std::int64_t last_;
  std::int64_t wrong_[kMostLanes<float>] = {};    ///< negative where one was no place
  std::int32_t outside_[kMostLanes<float>] = {};  ///< negative where one was not in its window
};

/// to[j] = indices[j] - first - j * step: where an index is in its window, whose first place that is.
template <int kLanes>
MEZZO_ALWAYS_INLINE void narrow_indices(const std::int64_t* indices, std::int64_t first, std::int64_t step,
                                        std::int32_t* to) {
  const auto start = static_cast<std::int32_t>(first), distance = static_cast<std::int32_t>(step);
  MEZZO_KEEP_LOOP
  for (int j = 0; j < kLanes; ++j)
    to[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(indices[j])) - start - j * distance;
}

/// The gradient of planes that are all_in_pairs(). Whole windows, so pairs of rows.
struct MaxGradientOfPairs {
  static bool run(MaxGradientBlock block, PlaneWindows w) {
    IndexCheck check(w);
    for (std::int64_t i = 0; i < block.count; i += 2) {
      const std::int64_t from = i / 2 * w.out_w, place = (block.first + i) * w.in_w;
      float* const upper = block.dx + i * w.in_w;
      float* const lower = upper + w.in_w;
      // Into rows that come later; a second group would find the first one's lower row overwritten.
      const bool beyond =
          w.out_w <= kMostLanes<float> && (block.count / 2 - 1 - i / 2) * w.out_w >= kMostLanes<float>;
      each_group<kMostLanes<float>>(
          w.out_w, beyond, MEZZO_GROUP_STEP(p) {
            std::int32_t at[kLanes];
            narrow_indices<kLanes>(block.indices + from + p, place + 2 * p, 2, at);
            check.look<kLanes>(block.indices + from + p, at, w.out_w - p, w);
            spread<kLanes>(at, 0, block.grad + from + p, upper + 2 * p);
            spread<kLanes>(at, static_cast<std::int32_t>(w.in_w), block.grad + from + p, lower + 2 * p);
          });
    }
    return check.sound();
  }

 private:
  /// The places of each window from `place` on: 0 is added, as sums begin with it.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void spread(const std::int32_t* at, std::int32_t place, const float* grad,
                                         float* dx) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) {
      dx[2 * j] = (at[j] == place ? grad[j] : 0.0F) + 0.0F;
      dx[2 * j + 1] = (at[j] == place + 1 ? grad[j] : 0.0F) + 0.0F;
    }
  }
};

/// The gradient of row-major planes with windows 1 or 2 places apart. `at` and `grads` are rows_kept() rows
/// of pitch() elements, in which windows follow on before() that do not exist, whose index is -1. Both end
/// with kMostLanes elements that are read and not used.
class MaxGradientOfPlane {
 public:
  [[nodiscard]] static std::int64_t rows_kept(const PlaneWindows& w) {
    return (w.kernel_h - 1) / w.stride_h + 1;
  }
  [[nodiscard]] static std::int64_t pitch(const PlaneWindows& w) {
    const std::int64_t places = (w.in_w + w.padding_w) / w.stride_w + 1;
    return before(w) + std::max(w.out_w, places);
  }
  static bool run(MaxGradientBlock block, PlaneWindows w, std::int32_t* at, float* grads) {
    const std::int64_t kept = rows_kept(w), size = pitch(w);
    IndexCheck check(w);
    Rows rows{at + before(w), grads + before(w), kept * size, size, {}, 0, 0};
    PlaceRange over = w.rows_over(block.first);
    std::int64_t known = block.top, slot = 0, first_slot = 0;
    for (std::int64_t i = 0; i < block.count; ++i) {
      const std::int64_t padded = block.first + i + w.padding_h;
      while (over.first < w.out_h && over.first * w.stride_h + w.kernel_h <= padded) {
        ++over.first;
        first_slot = first_slot + size < rows.end ? first_slot + size : 0;
      }
      while (over.last < w.out_h && over.last * w.stride_h <= padded) ++over.last;
      for (; known < over.last; ++known) {
        const std::int64_t from = (known - block.top) * w.out_w;
        const std::int64_t start = (known * w.stride_h - w.padding_h) * w.in_w - w.padding_w;
        keep(block, from, start, w, rows.at + slot, rows.grads + slot, check);
        check.look_at_sides(block.indices + from, known, w);
        slot = slot + size < rows.end ? slot + size : 0;
      }
      rows.over = over;
      rows.slot = first_slot;
      rows.below = (padded - over.first * w.stride_h) * w.in_w;
      add_up(rows, w, block.dx + i * w.in_w, (block.count - 1 - i) * w.in_w >= 2 * kMostLanes<float>);
    }
    return check.sound();
  }

 private:
  /// The rows of windows over a row of the gradient, in a ring.
  struct Rows {
    std::int32_t* at;
    float* grads;
    std::int64_t end, pitch;
    PlaceRange over;
    std::int64_t slot;   ///< where the first one is
    std::int64_t below;  ///< places from where it begins to the row of the gradient
  };
  [[nodiscard]] static MEZZO_ALWAYS_INLINE std::int64_t before(const PlaneWindows& w) {
    return (w.kernel_w - 1) / w.stride_w;
  }
  /// A row of windows with its gradient.
  MEZZO_ALWAYS_INLINE static void keep(const MaxGradientBlock& block, std::int64_t from, std::int64_t start,
                                       const PlaneWindows& w, std::int32_t* at, float* grads,
                                       IndexCheck& check) {
    each_group<kMostLanes<float>>(
        w.out_w, false, MEZZO_GROUP_STEP(o) {
          const std::int64_t* const indices = block.indices + from + o;
          narrow_indices<kLanes>(indices, start + o * w.stride_w, w.stride_w, at + o);
          check.look<kLanes>(indices, at + o, w.out_w - o, w);
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j) grads[o + j] = block.grad[from + o + j];
        });
  }
  /// A row of the gradient. With `beyond` it may go on into the next ones.
  MEZZO_ALWAYS_INLINE static void add_up(const Rows& rows, const PlaneWindows& w, float* dx, bool beyond) {
    if (w.stride_w == 1) {
      each_group<kMostLanes<float>>(
          w.in_w, beyond, MEZZO_GROUP_STEP(p) {
            float sum[kLanes];
            add_windows<kLanes, 1>(rows, w, p, sum);
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) dx[p + j] = sum[j] + 0.0F;
          });
      return;
    }
    each_group<kMostLanes<float>>(
        w.in_w / 2, beyond, MEZZO_GROUP_STEP(p) {
          float even[kLanes], odd[kLanes];
          add_windows<kLanes, 2>(rows, w, 2 * p, even);
          add_windows<kLanes, 2>(rows, w, 2 * p + 1, odd);
          MEZZO_KEEP_LOOP
          for (int j = 0; j < kLanes; ++j) {
            dx[2 * (p + j)] = even[j] + 0.0F;
            dx[2 * (p + j) + 1] = odd[j] + 0.0F;
          }
        });
    if (w.in_w % 2 == 0) return;
    float last[1];
    add_windows<1, 2>(rows, w, w.in_w - 1, last);
    dx[w.in_w - 1] = last[0] + 0.0F;
  }
  /// The sum over the windows over places p, p + kStride, ...; -0 instead of 0, see kFirstPlace.
  template <int kLanes, int kStride>
  MEZZO_ALWAYS_INLINE static void add_windows(const Rows& rows, const PlaneWindows& w, std::int64_t p,
                                              float* sum) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) sum[j] = -0.0F;
    const std::int64_t newest = (p + w.padding_w) / kStride, position = (p + w.padding_w) % kStride;
    const std::int64_t before_newest = (w.kernel_w - 1 - position) / kStride;
    std::int64_t slot = rows.slot, below = rows.below + position;
    for (std::int64_t r = rows.over.first; r < rows.over.last; ++r) {
      for (std::int64_t k = w.kernel_w > position ? before_newest : -1; k >= 0; --k) {
        const std::int32_t* const at = rows.at + slot + newest - k;
        const float* const grads = rows.grads + slot + newest - k;
        const auto place = static_cast<std::int32_t>(below + k * kStride);
        MEZZO_KEEP_LOOP
        for (int j = 0; j < kLanes; ++j) sum[j] += at[j] == place ? grads[j] : 0.0F;
      }
      slot = slot + rows.pitch < rows.end ? slot + rows.pitch : 0;
      below -= w.stride_h * w.in_w;
    }
  }
};

}  // namespace mezzo::kernels::cpu::detail
