// Float8: quantisation, and linear in float8. Inputs and weights are e4m3, each by a scale of its own;
// gradients e5m2. Backward keeps codes, a byte an element. Products of codes are exact in f32 (8 bits of
// significand), so they are those of bf16 up to the order of sums; a second gradient is the plain product's.
#include "mezzo/ops/float8.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/kernels/quantize/quantize.h"
#include "mezzo/ops/linalg/float8.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

void require_float8(std::string_view op, DType dtype) {
  if (is_float8(dtype)) return;
  throw DTypeError(op, "f8_e4m3 or f8_e5m2", to_string(dtype), "name one of them");
}

/// Throws unless the tensor can be quantised.
void require_quantizable(std::string_view op, const Tensor& x) {
  if (x.dtype() == DType::f32 || is_16bit(x.dtype())) return;
  throw DTypeError(op, "an f16, bf16 or f32 tensor", to_string(x.dtype()), "cast it with to(DType::f32)");
}

/// Throws unless results may have this dtype.
void require_result(std::string_view op, DType dtype) {
  if (dtype == DType::f32 || is_16bit(dtype)) return;
  throw DTypeError(op, "a result in f16, bf16 or f32", to_string(dtype), "name one of them");
}

void require_inverse(std::string_view op, const Tensor& inverse) {
  if (inverse.dtype() == DType::f32) return;
  throw DTypeError(op, "an inverse scale of f32", to_string(inverse.dtype()), "give it as quantize_f8 does");
}

/// Throws unless the tensors are codes, perhaps widened, and one inverse scale for all of them.
void require_codes(std::string_view op, const Tensor& codes, const Tensor& inverse) {
  if (!is_float8(codes.dtype())) require_quantizable(op, codes);
  require_inverse(op, inverse);
  if (inverse.numel() == 1) return;
  throw ShapeError(op, "one inverse scale for all codes", to_string(inverse.shape()),
                   "quantise without per_row");
}

/// The codes of x, which counts as rounded to `rounded`, with scale and inverse. Those of a matrix by columns
/// lie by columns too.
QuantizedF8 quantized(const Tensor& x, DType rounded, const QuantizeF8Options& options) {
  if (x.dim() == 2 && !options.per_row && !x.is_contiguous() && transpose(x, 0, 1).is_contiguous()) {
    QuantizedF8 result = quantized(transpose(x, 0, 1), rounded, options);
    result.codes = transpose(result.codes, 0, 1);
    return result;
  }
  const Tensor source = x.contiguous();
  const std::int64_t columns = options.per_row ? x.size(-1) : x.numel(),
                     rows = options.per_row ? (columns == 0 ? 0 : x.numel() / columns) : 1;
  Shape scales;
  if (options.per_row) {
    scales = x.shape();
    scales.back() = 1;
  }
  const TensorOptions f32{.device = x.device()};
  QuantizedF8 result{empty(x.shape(), {.dtype = options.dtype, .device = x.device()}), empty(scales, f32),
                     empty(scales, f32)};
  kernels::quantize_float8(x.device(), {.x = source.impl().data(),
                                        .dtype = source.dtype(),
                                        .rounded = rounded,
                                        .rows = columns == 0 ? layout::numel(scales) : rows,
                                        .columns = columns,
                                        .format = options.dtype,
                                        .per_row = options.per_row,
                                        .power_of_two = options.power_of_two,
                                        .codes = result.codes.impl().data(),
                                        .scale = static_cast<float*>(result.scale.impl().data()),
                                        .inverse = static_cast<float*>(result.inverse.impl().data())});
  return result;
}

// --- quantize_f8, dequantize_f8

struct QuantizeF8Attrs {
  DType dtype = DType::f8_e4m3;
  bool power_of_two = false;
  bool per_row = false;
  DType rounded = DType::f32;  ///< x counts as rounded to it first; f32: as it is
  MEZZO_FIELDS(QuantizeF8Attrs, dtype, power_of_two, per_row, rounded)
};

