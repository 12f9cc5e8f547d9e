// Comparison, logic and choice: ops with bool results, and where.
#include "mezzo/ops/pointwise.h"

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

MEZZO_FUNCTOR(EqFn, bool, (T a, T b), a == b);
MEZZO_FUNCTOR(NeFn, bool, (T a, T b), a != b);
MEZZO_FUNCTOR(LtFn, bool, (T a, T b), a < b);
MEZZO_FUNCTOR(LeFn, bool, (T a, T b), a <= b);
MEZZO_FUNCTOR(AndFn, bool, (T a, T b), (a != T(0)) & (b != T(0)));
MEZZO_FUNCTOR(OrFn, bool, (T a, T b), (a != T(0)) | (b != T(0)));
MEZZO_FUNCTOR(NotFn, bool, (T x), x == T(0));
MEZZO_FUNCTOR(WhereFn, T, (T condition, T a, T b), condition != T(0) ? a : b);

std::vector<Sample<NoAttrs>> comparison_samples() {
  return {{{op_samples::constant({3, 5}), op_samples::constant({5})}}};
}
std::vector<Sample<NumberAttrs>> number_comparison_samples() {
  return {{{op_samples::constant({3, 5})}, {0.5}}};
}

/// F{}(a, b) on the promoted dtype, as a bool tensor.
template <class F>
Tensor compare(std::string_view op, const Tensor& a, const Tensor& b) {
  const DType common = result_type({&a, &b});
  // A 0-dim operand of a wider floating dtype is compared as the value it has in the common dtype.
  const auto in_common = [common](const Tensor& x) {
    return x.dim() == 0 && is_floating(x.dtype()) && is_floating(common) ? to(x, common) : x;
  };
  const Tensor left = in_common(a), right = in_common(b);
  return map<2>(op, F{}, {&left, &right}, compute_dtype(common), DType::boolean);
}

/// x compared with a number, as a bool tensor; the functor Bound holds the number.
template <class Bound>
Outputs compare_number(const ForwardArgs<NumberAttrs>& args) {
  const Tensor& x = args.in(0);
  const DType common = result_with(x, args.attrs.s);
  return map_one(Bound{rounded_to(args.attrs.s, common)}, x, compute_dtype(common), DType::boolean);
}

using Forward = Op<NoAttrs>::Forward;
using NumberForward = Op<NumberAttrs>::Forward;

constexpr Op<NoAttrs> two_op(std::string_view name, Forward forward) {
  return elementwise_op(name, Category::passthrough, comparison_samples, forward, kBoolResult, kSaveNothing);
}
constexpr Op<NumberAttrs> number_op(std::string_view name, NumberForward forward) {
  return elementwise_op<NumberAttrs>(name, Category::passthrough, number_comparison_samples, forward,
                                     kBoolResult, kSaveNothing);
}

using Args = ForwardArgs<NoAttrs>;

Outputs eq_forward(const Args& args) { return compare<EqFn>("eq", args.in(0), args.in(1)); }
Outputs ne_forward(const Args& args) { return compare<NeFn>("ne", args.in(0), args.in(1)); }
Outputs lt_forward(const Args& args) { return compare<LtFn>("lt", args.in(0), args.in(1)); }
Outputs le_forward(const Args& args) { return compare<LeFn>("le", args.in(0), args.in(1)); }
Outputs gt_forward(const Args& args) { return compare<LtFn>("gt", args.in(1), args.in(0)); }
Outputs ge_forward(const Args& args) { return compare<LeFn>("ge", args.in(1), args.in(0)); }

constexpr Op<NoAttrs> eq_op = two_op("eq", eq_forward), ne_op = two_op("ne", ne_forward);
constexpr Op<NoAttrs> lt_op = two_op("lt", lt_forward), le_op = two_op("le", le_forward);
constexpr Op<NoAttrs> gt_op = two_op("gt", gt_forward), ge_op = two_op("ge", ge_forward);

constexpr Op<NumberAttrs> eq_scalar_op = number_op("eq_scalar", compare_number<WithRight<EqFn>>);
constexpr Op<NumberAttrs> ne_scalar_op = number_op("ne_scalar", compare_number<WithRight<NeFn>>);
constexpr Op<NumberAttrs> lt_scalar_op = number_op("lt_scalar", compare_number<WithRight<LtFn>>);
constexpr Op<NumberAttrs> le_scalar_op = number_op("le_scalar", compare_number<WithRight<LeFn>>);
constexpr Op<NumberAttrs> gt_scalar_op = number_op("gt_scalar", compare_number<WithLeft<LtFn>>);
constexpr Op<NumberAttrs> ge_scalar_op = number_op("ge_scalar", compare_number<WithLeft<LeFn>>);

