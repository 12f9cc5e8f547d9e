// Arithmetic, comparisons and elementary functions. ONNX promotes nothing: inputs are cast to the dtype of
// the result, in comparisons to the common dtype of both.
#include <cmath>
#include <numbers>

#include "mezzo/core/promotion.h"
#include "mezzo/onnx/mappings/common.h"

namespace mezzo::onnx {

namespace {

/// The second operand of an op of two tensors, or of a tensor and the number `s`.
template <bool kIsNumber>
std::string second(Call& c) {
  if constexpr (kIsNumber)
    return number(c, c.real("s"));
  else
    return operand(c, 1);
}

template <Literal kOp>
void with_number(Call& c) {
  c.set(c.node(kOp.text, {operand(c, 0), second<true>(c)}));
}
template <Literal kOp>
void from_number(Call& c) {
  c.set(c.node(kOp.text, {second<true>(c), operand(c, 0)}));
}

/// a + alpha b, a - alpha b.
template <Literal kOp>
void scaled(Call& c) {
  std::string b = operand(c, 1);
  if (c.real("alpha") != 1) b = c.node("Mul", {b, number(c, c.real("alpha"))});
  c.set(c.node(kOp.text, {operand(c, 0), b}));
}

std::string truncated(Call& c, const std::string& x) {
  return c.node("Mul", {c.node("Sign", {x}), c.node("Floor", {c.node("Abs", {x})})});
}

template <bool kIsNumber>
void divide(Call& c) {
  const std::string a = operand(c, 0), b = second<kIsNumber>(c);
  const std::string& mode = c.text("rounding_mode");
  const bool is_integer = !is_floating(c.out().dtype());
  if (mode == "floor" && is_integer)  // Mod has the sign of the divisor
    return c.set(c.node("Div", {c.node("Sub", {a, c.node("Mod", {a, b})}), b}));
  const std::string quotient = c.node("Div", {a, b});
  if (mode == "none" || is_integer) return c.set(quotient);
  c.set(mode == "floor" ? c.node("Floor", {quotient}) : truncated(c, quotient));
}

template <bool kIsNumber>
void remainder(Call& c) {
  const std::string a = operand(c, 0), b = second<kIsNumber>(c);
  if (!is_floating(c.out().dtype())) return c.set(c.node("Mod", {a, b}));
  c.set(c.node("Sub", {a, c.node("Mul", {b, c.node("Floor", {c.node("Div", {a, b})})})}));
}
template <bool kIsNumber>
void fmod(Call& c) {
  c.set(c.node("Mod", {operand(c, 0), second<kIsNumber>(c)}, {{"fmod", std::int64_t{1}}}));
}

DType comparable(DType dtype) { return dtype == DType::boolean ? DType::i32 : dtype; }

template <Literal kOp>
void compare(Call& c) {
  const DType dtype = comparable(result_type({&c.in(0), &c.in(1)}));
  c.set(c.node(kOp.text, {c.input(0, dtype), c.input(1, dtype)}));
}
template <Literal kOp>
void compare_number(Call& c) {
  const bool is_real = c.attr("s").is_double() || c.attr("s").is_string();
  const DType own = c.in(0).dtype();
  const DType dtype = is_real && !is_floating(own) ? DType::f32 : comparable(own);
  c.set(c.node(kOp.text, {c.input(0, dtype), c.number(c.real("s"), dtype)}));
}
void not_equal(Call& c) {
  compare<"Equal">(c);
  c.set(c.node("Not", {c.result()}));
}
void not_equal_number(Call& c) {
  compare_number<"Equal">(c);
  c.set(c.node("Not", {c.result()}));
}

/// Of inputs that are taken as bools.
template <Literal kOp, std::size_t kInputs>
void logical(Call& c) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < kInputs; ++i) inputs.push_back(c.input(i, DType::boolean));
  c.set(c.node(kOp.text, inputs));
}

/// Of floating inputs, with a result in bool.
template <Literal kOp>
void test(Call& c) {
  const DType dtype = is_floating(c.in(0).dtype()) ? c.in(0).dtype() : DType::f32;
  c.set(c.node(kOp.text, {c.input(0, dtype)}));
}
void is_finite(Call& c) {
  const DType dtype = is_floating(c.in(0).dtype()) ? c.in(0).dtype() : DType::f32;
  const std::string x = c.input(0, dtype);
  c.set(c.node("Not", {c.node("Or", {c.node("IsInf", {x}), c.node("IsNaN", {x})})}));
}

template <std::size_t kA, std::size_t kB>
void where(Call& c) {
  c.set(c.node("Where", {c.input(0, DType::boolean), operand(c, kA), operand(c, kB)}));
}
void masked_fill(Call& c) {
  c.set(c.node("Where", {c.input(1, DType::boolean), number(c, c.real("value")), operand(c, 0)}));
}

void clamp(Call& c) {
  const auto bound = [&](const char* name) { return c.is_null(name) ? "" : number(c, c.real(name)); };
  c.set(c.node("Clip", {operand(c, 0), bound("min"), bound("max")}));
}
void clamp_tensor(Call& c) {
  std::string x = operand(c, 0);
  if (c.has(1)) x = c.node("Max", {x, operand(c, 1)});
  if (c.has(2)) x = c.node("Min", {x, operand(c, 2)});
  c.set(x);
}

std::string lerped(Call& c, const std::string& weight) {
  const std::string a = operand(c, 0);
  return c.node("Add", {a, c.node("Mul", {weight, c.node("Sub", {operand(c, 1), a})})});
}
void lerp(Call& c) { c.set(lerped(c, operand(c, 2))); }
void lerp_number(Call& c) { c.set(lerped(c, number(c, c.real("weight")))); }