Outputs quantize_f8_forward(const ForwardArgs<QuantizeF8Attrs>& args) {
  const Tensor& x = args.in(0);
  require_quantizable("quantize_f8", x);
  require_float8("quantize_f8", args.attrs.dtype);
  if (args.attrs.rounded != DType::f32 && !is_16bit(args.attrs.rounded))
    throw DTypeError("quantize_f8", "f16, bf16 or f32 to round to", to_string(args.attrs.rounded),
                     "leave it out");
  if (args.attrs.per_row && x.dim() == 0)
    throw ShapeError("quantize_f8", "a tensor with rows for per_row", "a 0-dim tensor", "leave per_row off");
  QuantizedF8 result = quantized(
      x, args.attrs.rounded,
      {.dtype = args.attrs.dtype, .power_of_two = args.attrs.power_of_two, .per_row = args.attrs.per_row});
  return Tensors{std::move(result.codes), std::move(result.scale), std::move(result.inverse)};
}
std::vector<Sample<QuantizeF8Attrs>> quantize_f8_samples() {
  using op_samples::real_f32;
  return {{{real_f32({3, 4})}},
          {{real_f32({3, 4})}, {DType::f8_e5m2, true, true}},
          {{real_f32({2, 0})}},
          {{real_f32({})}}};
}
constexpr Op<QuantizeF8Attrs> quantize_f8_op = plain_op<QuantizeF8Attrs>(
    "quantize_f8", Category::passthrough, quantize_f8_samples, quantize_f8_forward,
    NotDifferentiable{"codes are made to be multiplied; linear under amp::Fp8 has gradients"}, kSaveNothing);

struct DequantizeF8Attrs {
  DType dtype = DType::f32;
  MEZZO_FIELDS(DequantizeF8Attrs, dtype)
};

Outputs dequantize_f8_forward(const ForwardArgs<DequantizeF8Attrs>& args) {
  const Tensor &codes = args.in(0), &inverse = args.in(1);
  if (!is_float8(codes.dtype())) require_quantizable("dequantize_f8", codes);
  require_result("dequantize_f8", args.attrs.dtype);
  require_inverse("dequantize_f8", inverse);
  Shape per_row = codes.shape();
  if (!per_row.empty()) per_row.back() = 1;
  if (inverse.dim() != 0 && inverse.shape() != per_row) {
    throw ShapeError("dequantize_f8", "a 0-dim inverse, or one of shape " + to_string(per_row),
                     to_string(inverse.shape()), "give it as quantize_f8 does");
  }
  return to(mul(to(codes.contiguous(), DType::f32), inverse), args.attrs.dtype);
}
Gradients dequantize_f8_vjp(const VjpArgs<DequantizeF8Attrs>& args) {
  return {to(mul(args.grad(), args.in(1)), args.wanted(0)), Tensor()};
}
std::vector<Sample<DequantizeF8Attrs>> dequantize_f8_samples() {
  using op_samples::codes, op_samples::factor;
  return {{{codes({3, 4}), factor({})}}, {{codes({3, 4}), factor({3, 1})}, {DType::bf16}}};
}
constexpr Op<DequantizeF8Attrs> dequantize_f8_op{
    .info = {.name = "dequantize_f8", .category = Category::passthrough, .takes_float8 = true},
    .samples = dequantize_f8_samples,
    .forward = dequantize_f8_forward,
    .vjp = dequantize_f8_vjp,
    .saves = save_inputs(1),
};

// --- matmul_f8: the product of two matrices by their codes. `a` and `b`, from which the codes were made, are
// given where a second gradient may be asked for.

struct MatmulF8Attrs {
  DType dtype = DType::bf16;
  MEZZO_FIELDS(MatmulF8Attrs, dtype)
};

