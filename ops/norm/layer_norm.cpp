// Descriptors of layer_norm, rms_norm and their backward ops.
#include "mezzo/ops/norm/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using kernels::RowNorm;
using op_samples::absent;
using op_samples::real;

struct LayerNormAttrs {
  Dims normalized_shape;
  double eps = 1e-5;
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(LayerNormAttrs, normalized_shape, eps, dtype)
};
struct RmsNormAttrs {
  Dims normalized_shape;
  std::optional<double> eps = {};
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(RmsNormAttrs, normalized_shape, eps, dtype)
};
/// Inputs of a backward op: grad, x, weight. Outputs are the gradients asked for.
struct BackwardAttrs : GradientAttrs {
  Dims normalized_shape;
  double eps = 1e-5;
  MEZZO_FIELDS(BackwardAttrs, normalized_shape, eps, input, weight, bias, input_dtype, parameter_dtype)
};

template <RowNorm kKind>
using AttrsOf = std::conditional_t<kKind == RowNorm::layer, LayerNormAttrs, RmsNormAttrs>;
constexpr std::string_view name_of(RowNorm kind) {
  return kind == RowNorm::layer ? "layer_norm" : "rms_norm";
}
constexpr std::string_view backward_name_of(RowNorm kind) {
  return kind == RowNorm::layer ? "layer_norm_backward" : "rms_norm_backward";
}

double eps_of(const LayerNormAttrs& attrs, DType /*input*/) { return attrs.eps; }
double eps_of(const RmsNormAttrs& attrs, DType input) {
  return attrs.eps.value_or(info(compute_dtype(input)).eps);
}

/// `input` is x's dtype, or that to which autocast widens x.
struct DTypes {
  DType input, result, compute;
};
template <RowNorm kKind>
DTypes dtypes_of(const ForwardArgs<AttrsOf<kKind>>& args) {
  const DType input = norm_dtype(name_of(kKind), args.in(0), args.run_dtype);
  const DType result = args.attrs.dtype.value_or(input);
  if (!is_floating(result))
    throw DTypeError(name_of(kKind), "a floating dtype", to_string(result), "use f32 or another");
  return {input, result, compute_dtype(promote(input, result))};
}

/// Throws unless x's shape ends with `normalized`.
void require_normalized_shape(std::string_view op, const Shape& x, const Dims& normalized) {
  if (normalized.empty())
    throw ShapeError(op, "a normalized_shape of at least 1 dim", "[]", "name the sizes of x's last dims");
  const bool fits =
      normalized.size() <= x.size() && std::equal(normalized.begin(), normalized.end(),
                                                  x.end() - static_cast<std::ptrdiff_t>(normalized.size()));
  if (fits) return;
  throw ShapeError(op, "x of shape [..., " + to_string(normalized).substr(1), to_string(x),
                   "normalized_shape are the sizes of x's last dims");
}

/// x with the normalized dims as one, the last.
Tensor as_rows(const Tensor& x, const Dims& normalized) {
  return normalized.size() == 1 ? x : flatten(x, -static_cast<std::int64_t>(normalized.size()), -1);
}

Dims last_dims(const Dims& normalized) {
  Dims dims;
  for (std::size_t i = normalized.size(); i > 0; --i) dims.push_back(-static_cast<std::int64_t>(i));
  return dims;
}

/// Inputs: x, weight, and for layer_norm bias.
template <RowNorm kKind>
Outputs forward(const ForwardArgs<AttrsOf<kKind>>& args) {
  constexpr std::string_view kName = name_of(kKind);
  const Tensor &x = args.in(0), &weight = args.in(1);
  const Tensor bias = kKind == RowNorm::layer ? args.in(2) : Tensor();
  const Dims& normalized = args.attrs.normalized_shape;
  const auto [input, result, compute] = dtypes_of<kKind>(args);
  require_normalized_shape(kName, x.shape(), normalized);
  require_parameter(kName, "a weight", weight, normalized, compute);
  require_parameter(kName, "a bias", bias, normalized, compute);
  Tensor out = empty(x.shape(), {.dtype = result, .device = x.device()});
  const Tensor in = as_rows(x, normalized), rows = as_rows(out, normalized);
  const Tensor factors = kernel_parameter(weight, compute), summands = kernel_parameter(bias, compute);
  kernels::row_norm(x.device(), kKind, view_of(rows), view_of(in),
                    {data_or_null(factors), data_or_null(summands)}, eps_of(args.attrs, input), compute);
  return out;
}