// --- logic

template <class F>
Tensor combine(std::string_view op, const Args& args) {
  const DType common = result_type({&args.in(0), &args.in(1)});
  return map<2>(op, F{}, {&args.in(0), &args.in(1)}, compute_dtype(common), DType::boolean);
}
Outputs logical_and_forward(const Args& args) { return combine<AndFn>("logical_and", args); }
Outputs logical_or_forward(const Args& args) { return combine<OrFn>("logical_or", args); }
Outputs logical_not_forward(const Args& args) {
  const Tensor& x = args.in(0);
  return map_one(NotFn{}, x, compute_dtype(x.dtype()), DType::boolean);
}
std::vector<Sample<NoAttrs>> mask_samples() {
  return {{{op_samples::mask({3, 5}), op_samples::mask({5})}},
          {{op_samples::real({3, 5}), op_samples::real({5})}}};
}
std::vector<Sample<NoAttrs>> one_mask_sample() {
  return {{{op_samples::mask({3, 5})}}, {{op_samples::real({4})}}};
}

constexpr Op<NoAttrs> logical_and_op = elementwise_op("logical_and", Category::passthrough, mask_samples,
                                                      logical_and_forward, kBoolResult, kSaveNothing);
constexpr Op<NoAttrs> logical_or_op = elementwise_op("logical_or", Category::passthrough, mask_samples,
                                                     logical_or_forward, kBoolResult, kSaveNothing);
constexpr Op<NoAttrs> logical_not_op = elementwise_op("logical_not", Category::passthrough, one_mask_sample,
                                                      logical_not_forward, kBoolResult, kSaveNothing);

// --- bits

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t bits_of(std::int64_t x) { return x; }
/// Never called: reals are refused before.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t bits_of(double /*x*/) { return 0; }

MEZZO_FUNCTOR(BitAndFn, T, (T a, T b), static_cast<T>(bits_of(a) & bits_of(b)));
MEZZO_FUNCTOR(BitOrFn, T, (T a, T b), static_cast<T>(bits_of(a) | bits_of(b)));
MEZZO_FUNCTOR(BitXorFn, T, (T a, T b), static_cast<T>(bits_of(a) ^ bits_of(b)));
MEZZO_FUNCTOR(BitNotFn, T, (T x), static_cast<T>(~bits_of(x)));

void refuse_reals(std::string_view op, DType dtype) {
  if (is_floating(dtype))
    throw DTypeError(op, "bools or integers", to_string(dtype), "convert with to(DType::i64)");
}
template <class F>
Tensor combine_bits(std::string_view op, const Args& args) {
  const DType common = result_type({&args.in(0), &args.in(1)});
  refuse_reals(op, common);
  return map<2>(op, F{}, {&args.in(0), &args.in(1)}, compute_dtype(common), common);
}
Outputs bitwise_and_forward(const Args& args) { return combine_bits<BitAndFn>("bitwise_and", args); }
Outputs bitwise_or_forward(const Args& args) { return combine_bits<BitOrFn>("bitwise_or", args); }
Outputs bitwise_xor_forward(const Args& args) { return combine_bits<BitXorFn>("bitwise_xor", args); }
Outputs bitwise_not_forward(const Args& args) {
  refuse_reals("bitwise_not", args.in(0).dtype());
  if (args.in(0).dtype() == DType::boolean) return logical_not(args.in(0));
  return unary<BitNotFn>(args);
}
constexpr NotDifferentiable kBits{"the result is no real number"};
/// Masks alone: of indices the sweep asks that they are refused out of range.
std::vector<Sample<NoAttrs>> bit_samples() {
  return {{{op_samples::mask({3, 5}), op_samples::mask({5})}},
          {{op_samples::mask({4, 1, 3}), op_samples::mask({2, 1})}}};
}
std::vector<Sample<NoAttrs>> one_bit_sample() { return {{{op_samples::mask({3, 5})}}}; }
constexpr Op<NoAttrs> bit_op(std::string_view name, Op<NoAttrs>::SampleList samples, Forward forward) {
  return elementwise_op(name, Category::passthrough, samples, forward, kBits, kSaveNothing);
}
constexpr Op<NoAttrs> bitwise_and_op = bit_op("bitwise_and", bit_samples, bitwise_and_forward);
constexpr Op<NoAttrs> bitwise_or_op = bit_op("bitwise_or", bit_samples, bitwise_or_forward);
constexpr Op<NoAttrs> bitwise_xor_op = bit_op("bitwise_xor", bit_samples, bitwise_xor_forward);
constexpr Op<NoAttrs> bitwise_not_op = bit_op("bitwise_not", one_bit_sample, bitwise_not_forward);

