// Rounding, the remainder of a division, and what concerns inf and NaN.
#include <cmath>
#include <limits>

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cpu_quotient.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

/// To an integer; `nearest` has ties to even.
enum class Step { ceil, floor, trunc, nearest };
template <Step kStep>
struct StepFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x;
    else if constexpr (kStep == Step::ceil)
      return std::ceil(x);
    else if constexpr (kStep == Step::floor)
      return std::floor(x);
    else if constexpr (kStep == Step::trunc)
      return std::trunc(x);
    else
      return std::rint(x);
  }
};
struct CeilFn : StepFn<Step::ceil> {
  static constexpr std::string_view kName = "ceil";
};
struct FloorFn : StepFn<Step::floor> {
  static constexpr std::string_view kName = "floor";
};
struct TruncFn : StepFn<Step::trunc> {
  static constexpr std::string_view kName = "trunc";
};
struct RoundFn : StepFn<Step::nearest> {};
/// To the nearest multiple of 1 / power, or of power.
struct RoundDecimalsFn {
  double power;
  bool divides;  ///< multiples of power
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T scale = T(power);
    return divides ? std::rint(x / scale) * scale : std::rint(x * scale) / scale;
  }
};
MEZZO_FUNCTOR(IsNanFn, bool, (T x), x != x);
struct IsFiniteFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE bool operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return true;
    else
      return x - x == T(0);
  }
};
MEZZO_FUNCTOR(IsInfFn, bool, (T x), (x == x) & !IsFiniteFn{}(x));
struct NanToNumFn {
  double nan, posinf, neginf;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T infinite = x > T(0) ? T(posinf) : T(neginf);
    const T other = x == x ? infinite : T(nan);
    return x - x == T(0) ? x : other;
  }
};

using Args = ForwardArgs<NoAttrs>;
using Samples = std::vector<Sample<NoAttrs>>;

constexpr std::string_view kNumbers = "convert it with to(DType::f32)";

// --- ceil, floor, trunc, round

// Between two integers, where none of these jumps.
Samples smooth_samples() {
  return {{{op_samples::real({3, 5}, 0.1, 0.9)}}, {{op_samples::real({}, -1.9, -1.1)}}};
}

template <class A>
Gradients zero_vjp(const VjpArgs<A>& args) {
  return {zeros_for(args, 0)};
}

template <class F>
Outputs step_forward(const Args& args) {
  refuse_bool(F::kName, args.in(0), kNumbers);
  return unary<F>(args);
}
template <class F>
constexpr Op<NoAttrs> kStepOp = elementwise_op(F::kName, Category::passthrough, smooth_samples,
                                               step_forward<F>, zero_vjp<NoAttrs>, kSaveNothing);

struct RoundAttrs {
  std::int64_t decimals = 0;
  MEZZO_FIELDS(RoundAttrs, decimals)
};
Outputs round_forward(const ForwardArgs<RoundAttrs>& args) {
  const Tensor& x = args.in(0);
  const std::int64_t decimals = args.attrs.decimals;
  refuse_bool("round", x, kNumbers);
  if (decimals == 0) return map_one(RoundFn{}, x, compute_dtype(x.dtype()), x.dtype());
  require_floating("round", x);
  const RoundDecimalsFn f{std::pow(10.0, std::abs(static_cast<double>(decimals))), decimals < 0};
  return map_one_real(f, x, x.dtype());
}
std::vector<Sample<RoundAttrs>> round_samples() {
  return {{{op_samples::real({3, 5}, 0.6, 1.4)}},
          {{op_samples::real({4}, 0.26, 0.34)}, {1}},
          {{op_samples::real({4}, 16, 24)}, {-1}}};
}
constexpr Op<RoundAttrs> round_op = elementwise_op<RoundAttrs>(
    "round", Category::passthrough, round_samples, round_forward, zero_vjp<RoundAttrs>, kSaveNothing);

// --- remainder and fmod

template <RoundingMode kRounds>
constexpr std::string_view kRestName = kRounds == RoundingMode::floor ? "remainder" : "fmod";
template <RoundingMode kRounds>
constexpr std::string_view kRestOfNumberName =
    kRounds == RoundingMode::floor ? "remainder_scalar" : "fmod_scalar";
template <RoundingMode kRounds>
using RestFn = std::conditional_t<kRounds == RoundingMode::floor, RemainderFn, FmodFn>;

template <RoundingMode kRounds>
Outputs rest_forward(const Args& args) {
  const DType result = result_type({&args.in(0), &args.in(1)});
  if (result == DType::boolean) refuse_bool(kRestName<kRounds>, args.in(0), kNumbers);
  return map_wrapped<2>(kRestName<kRounds>, RestFn<kRounds>{}, {&args.in(0), &args.in(1)}, result);
}
template <RoundingMode kRounds>
Gradients rest_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = args.grad();
  Gradients result{args.needs(0) ? grad : Tensor(), Tensor()};
  if (args.needs(1)) result[1] = neg(mul(grad, div(widened(args.in(0)), widened(args.in(1)), kRounds)));
  return result;
}
Samples rest_samples() {
  // Quotients between two integers.
  return {{{op_samples::real({3, 5}, 2.2, 2.8), op_samples::real({3, 5}, 0.95, 1.05)}},
          {{op_samples::real({4, 1, 3}, 0.2, 0.8), op_samples::real({2, 1}, -1.2, -0.9)}}};
}
template <RoundingMode kRounds>
constexpr Op<NoAttrs> kRestOp = elementwise_op(kRestName<kRounds>, Category::passthrough, rest_samples,
                                               rest_forward<kRounds>, rest_vjp<kRounds>, save_inputs(0, 1));