template <RowNorm kKind>
Outputs reference(const ForwardArgs<AttrsOf<kKind>>& args) {
  const auto [input, result, compute] = dtypes_of<kKind>(args);
  const ComposedNorm plain{.over = last_dims(args.attrs.normalized_shape),
                           .eps = eps_of(args.attrs, input),
                           .centered = kKind == RowNorm::layer,
                           .mean = {}};
  const Tensor bias = kKind == RowNorm::layer ? input_as(args, 2, compute) : Tensor();
  return to(plain.forward(input_as(args, 0, compute), input_as(args, 1, compute), bias), result);
}

DType backward_compute(const ForwardArgs<BackwardAttrs>& args) {
  return compute_dtype(promote(args.in(0).dtype(), args.in(1).dtype()));
}

template <RowNorm kKind>
Outputs backward_forward(const ForwardArgs<BackwardAttrs>& args) {
  constexpr std::string_view kName = backward_name_of(kKind);
  const GradientRequest request = request_of(kName, args);
  const Tensor &grad = args.in(0), &x = args.in(1), &weight = args.in(2);
  const Dims& normalized = args.attrs.normalized_shape;
  const DType compute = backward_compute(args);
  const Device device = x.device();
  require_normalized_shape(kName, x.shape(), normalized);
  require_parameter(kName, "a weight", weight, normalized, compute);
  const std::int64_t n = layout::numel(normalized);
  const std::int64_t rows = n == 0 ? 0 : x.numel() / n;
  const auto sums_for = [&](bool wanted) {
    const std::int64_t parts = wanted ? kernels::row_norm_parts(device, rows, n) : 0;
    return empty({parts, n}, {.dtype = compute, .device = device});
  };
  const Tensor weight_sums = sums_for(request.weight), bias_sums = sums_for(request.bias);
  const Tensor factors = kernel_parameter(weight, compute);
  const Tensor upstream = as_rows(grad, normalized), in = as_rows(x, normalized);
  Outputs outputs;
  kernels::View input;
  if (request.input) {
    outputs.push_back(empty(x.shape(), {.dtype = request.input_dtype, .device = device}));
    input = view_of(as_rows(outputs[0], normalized));
  }
  kernels::row_norm_backward(
      device, kKind,
      {request.input ? &input : nullptr, request.weight ? weight_sums.impl().data() : nullptr,
       request.bias ? bias_sums.impl().data() : nullptr},
      view_of(upstream), view_of(in), data_or_null(factors), args.attrs.eps, compute);
  const auto total = [&](const Tensor& sums) {
    return reshape(sum(sums, {0}, false, request.parameter_dtype), normalized);
  };
  if (request.weight) outputs.push_back(total(weight_sums));
  if (request.bias) outputs.push_back(total(bias_sums));
  return outputs;
}

template <RowNorm kKind>
Outputs backward_reference(const ForwardArgs<BackwardAttrs>& args) {
  const GradientRequest request = request_of(backward_name_of(kKind), args);
  const DType compute = backward_compute(args);
  const ComposedNorm plain{.over = last_dims(args.attrs.normalized_shape),
                           .eps = args.attrs.eps,
                           .centered = kKind == RowNorm::layer,
                           .mean = {}};
  return composed_norm_gradients(input_as(args, 0, compute), input_as(args, 1, compute),
                                 input_as(args, 2, compute), args.attrs.normalized_shape, request,
                                 std::bind_front(&ComposedNorm::forward, plain));
}

