// The scalar pieces of attention, once for CPU loops and CUDA kernels: the step of the online softmax, and
// which weights dropout keeps.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "mezzo/core/host_device.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels {

/// The number that is subtracted from scores before the exponential: the largest score, in backward
/// logsumexp. 0 where that is -inf: then all scores are -inf, and exp(-inf - 0) gives weights of 0.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T attention_shift(T largest) {
  return largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
}

/// Weights as powers of e, for scores as they are.
template <class T>
struct PowersOfE {
  static constexpr T kLogOfE = 1;  ///< the unit of scores
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE T of(T x) { return math::exp(x); }
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE T of_nonpositive(T x) { return math::exp_nonpositive(x); }
};

/// The softmax of one query's scores, piece by piece: the sum of exp(score - shift()) over the pieces so far.
/// A NaN among the scores makes the sum NaN and with it everything that comes of it. Source: Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018. Scores are in the unit of Powers.
template <class T, class Powers = PowersOfE<T>>
struct OnlineSoftmax {
  T largest = -std::numeric_limits<T>::infinity();
  T sum = 0;

  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T shift() const { return attention_shift(largest); }
  /// Takes in the largest score of the next piece. Returns the factor by which `sum`, which it scales, and
  /// all else that was added up so far belongs to the new shift; then the piece's exp(score - shift()) can be
  /// added to both.
  MEZZO_HD MEZZO_ALWAYS_INLINE T advance(T largest_of_piece) {
    const T before = largest;
    largest = largest_of_piece > largest ? largest_of_piece : largest;
    const T factor = Powers::of_nonpositive(before - shift());
    sum = sum * factor;
    return factor;
  }
  /// 1 / sum; 0 for a query without keys.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T inverse() const { return sum == T(0) ? T(0) : T(1) / sum; }
  /// In powers of e; -inf for a query without keys.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T logsumexp() const {
    return sum == T(0) ? -std::numeric_limits<T>::infinity() : shift() / Powers::kLogOfE + math::log(sum);
  }
};

/// The random words that decide which weights dropout keeps: weight i has word i % 4 of block i / 4, and is
/// kept where the word is below keep_threshold(p), as in random_mask (ops/random.h).
class AttentionWords {
 public:
  /// Two numbers, readable where this runs: key and stream of the Philox sequence.
  MEZZO_HD MEZZO_ALWAYS_INLINE explicit AttentionWords(const std::int64_t* seed)
      : key_(philox_key(static_cast<std::uint64_t>(seed[0]))), stream_(static_cast<std::uint64_t>(seed[1])) {}

  /// The words of weights 4 block to 4 block + 3.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PhiloxBlock operator()(std::int64_t block) const {
    return Philox{}(philox_counter(static_cast<std::uint64_t>(block), stream_), key_);
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::uint32_t of(std::int64_t weight) const {
    return (*this)(weight / 4)[static_cast<int>(weight % 4)];
  }

 private:
  PhiloxKey key_;
  std::uint64_t stream_;
};

/// In [0, 2^32].
[[nodiscard]] inline std::uint64_t keep_threshold(double dropout_p) {
  return static_cast<std::uint64_t>(std::llround((1 - dropout_p) * 0x1p32));
}
/// The factor of a weight that dropout keeps.
[[nodiscard]] inline double keep_factor(double dropout_p) { return dropout_p < 1 ? 1 / (1 - dropout_p) : 0; }

}  // namespace mezzo::kernels
