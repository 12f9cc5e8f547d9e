// Channel norms of channels-last arrays whose channels are whole packs: a thread has a pack of four channels
// of one piece of a column (Pieces in cuda_channel_rows.h) and takes eight places at a time, so that eight
// loads are in flight. A thread writes the moments of a piece where the other kernels of cuda_channel_rows.h
// expect them.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cuda/register_row.h"
#include "mezzo/kernels/math/float_parts.h"
#include "mezzo/kernels/norm/cuda_channel_rows.h"

namespace mezzo::kernels::cuda {

/// Places of a column that a thread takes at once.
inline constexpr int kPlaces = 8;

/// The pieces of a channels-last array, four columns at a time.
struct ColumnPacks {
  Pieces pieces;
  [[nodiscard]] MEZZO_HD std::int64_t across() const { return pieces.columns / kPack; }
  [[nodiscard]] MEZZO_HD std::int64_t total() const { return pieces.total() / kPack; }
};

/// The columns of one thread, with the pieces first() to first() + 3.
class ColumnPack {
 public:
  __device__ ColumnPack(const ColumnPacks& all, std::int64_t index)
      : all_(all),
        first_(index * kPack),
        start_(index / all.across() * all.pieces.length * all.across() + index % all.across()) {}

  [[nodiscard]] __device__ std::int64_t first() const { return first_; }

  /// f(begin, count) for the places of the piece, at most kPlaces at a time.
  template <class F>
  __device__ MEZZO_ALWAYS_INLINE void each(const F& f) const {
    const std::int64_t length = all_.pieces.length;
    MEZZO_KEEP_DEVICE_LOOP
    for (std::int64_t begin = 0; begin < length; begin += kPlaces)
      f(begin, length - begin < kPlaces ? static_cast<int>(length - begin) : kPlaces);
  }
  /// Places begin to begin + count - 1 of the columns; zeros behind them.
  __device__ MEZZO_ALWAYS_INLINE void load(const Array& from, std::int64_t begin, int count,
                                           float (&values)[kPlaces][kPack]) const {
    with_narrow(from.dtype, [&](auto stored) {
      using S = decltype(stored);
      constexpr int kWords = kPack * static_cast<int>(sizeof(S)) / 4;
      const S* next = static_cast<const S*>(from.data) + kPack * (start_ + begin * all_.across());
      std::uint32_t words[kPlaces][kPack] = {};
      const bool aligned = is_aligned<S>(from.data);
      MEZZO_UNROLL
      for (int i = 0; i < kPlaces; ++i) {
        if (i < count) {
          const RawWords<kWords> raw =
              aligned ? *reinterpret_cast<const RawWords<kWords>*>(next) : one_by_one(next);
          MEZZO_UNROLL
          for (int w = 0; w < kWords; ++w) words[i][w] = raw.words[w];
        }
        next += all_.pieces.columns;
      }
      MEZZO_UNROLL
      for (int i = 0; i < kPlaces; ++i) detail::widen<S>(words[i], values[i]);
    });
  }
  /// The reverse, each element rounded once.
  __device__ MEZZO_ALWAYS_INLINE void store(const Array& to, std::int64_t begin, int count,
                                            const float (&values)[kPlaces][kPack]) const {
    with_narrow(to.dtype, [&](auto stored) {
      using S = decltype(stored);
      constexpr int kWords = kPack * static_cast<int>(sizeof(S)) / 4;
      S* next = static_cast<S*>(to.data) + kPack * (start_ + begin * all_.across());
      const bool aligned = is_aligned<S>(to.data);
      MEZZO_UNROLL
      for (int i = 0; i < kPlaces; ++i) {
        RawWords<kWords> raw;
        detail::narrow<S>(values[i], raw.words);
        if (i < count && aligned) *reinterpret_cast<RawWords<kWords>*>(next) = raw;
        if (i < count && !aligned) {
          for (int j = 0; j < kPack; ++j) next[j] = convert<S>(values[i][j]);
        }
        next += all_.pieces.columns;
      }
    });
  }

 private:
  /// Whether packs of S may be moved by one instruction. The bits are the same either way.
  template <class S>
  [[nodiscard]] __device__ static bool is_aligned(const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % (kPack * sizeof(S)) == 0;
  }
  template <class S>
  __device__ static auto one_by_one(const S* elements) {
    RawWords<kPack* static_cast<int>(sizeof(S)) / 4> raw{};
    MEZZO_UNROLL
    for (int j = 0; j < kPack; ++j) {
      if constexpr (sizeof(S) == 4)
        raw.words[j] = mezzo::detail::bit_cast<std::uint32_t>(elements[j]);
      else
        raw.words[j / 2] |= std::uint32_t{elements[j].bits} << 16 * (j % 2);
    }
    return raw;
  }

