// Which places a result of interpolate is made of, along one dim, and with which weights; and the reverse,
// which results a place takes part in. Once for the CPU's tables and the CUDA kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// How values between places are made, in each dim alike.
enum class Resampling : std::uint8_t { nearest, nearest_exact, linear, cubic };

/// Sizes of a dim before and after. `factor` is the scale factor that decides where results lie, or 0: then
/// the sizes do.
struct ResampledDim {
  std::int64_t in = 1, out = 1;
  double factor = 0;
};

/// The places that one result is made of, lowest first, and their weights.
template <class T>
struct Taps {
  static constexpr int kMost = 4;
  std::int64_t at[kMost];
  T weight[kMost];
};

/// Results [first, last).
struct Readers {
  std::int64_t first, last;
};

/// One dim. T is the type in which places are computed, as in PyTorch: float, but double for f64.
template <class T>
class Resampler {
 public:
  Resampler() = default;
  Resampler(Resampling kind, const ResampledDim& dim, bool align_corners)
      : in_(dim.in), out_(dim.out), kind_(kind), aligned_(align_corners) {
    if (aligned_)
      scale_ = out_ > 1 ? static_cast<T>(in_ - 1) / static_cast<T>(out_ - 1) : T(0);
    else
      scale_ = dim.factor > 0 ? static_cast<T>(1.0 / dim.factor) : static_cast<T>(in_) / static_cast<T>(out_);
    // PyTorch copies too where sizes are equal, whatever the factor.
    if (kind_ == Resampling::linear && in_ == out_) kind_ = Resampling::nearest, scale_ = T(1);
  }

  [[nodiscard]] MEZZO_HD std::int64_t in() const { return in_; }
  [[nodiscard]] MEZZO_HD std::int64_t out() const { return out_; }
  /// Places of every result.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE int count() const {
    if (kind_ == Resampling::cubic) return 4;
    return kind_ == Resampling::linear ? 2 : 1;
  }

  /// The first count() are set. kTerms: count() at most, where that is known.
  template <int kTerms = Taps<T>::kMost>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Taps<T> taps_of(std::int64_t o) const {
    Taps<T> taps{};
    const T place = position(o), below = std::floor(place);
    const std::int64_t low = static_cast<std::int64_t>(below);
    if constexpr (kTerms == Taps<T>::kMost) {
      if (kind_ == Resampling::cubic) {
        cubic_weights(place - below, taps.weight);
        for (int k = 0; k < Taps<T>::kMost; ++k) taps.at[k] = inside(low - 1 + k);
        return taps;
      }
    }
    taps.at[0] = inside(low);
    taps.weight[0] = T(1);
    if (kind_ != Resampling::linear) return taps;
    const T above = place - static_cast<T>(taps.at[0]);
    taps.weight[1] = above < T(1) ? above : T(1);
    taps.weight[0] = T(1) - taps.weight[1];
    taps.at[1] = inside(taps.at[0] + 1);
    return taps;
  }

  /// The results that place i has a part in: taps rise with the result, so they are neighbours.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Readers readers(std::int64_t i) const {
    const int highest = count() - 1;
    return {first_beyond(i - 1, highest), first_beyond(i, 0)};
  }
  /// The weight of place i in result o: at the ends, several taps may be one place. kTerms: as for taps_of.
  template <int kTerms = Taps<T>::kMost>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T weight_of(std::int64_t o, std::int64_t i) const {
    const Taps<T> taps = taps_of<kTerms>(o);
    const int terms = count();
    T weight = T(0);
    // No loop to count(): a GPU holds what is indexed by constants alone in registers.
    for (int k = 0; k < kTerms; ++k) {
      if (k < terms && taps.at[k] == i) weight += taps.weight[k];
    }
    return weight;
  }

 private:
  /// Where result o lies among the places.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T position(std::int64_t o) const {
    const T at = static_cast<T>(o);
    if (kind_ == Resampling::nearest) return scale_ * at;
    if (kind_ == Resampling::nearest_exact) return scale_ * (at + T(0.5));
    if (aligned_) return scale_ * at;
    const T place = scale_ * (at + T(0.5)) - T(0.5);
    return kind_ == Resampling::linear && place < T(0) ? T(0) : place;
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t inside(std::int64_t i) const {
    if (i < 0) return 0;
    return i < in_ ? i : in_ - 1;
  }
  /// The first result whose tap k lies beyond place i. The search begins at near_position() and takes a step
  /// or two, as only rounding leads away from there.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t first_beyond(std::int64_t i, int k) const {
    if (i < 0) return 0;
    if (i >= in_ - 1) return out_;
    std::int64_t o = near_position(static_cast<T>(i - tap_offset(k) + 1));
    while (o > 0 && is_beyond(o - 1, k, i)) --o;
    while (o < out_ && !is_beyond(o, k, i)) ++o;
    return o;
  }
  /// Where tap k lies, counted from the place below a result.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE int tap_offset(int k) const {
    return kind_ == Resampling::cubic ? k - 1 : k;
  }
  /// Whether tap k of result o lies beyond place i, of [0, in - 1).
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE bool is_beyond(std::int64_t o, int k, std::int64_t i) const {
    return static_cast<std::int64_t>(std::floor(position(o))) + tap_offset(k) > i;
  }
  /// A result whose position is about `place`.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t near_position(T place) const {
    const T shift = T(0.5);
    const bool is_nearest = kind_ == Resampling::nearest || kind_ == Resampling::nearest_exact;
    T o = (is_nearest || aligned_ ? place : place + shift) / scale_;
    if (kind_ != Resampling::nearest && !aligned_) o -= shift;
    if (!(o > T(0))) return 0;
    return o < static_cast<T>(out_) ? static_cast<std::int64_t>(o) : out_;
  }
  /// Keys' cubic convolution with a = -0.75; t in [0, 1) is the distance from the second place.
  MEZZO_HD MEZZO_ALWAYS_INLINE static void cubic_weights(T t, T* weight) {
    const T a = T(-0.75), u = T(1) - t;
    weight[0] = outer_weight(a, t + T(1));
    weight[1] = inner_weight(a, t);
    weight[2] = inner_weight(a, u);
    weight[3] = outer_weight(a, u + T(1));
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static T inner_weight(T a, T x) {
    return ((a + T(2)) * x - (a + T(3))) * x * x + T(1);
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static T outer_weight(T a, T x) {
    return ((a * x - T(5) * a) * x + T(8) * a) * x - T(4) * a;
  }

  std::int64_t in_ = 1, out_ = 1;
  T scale_ = T(1);
  Resampling kind_ = Resampling::nearest;
  bool aligned_ = false;
};

}  // namespace mezzo::kernels
