// The seam by which a product runs in float8: its op says how its operands form one, the thread's input hook
// (autocast) whether it is to run so, and the op of the whole product does it.
#pragma once

#include <string>

#include "mezzo/autograd/input_hook.h"

namespace mezzo {

/// In what the gradient of a weight is computed.
enum class GradientWeight : std::uint8_t {
  fp8,   ///< float8 operands, as the other two products
  high,  ///< the 16-bit gradient and input, which backward keeps then
};
template <>
inline constexpr std::array<std::string_view, 2> kEnumNames<GradientWeight>{"fp8", "high"};

/// How float8 products quantise (docs/mixed_precision.md, "Float8").
struct Float8Recipe {
  DType gradients = DType::f8_e5m2;  ///< the format of gradients; inputs and weights are e4m3
  bool power_of_two = false;         ///< scales are rounded down to powers of two
  GradientWeight gradient_weight = GradientWeight::fp8;
};

/// The operands of y = x W^T + bias, as the call has them. Undefined where its arguments make no such
/// product.
struct Float8Product {
  Tensor x = {}, weight = {}, bias = {};
  bool transposed_x = false, transposed_weight = false,
       transposed_y = false;  ///< the call has the transposes
  /// W's sizes.
  [[nodiscard]] std::int64_t n() const { return weight.size(transposed_weight ? 1 : 0); }
  [[nodiscard]] std::int64_t k() const { return weight.size(transposed_weight ? 0 : 1); }
};

/// What the input hook answers: whether the product runs in float8, and then with which operands.
struct Float8Request {
  const Float8Product& product;
  bool granted = false;
  DType dtype = DType::bf16;  ///< of the region
  Float8Recipe recipe = {};
  Tensor x_codes = {}, x_inverse = {}, weight_codes = {},
         weight_inverse = {};  ///< laid out as the call's operands
};

/// An op's way to run in float8; a descriptor without one never does.
template <class A>
struct Float8Form {
  /// The product that a call stands for, before the hook has cast anything.
  Float8Product (*product)(const ForwardArgs<A>& args);
  Outputs (*run)(const Float8Request& request);
};

/// Why a product x W^T of a weight [n, k] stays in 16 bits ("K = 100 is no multiple of 16"); empty: it does
/// not.
[[nodiscard]] std::string why_not_float8(std::int64_t n, std::int64_t k);

namespace detail {
/// Asks the hook, in whose context `kAsksFloat8` is, whether the product runs in float8.
[[nodiscard]] bool ask_for_float8(const OpInfo& info, Float8Request& request);
}  // namespace detail

}  // namespace mezzo