  const ColumnPacks& all_;
  std::int64_t first_, start_;  ///< start_: of the first place, in packs
};

/// A stretch of places beside those before it: the same for all columns of a thread.
struct ColumnStretch {
  double per_count;     ///< 1 / its places
  double share, cross;  ///< its part of all places so far; what the squared distance of both means counts

  /// `before`: places before it, and then with it.
  __device__ ColumnStretch(int places, double& before) : per_count(1.0 / places) {
    const double n = places, together = before + n;
    share = n / together;
    cross = before * share;
    before = together;
  }
};

/// Mean and squares of a column's piece: a stretch of places at a time in f32, around the mean of all before,
/// and together in f64. Where a stretch's own mean is far from that mean, its squares lose a rounding of the
/// distance's square, which itself counts more in the sum. Source: Chan, Golub and LeVeque, "Updating
/// formulae and a pairwise algorithm for computing sample variances", 1979.
class PieceOfColumn {
 public:
  /// Steps of kPlaces that make a stretch.
  static constexpr int kSteps = 8;

  /// Before the first step: its own mean is what it is taken around.
  __device__ MEZZO_ALWAYS_INLINE void begin(const float (&values)[kPlaces][kPack], int j, int count) {
    float sum = 0;
    MEZZO_UNROLL
    for (int i = 0; i < kPlaces; ++i) sum += values[i][j];  // those behind `count` are zeros
    shift_ = sum / static_cast<float>(count);
  }
  __device__ MEZZO_ALWAYS_INLINE void add(const float (&values)[kPlaces][kPack], int j, int count) {
    float rest = 0, added = 0;  // of a step: added to those before it, they are rounded eight times less
    MEZZO_UNROLL
    for (int i = 0; i < kPlaces; ++i) {
      const float deviation = i < count ? values[i][j] - shift_ : 0.0F;
      rest += deviation;
      added = math::detail::add_product(added, deviation, deviation);
    }
    rest_ += rest;
    added_ += added;
  }
  __device__ MEZZO_ALWAYS_INLINE void end(const ColumnStretch& stretch) {
    const auto rest = static_cast<double>(rest_);
    const double mean_rest = rest * stretch.per_count;
    const double apart = static_cast<double>(shift_) + mean_rest - mean_;
    mean_ += apart * stretch.share;
    squares_ += static_cast<double>(added_) - rest * mean_rest + apart * apart * stretch.cross;
    shift_ = static_cast<float>(mean_);
    rest_ = added_ = 0;
  }
  [[nodiscard]] __device__ PieceMoments get() const { return {mean_, squares_ < 0 ? 0 : squares_}; }
  /// Whether sums in f32 were finite.
  [[nodiscard]] __device__ bool is_finite() const { return squares_ - squares_ == 0.0; }

 private:
  float shift_ = 0, rest_ = 0, added_ = 0;
  double mean_ = 0, squares_ = 0;
};

/// Moments in f64 alone, for a column that leaves f32; NaN for a column that is not finite.
[[nodiscard]] inline __device__ PieceMoments moments_in_f64(const ColumnPack& columns, const Array& x,
                                                            int j) {
  double sum = 0, squares = 0, count = 0;
  columns.each([&](std::int64_t begin, int places) {
    float values[kPlaces][kPack];
    columns.load(x, begin, places, values);
    for (int i = 0; i < places; ++i) sum += static_cast<double>(values[i][j]);
    count += places;
  });
  const double mean = sum / count;
  columns.each([&](std::int64_t begin, int places) {
    float values[kPlaces][kPack];
    columns.load(x, begin, places, values);
    for (int i = 0; i < places; ++i) {
      const double deviation = static_cast<double>(values[i][j]) - mean;
      squares += deviation * deviation;
    }
  });
  return {mean, squares};
}

static __global__ void __launch_bounds__(kThreads, 2)
    column_moments(ColumnPacks all, Array x, PieceMoments* moments) {
  const std::int64_t index = first_index();
  if (index >= all.total()) return;
  const ColumnPack columns(all, index);
  PieceOfColumn pieces[kPack];
  double before = 0;
  int places = 0;
  columns.each([&](std::int64_t begin, int count) {
    float values[kPlaces][kPack];
    columns.load(x, begin, count, values);
    if (begin == 0) {
      MEZZO_UNROLL
      for (int j = 0; j < kPack; ++j) pieces[j].begin(values, j, count);
    }
    MEZZO_UNROLL
    for (int j = 0; j < kPack; ++j) pieces[j].add(values, j, count);
    places += count;
    if (places < kPlaces * PieceOfColumn::kSteps && begin + count < all.pieces.length) return;
    const ColumnStretch stretch(places, before);
    MEZZO_UNROLL
    for (int j = 0; j < kPack; ++j) pieces[j].end(stretch);
    places = 0;
  });
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j)
    moments[columns.first() + j] = pieces[j].is_finite() ? pieces[j].get() : moments_in_f64(columns, x, j);
}

