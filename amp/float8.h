// Float8 under autocast: which products run in it, and how they quantise. The products and quantisation
// themselves are in ops/float8.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/autograd/float8.h"
#include "mezzo/ops/float8.h"

namespace mezzo::amp {

/// Float8 products in an autocast region: linear, and matmul, mm and addmm of two matrices of which one is a
/// parameter. Operands are scaled by their own largest magnitude (no state); inputs and weights are e4m3,
/// gradients e5m2; results come in the region's dtype, gradients of weights in f32. Backward keeps codes, a
/// byte an element. Weights whose sizes are no multiples of 16, and all other ops, run as without float8.
/// Where something is not finite, its product is NaN, so that a GradScaler sees it.
struct Fp8 {
  DType gradients = DType::f8_e5m2;  ///< or f8_e4m3: more precise, less range
  bool power_of_two = false;         ///< scales are powers of two
  /// high: gradients of weights are products of 16-bit operands.
  GradientWeight gradient_weight = GradientWeight::fp8;
  /// Weights [n, k] with n <= max_n and k <= max_k stay in 16 bits: small ones do not pay.
  std::int64_t max_n = 0, max_k = 0;
  /// Modules, by their paths, in which nothing runs in float8, as "head" or "blocks.0.attn".
  std::vector<std::string> skip = {};
  friend bool operator==(const Fp8&, const Fp8&) = default;
};

/// `true`, `false`, or how.
class Fp8Option : public std::optional<Fp8> {
 public:
  Fp8Option(bool on = false) {
    if (on) emplace();
  }
  Fp8Option(Fp8 fp8) : std::optional<Fp8>(std::move(fp8)) {}
};

namespace detail {

/// The most different options that a process can have: open regions keep numbers of them.
inline constexpr std::uint64_t kMostFloat8Options = 127;
/// The number of these options, from 1 on; they live as long as the process. Throws: ValueError and
/// DTypeError for options that make no sense, ValueError when there are too many.
[[nodiscard]] std::uint64_t number_of(const Fp8& options);
/// The options of a number; nullptr for 0.
[[nodiscard]] const Fp8* float8_options(std::uint64_t number) noexcept;
/// Why a weight's product stays in 16 bits under these options; empty: it runs in float8. Throws: ValueError
/// when `skip` names a path that the model at work does not have.
[[nodiscard]] std::string why_not_float8(const Fp8& options, std::int64_t n, std::int64_t k);

}  // namespace detail

// As amp::quantize_f8 and amp::dequantize_f8, too.
using mezzo::dequantize_f8;
using mezzo::quantize_f8;

}  // namespace mezzo::amp