template <RoundingMode kRounds>
Outputs rest_of_number_forward(const ForwardArgs<NumberAttrs>& args) {
  const DType result = result_with(args.in(0), args.attrs.s);
  if (result == DType::boolean) refuse_bool(kRestName<kRounds>, args.in(0), kNumbers);
  return map_one(WithRight<RestFn<kRounds>>{args.attrs.s}, args.in(0), compute_dtype(result), result);
}
Gradients rest_of_number_vjp(const VjpArgs<NumberAttrs>& args) { return {args.grad()}; }
std::vector<Sample<NumberAttrs>> rest_of_number_samples() {
  return {{{op_samples::real({3, 5}, 2.2, 2.8)}, {1}}, {{op_samples::real({4}, 0.2, 0.8)}, {-1.5}}};
}
template <RoundingMode kRounds>
constexpr Op<NumberAttrs> kRestOfNumberOp = elementwise_op<NumberAttrs>(kRestOfNumberName<kRounds>,
                                                                        Category::passthrough,
                                                                        rest_of_number_samples,
                                                                        rest_of_number_forward<kRounds>,
                                                                        rest_of_number_vjp, kSaveNothing);

// --- isnan, isinf, isfinite

template <class F>
Outputs test_forward(const Args& args) {
  return map_one(F{}, args.in(0), args.in(0).dtype(), DType::boolean);
}
Samples constant_samples() { return {{{op_samples::constant({3, 5})}}}; }
template <class F>
constexpr Op<NoAttrs> test_op(std::string_view name) {
  return elementwise_op(name, Category::passthrough, constant_samples, test_forward<F>, kBoolResult,
                        kSaveNothing);
}
constexpr Op<NoAttrs> isnan_op = test_op<IsNanFn>("isnan"), isinf_op = test_op<IsInfFn>("isinf");
constexpr Op<NoAttrs> isfinite_op = test_op<IsFiniteFn>("isfinite");

/// op(x). Float8 is widened, which is exact and keeps what is not finite.
Tensor bind_test(const Op<NoAttrs>& op, const Tensor& x) {
  return x.defined() && is_float8(x.dtype()) ? bind(op, {to(x, DType::f32)}) : bind(op, {x});
}

// --- nan_to_num

struct NanToNumAttrs {
  double nan = 0;
  std::optional<double> posinf, neginf;
  MEZZO_FIELDS(NanToNumAttrs, nan, posinf, neginf)
};

/// The largest finite number of a floating dtype.
double largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::bf16) return 0x1.fep+127;
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
}
Outputs nan_to_num_forward(const ForwardArgs<NanToNumAttrs>& args) {
  const Tensor& x = args.in(0);
  const NanToNumAttrs& attrs = args.attrs;
  if (!is_floating(x.dtype())) return map_one(IdentityFn{}, x, x.dtype(), x.dtype());
  const double largest = largest_of(x.dtype());
  const auto element = [&](double value) { return as_element(value, x.dtype()).real(); };
  const NanToNumFn f{element(attrs.nan), element(attrs.posinf.value_or(largest)),
                     element(attrs.neginf.value_or(-largest))};
  return map_one_real(f, x, x.dtype());
}
Gradients nan_to_num_vjp(const VjpArgs<NanToNumAttrs>& args) {
  return {where(isfinite(args.in(0)), args.grad(), 0)};
}
std::vector<Sample<NanToNumAttrs>> nan_to_num_samples() {
  return {{{op_samples::real({3, 5})}}, {{op_samples::real({4})}, {1, 2, -2}}};
}
constexpr Op<NanToNumAttrs> nan_to_num_op =
    elementwise_op<NanToNumAttrs>("nan_to_num", Category::passthrough, nan_to_num_samples, nan_to_num_forward,
                                  nan_to_num_vjp, save_inputs(0));

const Registered rounding_registered{kStepOp<CeilFn>,
                                     kStepOp<FloorFn>,
                                     kStepOp<TruncFn>,
                                     round_op,
                                     kRestOp<RoundingMode::floor>,
                                     kRestOp<RoundingMode::trunc>,
                                     kRestOfNumberOp<RoundingMode::floor>,
                                     kRestOfNumberOp<RoundingMode::trunc>,
                                     isnan_op,
                                     isinf_op,
                                     isfinite_op,
                                     nan_to_num_op};

}  // namespace

Tensor ceil(const Tensor& x) { return bind(kStepOp<CeilFn>, {x}); }
Tensor floor(const Tensor& x) { return bind(kStepOp<FloorFn>, {x}); }
Tensor trunc(const Tensor& x) { return bind(kStepOp<TruncFn>, {x}); }
Tensor round(const Tensor& x, std::int64_t decimals) { return bind(round_op, {x}, {decimals}); }
Tensor remainder(const Tensor& a, const Tensor& b) { return bind(kRestOp<RoundingMode::floor>, {a, b}); }
Tensor remainder(const Tensor& x, Scalar s) { return bind(kRestOfNumberOp<RoundingMode::floor>, {x}, {s}); }
Tensor fmod(const Tensor& a, const Tensor& b) { return bind(kRestOp<RoundingMode::trunc>, {a, b}); }
Tensor fmod(const Tensor& x, Scalar s) { return bind(kRestOfNumberOp<RoundingMode::trunc>, {x}, {s}); }
Tensor isnan(const Tensor& x) { return bind_test(isnan_op, x); }
Tensor isinf(const Tensor& x) { return bind_test(isinf_op, x); }
Tensor isfinite(const Tensor& x) { return bind_test(isfinite_op, x); }
Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  return bind(nan_to_num_op, {x}, {nan, posinf, neginf});
}

}  // namespace mezzo