/// See NormalizePiece.
static __global__ void __launch_bounds__(kThreads, 2)
    normalize_columns(ColumnPacks all, ChannelNorm<float> norm, Array out, Array x,
                      const scalar::NormalizedFn<float>* normalized_rows) {
  const std::int64_t index = first_index();
  if (index >= all.total()) return;
  const ColumnPack columns(all, index);
  scalar::NormalizedFn<float> normalized[kPack];
  float weight[kPack], bias[kPack];
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j) {
    const std::int64_t piece = columns.first() + j, row = all.pieces.row_of(piece),
                       channel = norm.layout.channel(row, all.pieces.run_of(piece));
    normalized[j] = normalized_rows[row];
    weight[j] = norm.weight_of(channel);
    bias[j] = norm.bias_of(channel);
  }
  columns.each([&](std::int64_t begin, int count) {
    float values[kPlaces][kPack];
    columns.load(x, begin, count, values);
    MEZZO_UNROLL
    for (int i = 0; i < kPlaces; ++i) {
      MEZZO_UNROLL
      for (int j = 0; j < kPack; ++j) values[i][j] = normalized[j](values[i][j], weight[j], bias[j]);
    }
    columns.store(out, begin, count, values);
  });
}

/// See PieceSumsRow: the terms of eight places are added up in f32, those sums in f64.
static __global__ void __launch_bounds__(kThreads, 2)
    column_sums(ColumnPacks all, Array grad, Array x, const scalar::NormalizedFn<float>* normalized_rows,
                TwoSums* sums) {
  const std::int64_t index = first_index();
  if (index >= all.total()) return;
  const ColumnPack columns(all, index);
  scalar::NormalizedFn<float> normalized[kPack];
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j) normalized[j] = normalized_rows[all.pieces.row_of(columns.first() + j)];
  TwoSums total[kPack] = {};
  columns.each([&](std::int64_t begin, int count) {
    float grads[kPlaces][kPack], values[kPlaces][kPack];
    columns.load(grad, begin, count, grads);
    columns.load(x, begin, count, values);
    MEZZO_UNROLL
    for (int j = 0; j < kPack; ++j) {
      const scalar::GradDotFn<float> dot{normalized[j]};
      float first = 0, second = 0;
      MEZZO_UNROLL
      for (int i = 0; i < kPlaces; ++i) {
        if (i >= count) continue;
        first += grads[i][j];
        second += dot(grads[i][j], values[i][j]);
      }
      total[j] = AddTwoSums{}(total[j], {static_cast<double>(first), static_cast<double>(second)});
    }
  });
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j) sums[columns.first() + j] = total[j];
}

/// See GradientPiece.
static __global__ void __launch_bounds__(kThreads, 2)
    column_gradients(ColumnPacks all, ChannelNorm<float> norm, Array out, Array grad, Array x,
                     const scalar::NormGradientFn<float>* gradients) {
  const std::int64_t index = first_index();
  if (index >= all.total()) return;
  const ColumnPack columns(all, index);
  scalar::NormGradientFn<float> gradient[kPack];
  float weight[kPack];
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j) {
    const std::int64_t piece = columns.first() + j, row = all.pieces.row_of(piece);
    gradient[j] = gradients[row];
    weight[j] = norm.weight_of(norm.layout.channel(row, all.pieces.run_of(piece)));
  }
  columns.each([&](std::int64_t begin, int count) {
    float grads[kPlaces][kPack], values[kPlaces][kPack];
    columns.load(grad, begin, count, grads);
    columns.load(x, begin, count, values);
    MEZZO_UNROLL
    for (int i = 0; i < kPlaces; ++i) {
      MEZZO_UNROLL
      for (int j = 0; j < kPack; ++j) values[i][j] = gradient[j](grads[i][j], values[i][j], weight[j]);
    }
    columns.store(out, begin, count, values);
  });
}

}  // namespace mezzo::kernels::cuda
