// Float8 quantisation on the CPU: chunks of rows on several threads, tile by tile in f32. Largest magnitudes
// are compared as integers, so their order does not show.
#include <algorithm>
#include <atomic>
#include <cstddef>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/math/cast_math.h"
#include "mezzo/kernels/quantize/quantize.h"
#include "mezzo/kernels/quantize/quantize_math.h"

namespace mezzo::kernels::cpu {

namespace {

constexpr std::int64_t kPart = 1024;         // elements that are widened at a time
constexpr std::int64_t kChunk = 16 * kPart;  // elements that a thread takes

/// A tile of the elements as f32, rounded to `rounded` on the way.
class Tile {
 public:
  const float* read(const Quantization& q, DType rounded, std::int64_t at, std::int64_t n) {
    const void* source = static_cast<const std::byte*>(q.x) + at * size_of(q.dtype);
    DType dtype = q.dtype;
    if (rounded != DType::f32 && rounded != dtype) {
      convert(source, dtype, narrow_, rounded, n);
      source = narrow_;
      dtype = rounded;
    }
    if (dtype == DType::f32) return static_cast<const float*>(source);
    convert(source, dtype, wide_, DType::f32, n);
    return wide_;
  }

 private:
  alignas(64) float wide_[kPart];
  alignas(64) std::uint16_t narrow_[kPart];
};

struct LargestMagnitude {
  static std::uint32_t run(const float* x, std::int64_t n) {
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t magnitude = magnitude_bits(x[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  }
};

template <class F8>
struct ScaleAndCast {
  static void run(const float* x, F8* codes, std::int64_t n, float scale) {
    for (std::int64_t i = 0; i < n; ++i) codes[i] = F8(x[i] * scale);
  }
};

/// The largest magnitude among elements [first, first + count), as bits.
std::uint32_t largest_magnitude(const Quantization& q, std::int64_t first, std::int64_t count) {
  std::atomic<std::uint32_t> largest{0};
  parallel_for(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    Tile tile;
    std::uint32_t mine = 0;
    for (std::int64_t at = begin; at < end; at += kPart) {
      const std::int64_t n = std::min(kPart, end - at);
      mine = std::max(mine, run_isa<LargestMagnitude>(tile.read(q, DType::f32, first + at, n), n));
    }
    std::uint32_t seen = largest.load(std::memory_order_relaxed);
    while (mine > seen && !largest.compare_exchange_weak(seen, mine, std::memory_order_relaxed)) {
    }
  });
  return largest.load();
}

void cast_scaled(const Quantization& q, std::int64_t first, std::int64_t count, float scale) {
  parallel_for(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    Tile tile;
    for (std::int64_t at = begin; at < end; at += kPart) {
      const std::int64_t n = std::min(kPart, end - at);
      const float* const x = tile.read(q, q.rounded, first + at, n);
      auto* const codes = static_cast<std::uint8_t*>(q.codes) + first + at;
      if (q.format == DType::f8_e4m3)
        run_isa<ScaleAndCast<Float8E4M3>>(x, reinterpret_cast<Float8E4M3*>(codes), n, scale);
      else
        run_isa<ScaleAndCast<Float8E5M2>>(x, reinterpret_cast<Float8E5M2*>(codes), n, scale);
    }
  });
}

/// One scale for elements [first, first + count), stored as number `index`.
void quantize_part(const Quantization& q, std::int64_t first, std::int64_t count, std::int64_t index) {
  // Rounding keeps the order, so that of the rounded elements is the largest one rounded.
  auto amax = mezzo::detail::bit_cast<float>(largest_magnitude(q, first, count));
  if (q.rounded == DType::bf16) amax = static_cast<float>(BFloat16(amax));
  if (q.rounded == DType::f16) amax = static_cast<float>(Half(amax));
  const Float8Scale scale = float8_scale(amax, largest_of_float8(q.format), q.power_of_two);
  q.scale[index] = scale.scale;
  q.inverse[index] = scale.inverse;
  cast_scaled(q, first, count, scale.scale);
}

}  // namespace

void quantize_float8(const Quantization& args) {
  if (!args.per_row) return quantize_part(args, 0, args.rows * args.columns, 0);
  // Rows are a thread's each, so the loops in a row find that they run in one.
  parallel_for(args.rows, std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, args.columns)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   quantize_part(args, row * args.columns, args.columns, row);
               });
}

}  // namespace mezzo::kernels::cpu