Outputs matmul_f8_forward(const ForwardArgs<MatmulF8Attrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(2);
  require_dims("matmul_f8", "a first operand", a, 2);
  require_dims("matmul_f8", "a second operand", b, 2);
  require_inner("matmul_f8", a, b, a.size(1), b.size(0));
  const DType dtype = args.attrs.dtype;
  if (dtype != DType::f64) require_result("matmul_f8", dtype);
  require_codes("matmul_f8", a, args.in(1));
  require_codes("matmul_f8", b, args.in(3));
  // Sums are in f32.
  const TensorOptions options{.dtype = dtype == DType::f64 ? DType::f32 : dtype, .device = a.device()};
  Tensor out = empty({a.size(0), b.size(1)}, options);
  product_into(out, a, b, 1, 0, {.a_scale = args.in(1), .b_scale = args.in(3)});
  return to(out, dtype);
}
Gradients matmul_f8_vjp(const VjpArgs<MatmulF8Attrs>& args) {
  Gradients result{Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  const Tensor g = args.grad();
  const auto operand = [&](std::size_t i) { return transpose(to(args.in(i), g.dtype()), 0, 1); };
  if (args.needs(4)) result[4] = matmul(g, operand(5), args.wanted(4));
  if (args.needs(5)) result[5] = matmul(operand(4), g, args.wanted(5));
  return result;
}
std::vector<Sample<MatmulF8Attrs>> matmul_f8_samples() {
  using op_samples::absent, op_samples::codes, op_samples::factor;
  return {{{codes({3, 16}), factor({}), codes({16, 32}), factor({}), absent(), absent()}, {DType::f32}}};
}
constexpr Op<MatmulF8Attrs> matmul_f8_op{
    .info = {.name = "matmul_f8",
             .category = Category::passthrough,
             .optional_inputs = tensor_set(4, 5),
             .takes_float8 = true},
    .samples = matmul_f8_samples,
    .forward = matmul_f8_forward,
    .vjp = matmul_f8_vjp,
    .saves = save_factors(4, 5),
};

/// The codes of x for products.
QuantizedF8 codes_of(const Tensor& x, DType rounded, DType format, bool power_of_two) {
  const NoInputHook no_autocast;
  Outputs made = bind(quantize_f8_op, {x}, QuantizeF8Attrs{format, power_of_two, false, rounded});
  return {made[0], made[1], made[2]};
}

// --- linear_f8: linear, computed from codes of x and weight, which themselves only give it its history.

struct LinearF8Attrs {
  DType dtype = DType::bf16;         ///< of the result
  DType gradients = DType::f8_e5m2;  ///< the format of its gradient
  bool power_of_two = false;         ///< of the gradient's scale
  MEZZO_FIELDS(LinearF8Attrs, dtype, gradients, power_of_two)
};

/// The inputs of linear_f8. Backward may have `kXCodes` in 16 bits: then the weight's gradient is a 16-bit
/// product (GradientWeight::high). It has none where the weight needs no gradient.
enum : std::size_t { kX, kWeight, kBias, kXCodes, kXInverse, kWeightCodes, kWeightInverse };

/// x as rows.
Tensor as_rows(const Tensor& x) { return x.dim() == 2 ? x : reshape(x, {rows_of(x.shape()), x.size(-1)}); }

void check_linear_f8(const ForwardArgs<LinearF8Attrs>& args) {
  constexpr std::string_view op = "linear_f8";
  const Tensor &codes = args.in(kXCodes), &weight = args.in(kWeightCodes), &bias = args.in(kBias);
  require_defined(op, codes);
  require_result(op, args.attrs.dtype);
  require_float8(op, args.attrs.gradients);
  require_codes(op, codes, args.in(kXInverse));
  require_codes(op, weight, args.in(kWeightInverse));
  require_dims(op, "a weight", weight, 2);
  if (codes.dim() == 0) throw ShapeError(op, "an input with at least 1 dim", "[]", "unsqueeze it");
  require_inner(op, codes, weight, codes.size(-1), weight.size(1));
  for (const auto& [tensor, of] : {std::pair{&args.in(kX), &codes}, std::pair{&args.in(kWeight), &weight}}) {
    if (tensor->shape() == of->shape()) continue;
    throw ShapeError(op, "codes of shape " + to_string(tensor->shape()), to_string(of->shape()),
                     "make them of this tensor");
  }
  if (!bias.defined()) return;
  require_floating(op, bias);
  if (bias.shape() == Shape{weight.size(0)}) return;
  throw ShapeError(op, "a bias " + to_string(Shape{weight.size(0)}), to_string(bias.shape()),
                   "give it one element per output feature");
}

Outputs linear_f8_forward(const ForwardArgs<LinearF8Attrs>& args) {
  check_linear_f8(args);
  const Tensor &codes = args.in(kXCodes), &weight = args.in(kWeightCodes), &bias = args.in(kBias);
  const Tensor rows = as_rows(codes);
  Shape shape = codes.shape();
  shape.back() = weight.size(0);
  const Tensor out = empty(shape, {.dtype = args.attrs.dtype, .device = rows.device()});
  const Shape flat{rows.size(0), weight.size(0)};
  product_into(alias(out, flat, layout::contiguous_strides(flat), 0, false), rows, transpose(weight, 0, 1), 1,
               0,
               {.bias = bias.defined() ? to(bias, args.attrs.dtype).contiguous() : Tensor(),
                .a_scale = args.in(kXInverse),
                .b_scale = args.in(kWeightInverse)});
  return out;
}

/// g^T x, the weight's gradient. `values`: x with its history, where a second gradient may follow.
Tensor gradient_of_weight(const Tensor& g, const QuantizedF8& codes, const Tensor& x, const Tensor& x_inverse,
                          const Tensor& values, DType dtype) {
  if (!is_float8(x.dtype()))
    return matmul(transpose(g, 0, 1), values.defined() ? to(values, x.dtype()) : x, dtype);
  return bind(matmul_f8_op,
              {transpose(codes.codes, 0, 1), codes.inverse, x, x_inverse,
               values.defined() ? transpose(g, 0, 1) : Tensor(), values},
              MatmulF8Attrs{dtype});
}

Gradients linear_f8_vjp(const VjpArgs<LinearF8Attrs>& args) {
  Gradients result{Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  const Tensor g = as_rows(args.grad());
  const bool again = grad_enabled();  // second gradients may follow: operands have their history then
  const auto values_of = [&](std::size_t i, const Tensor& codes, const Tensor& inverse) {
    if (!again) return Tensor();
    const NoGrad no_grad;
    const DType dtype = args.in_dtype(i);
    return args.in_as(i, inverse.defined() ? dequantize_f8(codes, inverse, dtype) : to(codes, dtype));
  };
  QuantizedF8 codes;
  if (args.needs(kX) || (args.needs(kWeight) && is_float8(args.in(kXCodes).dtype())))
    codes = codes_of(g.detach(), DType::f32, args.attrs.gradients, args.attrs.power_of_two);
  if (args.needs(kX)) {
    const Tensor w = args.in(kWeightCodes), inverse = args.in(kWeightInverse);
    const Tensor dx =
        bind(matmul_f8_op,
             {codes.codes, codes.inverse, w, inverse, again ? g : Tensor(), values_of(kWeight, w, inverse)},
             MatmulF8Attrs{args.wanted(kX)});
    result[kX] = reshape(dx, args.in_shape(kX));
  }
  if (args.needs(kWeight)) {
    const Tensor x = args.in(kXCodes), inverse = args.in(kXInverse);
    const Tensor values = values_of(kX, x, is_float8(x.dtype()) ? inverse : Tensor());
    result[kWeight] = gradient_of_weight(g, codes, as_rows(x), inverse,
                                         values.defined() ? as_rows(values) : values, args.wanted(kWeight));
  }
  if (args.needs(kBias)) result[kBias] = sum(g, {0}, false, args.wanted(kBias));
  return result;
}

std::vector<Sample<LinearF8Attrs>> linear_f8_samples() {
  using op_samples::absent, op_samples::codes, op_samples::factor, op_samples::real;
  return {
      {{real({3, 16}), real({32, 16}), real({32}), codes({3, 16}), factor({}), codes({32, 16}), factor({})}},
      {{real({2, 3, 32}), real({16, 32}), absent(), codes({2, 3, 32}), factor({}), codes({16, 32}),
        factor({})},
       {DType::f16, DType::f8_e4m3, true}}};
}
constexpr std::string_view kOfCodes =
    "computed from codes; tests/amp/float8_test.cpp compares with the exact product";
constexpr Op<LinearF8Attrs> linear_f8_op{
    .info = {.name = "linear_f8",
             .category = Category::passthrough,
             .optional_inputs = tensor_set(kBias, kXCodes),
             .takes_float8 = true,
             .opt_out = {.gradient = kOfCodes, .second_gradient = kOfCodes, .low_precision = kOfCodes}},
    .samples = linear_f8_samples,
    .forward = linear_f8_forward,
    .vjp = linear_f8_vjp,
    .saves = save_inputs(kXCodes, kXInverse, kWeightCodes, kWeightInverse),
};

const Registered float8_registered{quantize_f8_op, dequantize_f8_op, matmul_f8_op, linear_f8_op};

}  // namespace

void ops::quantize_input(Float8Request& request) {
  const Float8Product& product = request.product;
  QuantizedF8 codes =
      codes_of(product.x.detach(), request.dtype, DType::f8_e4m3, request.recipe.power_of_two);
  request.x_codes = std::move(codes.codes), request.x_inverse = std::move(codes.inverse);
}

namespace {

/// A weight's codes. A CPU multiplies them as bf16, so they are widened once.
QuantizedF8 codes_of_weight(const Float8Request& request) {
  const Tensor& weight = request.product.weight;
  QuantizedF8 made = codes_of(weight.detach(), request.dtype, DType::f8_e4m3, request.recipe.power_of_two);
  if (weight.device().is_cpu()) made.codes = to(made.codes, DType::bf16);
  return made;
}

}  // namespace

void ops::quantize_weight(Float8Request& request, bool kept) {
  const NoInputHook no_autocast;
  const Tensor& weight = request.product.weight;
  // In a captured step weights change between replays, so the graph makes their codes itself.
  if (!kept || mezzo::detail::Recording::of(weight.device()) != nullptr) {
    QuantizedF8 made = codes_of_weight(request);
    request.weight_codes = std::move(made.codes), request.weight_inverse = std::move(made.inverse);
    return;
  }
  autograd::AutogradMeta& meta = autograd::ensure_meta(weight);
  const std::scoped_lock lock(meta.lock);
  autograd::Float8Copy& copy = meta.float8_copy;
  const bool power_of_two = request.recipe.power_of_two;
  const bool fresh = copy.codes.defined() && copy.version == weight.version() &&
                     copy.rounded == request.dtype && copy.power_of_two == power_of_two;
  if (!fresh) {
    const mezzo::detail::InferenceFrame no_inference(
        mezzo::detail::Inference::off);              // it may outlive the mode
    const std::uint32_t version = weight.version();  // as a write meanwhile makes the codes old ones
    QuantizedF8 made = codes_of_weight(request);
    copy = {std::move(made.codes),
            std::move(made.inverse),
            version,
            request.dtype,
            power_of_two,
            mezzo::detail::StreamMark::here(weight.device())};
  }
  request.weight_codes = copy.codes, request.weight_inverse = copy.inverse;
  mezzo::detail::StreamMark::wait(copy.written, request.weight_codes);
}

Outputs ops::run_linear_f8(const Float8Request& request) {
  const Float8Product& product = request.product;
  const auto turned = [](const Tensor& x, bool transposed) { return transposed ? transpose(x, 0, 1) : x; };
  const NoInputHook no_autocast;
  const Tensor x = turned(product.x, product.transposed_x),
               weight = turned(product.weight, product.transposed_weight),
               codes = turned(request.x_codes, product.transposed_x),
               weight_codes = turned(request.weight_codes, product.transposed_weight);
  const LinearF8Attrs attrs{request.dtype, request.recipe.gradients, request.recipe.power_of_two};
  const auto inputs = [&](const Tensor& kept) {
    return std::array<TensorRef, 7>{
        x, weight, product.bias, kept, request.x_inverse, weight_codes, request.weight_inverse};
  };
  Outputs result = [&] {
    const NoGrad no_grad;
    const auto all = inputs(codes);
    return bind(linear_f8_op, Inputs(all), attrs);
  }();
  const bool bias_grad = product.bias.defined() && product.bias.requires_grad();
  if (grad_enabled() && (x.requires_grad() || weight.requires_grad() || bias_grad)) {
    Tensor kept;
    if (weight.requires_grad())
      kept = request.recipe.gradient_weight == GradientWeight::high ? to(x.detach(), request.dtype) : codes;
    const auto all = inputs(kept);
    record(linear_f8_op, Inputs(all), attrs, result);
  }
  return product.transposed_y ? Outputs(transpose(result[0], 0, 1)) : std::move(result);
}

Float8Product ops::product_of_matrices(const Tensor& a, const Tensor& b, const Tensor& bias) {
  const auto is_weight = [](const Tensor& x) { return x.is_leaf() && x.requires_grad(); };
  if (!a.defined() || !b.defined() || a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0)) return {};
  if (is_weight(b)) return {.x = a, .weight = b, .bias = bias, .transposed_weight = true};
  // (a b)^T = b^T a^T
  if (!is_weight(a) || bias.defined()) return {};
  return {.x = b, .weight = a, .transposed_x = true, .transposed_y = true};
}

QuantizedF8 quantize_f8(const Tensor& x, const QuantizeF8Options& options) {
  Outputs made = bind(quantize_f8_op, {x},
                      QuantizeF8Attrs{options.dtype, options.power_of_two, options.per_row, DType::f32});
  return {made[0], made[1], made[2]};
}

Tensor dequantize_f8(const Tensor& codes, const Tensor& inverse, DType dtype) {
  return bind(dequantize_f8_op, {codes, inverse}, DequantizeF8Attrs{dtype});
}

}  // namespace mezzo