/// x + value a b, x + value a / b.
template <Literal kOp>
void add_scaled(Call& c) {
  const std::string both = c.node(kOp.text, {operand(c, 1), operand(c, 2)});
  c.set(c.node("Add", {operand(c, 0), c.node("Mul", {both, number(c, c.real("value"))})}));
}

void pow_number(Call& c) { c.set(c.node("Pow", {operand(c, 0), number(c, c.real("p"))})); }
void square(Call& c) { c.set(c.node("Mul", {operand(c, 0), operand(c, 0)})); }
void rsqrt(Call& c) { c.set(c.node("Reciprocal", {c.node("Sqrt", {operand(c, 0)})})); }
void expm1(Call& c) { c.set(c.node("Sub", {c.node("Exp", {operand(c, 0)}), number(c, 1)})); }
void log1p(Call& c) { c.set(c.node("Log", {c.node("Add", {operand(c, 0), number(c, 1)})})); }
void log2(Call& c) { c.set(c.node("Mul", {c.node("Log", {operand(c, 0)}), number(c, std::numbers::log2e)})); }
void log10(Call& c) {
  c.set(c.node("Mul", {c.node("Log", {operand(c, 0)}), number(c, std::numbers::log10e)}));
}
void trunc(Call& c) { c.set(truncated(c, operand(c, 0))); }
void round(Call& c) {
  const double scale = std::pow(10.0, static_cast<double>(c.integer("decimals")));
  if (scale == 1) return same<"Round">(c);
  const std::string factor = number(c, scale);
  c.set(c.node("Div", {c.node("Round", {c.node("Mul", {operand(c, 0), factor})}), factor}));
}
/// max(a, b) + log1p(exp(-|a - b|)).
void logaddexp(Call& c) {
  const std::string a = operand(c, 0), b = operand(c, 1);
  const std::string apart = c.node("Neg", {c.node("Abs", {c.node("Sub", {a, b})})});
  c.set(c.node("Add", {c.node("Max", {a, b}), c.node("Softplus", {apart})}));
}

void to_dtype(Call& c) { c.set(operand(c, 0)); }
/// The value under another name.
void renamed(Call& c) {
  for (std::size_t i = 0; i < c.num_outputs(); ++i) c.set(i, c.input(i, c.out(i).dtype()));
}

constexpr Mapping kMappings[]{
    {kSameValues, renamed},
    {"identity", renamed},
    {"clone", renamed},
    {"to_device", renamed},
    {"to_dtype", to_dtype},
    {"abs", same<"Abs">},
    {"neg", same<"Neg">},
    {"sign", same<"Sign">},
    {"exp", same<"Exp">},
    {"log", same<"Log">},
    {"sqrt", same<"Sqrt">},
    {"reciprocal", same<"Reciprocal">},
    {"erf", same<"Erf">},
    {"ceil", same<"Ceil">},
    {"floor", same<"Floor">},
    {"sin", same<"Sin">},
    {"cos", same<"Cos">},
    {"tan", same<"Tan">},
    {"asin", same<"Asin">},
    {"acos", same<"Acos">},
    {"atan", same<"Atan">},
    {"sinh", same<"Sinh">},
    {"cosh", same<"Cosh">},
    {"square", square},
    {"rsqrt", rsqrt},
    {"expm1", expm1},
    {"log1p", log1p},
    {"log2", log2},
    {"log10", log10},
    {"trunc", trunc},
    {"round", round},
    {"logaddexp", logaddexp},
    {"add", scaled<"Add">},
    {"sub", scaled<"Sub">},
    {"mul", same<"Mul", 2>},
    {"div", divide<false>},
    {"pow", same<"Pow", 2>},
    {"maximum", same<"Max", 2>},
    {"minimum", same<"Min", 2>},
    {"remainder", remainder<false>},
    {"fmod", fmod<false>},
    {"add_scalar", with_number<"Add">},
    {"mul_scalar", with_number<"Mul">},
    {"div_scalar", divide<true>},
    {"rsub_scalar", from_number<"Sub">},
    {"rdiv_scalar", from_number<"Div">},
    {"pow_scalar_base", from_number<"Pow">},
    {"pow_scalar_exp", pow_number},
    {"remainder_scalar", remainder<true>},
    {"fmod_scalar", fmod<true>},
    {"eq", compare<"Equal">},
    {"ne", not_equal},
    {"lt", compare<"Less">},
    {"le", compare<"LessOrEqual">},
    {"gt", compare<"Greater">},
    {"ge", compare<"GreaterOrEqual">},
    {"eq_scalar", compare_number<"Equal">},
    {"ne_scalar", not_equal_number},
    {"lt_scalar", compare_number<"Less">},
    {"le_scalar", compare_number<"LessOrEqual">},
    {"gt_scalar", compare_number<"Greater">},
    {"ge_scalar", compare_number<"GreaterOrEqual">},
    {"logical_and", logical<"And", 2>},
    {"logical_or", logical<"Or", 2>},
    {"logical_not", logical<"Not", 1>},
    {"isnan", test<"IsNaN">},
    {"isinf", test<"IsInf">},
    {"isfinite", is_finite},
    {"where", where<1, 2>},
    {"masked_fill", masked_fill},
    {"clamp", clamp},
    {"clamp_tensor", clamp_tensor},
    {"lerp", lerp},
    {"lerp_scalar", lerp_number},
    {"addcmul", add_scaled<"Mul">},
    {"addcdiv", add_scaled<"Div">},
};

}  // namespace

std::span<const Mapping> pointwise_mappings() { return kMappings; }

}  // namespace mezzo::onnx