std::vector<Sample<BackwardAttrs>> backward_samples() {
  return {{{real({3, 5}), real({3, 5}), real({5})}, {{}, {5}}},
          {{real({2, 3, 4}), real({2, 3, 4}), real({3, 4})}, {{.input = false}, {3, 4}}},
          {{real({35, 3}), real({35, 3}), absent()}, {{.bias = false}, {3}, 0.1}},
          {{real({2, 19}), real({2, 19}), absent()}, {{.weight = false, .bias = false}, {19}}}};
}
template <RowNorm kKind>
constexpr Op<BackwardAttrs> kBackwardOp = gradient_op<BackwardAttrs>(backward_name_of(kKind),
                                                                     backward_samples,
                                                                     backward_forward<kKind>,
                                                                     backward_reference<kKind>,
                                                                     tensor_set(2));

template <RowNorm kKind>
Gradients vjp(const VjpArgs<AttrsOf<kKind>>& args) {
  constexpr bool kBias = kKind == RowNorm::layer;
  const std::optional<std::size_t> bias = kBias ? std::optional<std::size_t>(2) : std::nullopt;
  // Where a dtype is given autocast has not widened x; elsewhere the result has the dtype it took x in.
  const DType input = args.attrs.dtype ? args.stored_in(0).dtype() : args.out_dtype();
  const BackwardAttrs attrs{needed_gradients(args, 1, bias), args.attrs.normalized_shape,
                            eps_of(args.attrs, input)};
  return spread_gradients(
      attrs, bind(kBackwardOp<kKind>, {args.grad(), args.stored_in(0), args.stored_in(1)}, attrs),
      kBias ? 3 : 2, 1);
}

std::vector<Sample<LayerNormAttrs>> layer_samples() {
  return {{{real({3, 5}), real({5}), real({5})}, {.normalized_shape = {5}}},
          {{real({2, 3, 4}), real({3, 4}), absent()}, {.normalized_shape = {3, 4}, .eps = 0.1}},
          {{real({2, 2, 19}), absent(), real({19})}, {.normalized_shape = {19}}},
          {{real({2, 17}), real({17}), real({17})}, {.normalized_shape = {17}, .dtype = DType::f64}},
          {{real({35, 3}), absent(), absent()}, {.normalized_shape = {3}}},
          {{real({7}), real({7}), real({7})}, {.normalized_shape = {7}}}};
}
std::vector<Sample<RmsNormAttrs>> rms_samples() {
  // Without eps it depends on the dtype, so that dtypes could not be compared.
  return {{{real({3, 5}), real({5})}, {.normalized_shape = {5}, .eps = 1e-5}},
          {{real({2, 3, 4}), real({3, 4})}, {.normalized_shape = {3, 4}, .eps = 0.1}},
          {{real({35, 3}), absent()}, {.normalized_shape = {3}, .eps = 1e-5}},
          {{real({2, 17}), real({17})}, {.normalized_shape = {17}, .eps = 1e-5, .dtype = DType::f64}},
          {{real({19}), real({19})}, {.normalized_shape = {19}, .eps = 1e-5}}};
}

constexpr Op<LayerNormAttrs> layer_op = fused_op<LayerNormAttrs>(
    name_of(RowNorm::layer), Category::fp32, layer_samples, forward<RowNorm::layer>,
    reference<RowNorm::layer>, vjp<RowNorm::layer>, save_inputs(0, 1), tensor_set(1, 2));
constexpr Op<RmsNormAttrs> rms_op =
    fused_op<RmsNormAttrs>(name_of(RowNorm::rms), Category::fp32, rms_samples, forward<RowNorm::rms>,
                           reference<RowNorm::rms>, vjp<RowNorm::rms>, save_inputs(0, 1), tensor_set(1));

const Registered layer_norm_registered{layer_op, rms_op, kBackwardOp<RowNorm::layer>,
                                       kBackwardOp<RowNorm::rms>};

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps, std::optional<DType> dtype) {
  return bind(layer_op, {x, weight, bias}, LayerNormAttrs{normalized_shape, eps, dtype});
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps, std::optional<DType> dtype) {
  return bind(rms_op, {x, weight}, RmsNormAttrs{normalized_shape, eps, dtype});
}

}  // namespace mezzo