// --- where

Outputs where_forward(const Args& args) {
  const Tensor &condition = args.in(0), &a = args.in(1), &b = args.in(2);
  if (condition.dtype() != DType::boolean) {
    throw DTypeError("where", "a bool condition", to_string(condition.dtype()), "pass ne(condition, 0)");
  }
  const DType result = result_type({&a, &b});
  return map<3>("where", WhereFn{}, {&condition, &a, &b}, compute_dtype(result), result);
}
Gradients where_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor condition = args.in(0), grad = args.grad();
  return {Tensor(), args.needs(1) ? where(condition, grad, 0) : Tensor(),
          args.needs(2) ? where(condition, 0, grad) : Tensor()};
}
std::vector<Sample<NoAttrs>> where_samples() {
  return {{{op_samples::mask({3, 5}), op_samples::real({3, 5}), op_samples::real({3, 5})}},
          {{op_samples::mask({3, 1}), op_samples::real({5}), op_samples::real({})}}};
}
constexpr Op<NoAttrs> where_op =
    elementwise_op("where", Category::passthrough, where_samples, where_forward, where_vjp, save_inputs(0));

/// A 0-dim tensor of the dtype that the number and `other` have in common.
Tensor beside(std::string_view op, const Tensor& other, const Scalar& s) {
  require_defined(op, other);
  return full({}, s, {.dtype = result_with(other, s), .device = other.device()});
}

const Registered compare_registered{eq_op,          ne_op,          lt_op,          le_op,
                                    gt_op,          ge_op,          eq_scalar_op,   ne_scalar_op,
                                    lt_scalar_op,   le_scalar_op,   gt_scalar_op,   ge_scalar_op,
                                    logical_and_op, logical_or_op,  logical_not_op, bitwise_and_op,
                                    bitwise_or_op,  bitwise_xor_op, bitwise_not_op, where_op};

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return bind(eq_op, {a, b}); }
Tensor ne(const Tensor& a, const Tensor& b) { return bind(ne_op, {a, b}); }
Tensor lt(const Tensor& a, const Tensor& b) { return bind(lt_op, {a, b}); }
Tensor le(const Tensor& a, const Tensor& b) { return bind(le_op, {a, b}); }
Tensor gt(const Tensor& a, const Tensor& b) { return bind(gt_op, {a, b}); }
Tensor ge(const Tensor& a, const Tensor& b) { return bind(ge_op, {a, b}); }
Tensor eq(const Tensor& x, Scalar s) { return bind(eq_scalar_op, {x}, {s}); }
Tensor ne(const Tensor& x, Scalar s) { return bind(ne_scalar_op, {x}, {s}); }
Tensor lt(const Tensor& x, Scalar s) { return bind(lt_scalar_op, {x}, {s}); }
Tensor le(const Tensor& x, Scalar s) { return bind(le_scalar_op, {x}, {s}); }
Tensor gt(const Tensor& x, Scalar s) { return bind(gt_scalar_op, {x}, {s}); }
Tensor ge(const Tensor& x, Scalar s) { return bind(ge_scalar_op, {x}, {s}); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return bind(logical_and_op, {a, b}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return bind(logical_or_op, {a, b}); }
Tensor logical_not(const Tensor& x) { return bind(logical_not_op, {x}); }
Tensor bitwise_and(const Tensor& a, const Tensor& b) { return bind(bitwise_and_op, {a, b}); }
Tensor bitwise_and(const Tensor& x, Scalar s) { return bitwise_and(x, beside("bitwise_and", x, s)); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return bind(bitwise_or_op, {a, b}); }
Tensor bitwise_or(const Tensor& x, Scalar s) { return bitwise_or(x, beside("bitwise_or", x, s)); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return bind(bitwise_xor_op, {a, b}); }
Tensor bitwise_xor(const Tensor& x, Scalar s) { return bitwise_xor(x, beside("bitwise_xor", x, s)); }
Tensor bitwise_not(const Tensor& x) { return bind(bitwise_not_op, {x}); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return bind(where_op, {condition, a, b});
}
Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  return where(condition, a, beside("where", a, b));
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  return where(condition, beside("where", b, a), b);
}
Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  require_defined("where", condition);
  const DTypeKind kind = std::max(a.kind(), b.kind());
  const DType dtype = kind == DTypeKind::floating  ? DType::f32
                      : kind == DTypeKind::integer ? DType::i64
                                                   : DType::boolean;
  const TensorOptions like{.dtype = dtype, .device = condition.device()};
  return where(condition, full({}, a, like), full({}, b, like));
}

}  // namespace mezzo
