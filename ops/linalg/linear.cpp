// linear: a product with a bias, rounded once.
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/linalg/float8.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

// --- linear

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_dims("linear", "a weight", weight, 2);
  if (x.dim() == 0) throw ShapeError("linear", "an input with at least 1 dim", "[]", "unsqueeze it");
  if (x.size(-1) != weight.size(1)) {
    throw ShapeError(
        "linear",
        "an input [.., " + std::to_string(weight.size(1)) + "] for a weight " + to_string(weight.shape()),
        to_string(x.shape()), "did you mean in_features = " + std::to_string(x.size(-1)) + "?");
  }
  static_cast<void>(product_dtype("linear", x, weight, {}));
  if (!bias.defined()) return;
  if (bias.shape() != Shape{weight.size(0)}) {
    throw ShapeError("linear", "a bias " + to_string(Shape{weight.size(0)}), to_string(bias.shape()),
                     "give it one element per output feature");
  }
  static_cast<void>(product_dtype("linear", x, bias, {}));
}

Outputs linear_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &x = args.in(0), &weight = args.in(1), &bias = args.in(2);
  check_linear(x, weight, bias);
  Shape shape = x.shape();
  shape.back() = weight.size(0);
  const Tensor out = empty(shape, options_of(x));
  const std::int64_t rows = rows_of(shape);
  const Shape flat{rows, weight.size(0)};
  const Tensor x_rows = x.dim() == 2 ? x : reshape(x, {rows, weight.size(1)});
  product_into(alias(out, flat, layout::contiguous_strides(flat), 0, false), x_rows, transpose(weight, 0, 1),
               1, 0, {.bias = bias.defined() ? bias.contiguous() : bias});
  return out;
}

// The gradients of weight and bias in one pass over the gradient, where the device's product can sum rows.

struct LinearBackwardAttrs {
  std::optional<DType> dtype;  ///< of both
  MEZZO_FIELDS(LinearBackwardAttrs, dtype)
};

Outputs linear_backward_forward(const ForwardArgs<LinearBackwardAttrs>& args) {
  const Tensor &grad = args.in(0), &x = args.in(1);
  require_dims("linear_backward", "a gradient", grad, 2);
  require_dims("linear_backward", "an input", x, 2);
  const DType dtype = product_dtype("linear_backward", grad, x, args.attrs.dtype);
  require_inner("linear_backward", grad, x, grad.size(0), x.size(0));
  const TensorOptions options{.dtype = dtype, .device = x.device()};
  const Tensor weight = empty({grad.size(1), x.size(1)}, options), bias = empty({grad.size(1)}, options);
  product_into(weight, transpose(grad, 0, 1), x, 1, 0, {.row_sums = bias});
  return {weight, bias};
}

Outputs linear_backward_reference(const ForwardArgs<LinearBackwardAttrs>& args) {
  const DType dtype = args.attrs.dtype.value_or(args.in(0).dtype());
  return {matmul(transpose(args.in(0), 0, 1), args.in(1), dtype), sum(args.in(0), {0}, false, dtype)};
}

std::vector<Sample<LinearBackwardAttrs>> linear_backward_samples() {
  using op_samples::real;
  return {{{real({3, 5}), real({3, 4})}, {}},
          {{real({7, 1}), real({7, 2})}, {DType::f64}},
          {{real({0, 3}), real({0, 2})}, {}}};
}
constexpr Op<LinearBackwardAttrs> linear_backward_op = gradient_op<LinearBackwardAttrs>(
    "linear_backward", linear_backward_samples, linear_backward_forward, linear_backward_reference);

Gradients linear_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor(), Tensor()};
  const std::int64_t rows = rows_of(args.out_shape());
  const Tensor g_rows = g.dim() == 2 ? g : reshape(g, {rows, g.size(-1)});
  if (args.needs(0)) result[0] = matmul(g, args.in(1), args.wanted(0));
  if (!args.needs(1) && !args.needs(2)) return result;
  const Tensor x = args.needs(1) ? args.in(0) : Tensor();
  const Tensor x_rows = !args.needs(1) || x.dim() == 2 ? x : reshape(x, {rows, x.size(-1)});
  if (args.needs(1) && args.needs(2) && args.wanted(1) == args.wanted(2)) {
    const Tensors both = bind(linear_backward_op, {g_rows, x_rows}, LinearBackwardAttrs{args.wanted(1)});
    result[1] = both[0], result[2] = both[1];
    return result;
  }
  if (args.needs(1)) result[1] = matmul(transpose(g_rows, 0, 1), x_rows, args.wanted(1));
  if (args.needs(2)) result[2] = sum(g_rows, {0}, false, args.wanted(2));
  return result;
}

std::vector<Sample<NoAttrs>> linear_samples() {
  using op_samples::real;
  return {{{real({3, 4}), real({5, 4}), real({5})}},
          {{real({2, 3, 4}), real({5, 4}), op_samples::absent()}},
          {{real({4}), real({2, 4}), real({2})}},
          {{real({0, 4}), real({3, 4}), real({3})}},
          {{real({2, 3, 4}), real({0, 4}), real({0})}}};
}
Float8Product linear_float8(const ForwardArgs<NoAttrs>& args) {
  const Tensor &x = args.in(0), &weight = args.in(1), &bias = args.in(2);
  const bool fits = x.defined() && weight.defined() && x.dim() > 0 && weight.dim() == 2 &&
                    x.size(-1) == weight.size(1) &&
                    (!bias.defined() || bias.shape() == Shape{weight.size(0)});
  return fits ? Float8Product{x, weight, bias} : Float8Product{};
}
constexpr Float8Form<NoAttrs> kLinearFloat8{linear_float8, run_linear_f8};

constexpr Op<NoAttrs> linear_op{
    .info = {.name = "linear",
             .category = Category::lower_precision,
             .optional_inputs = tensor_set(2),
             .runs_in_float8 = true},
    .samples = linear_samples,
    .forward = linear_forward,
    .vjp = linear_vjp,
    .saves = save_factors(0, 1),
    .float8 = &kLinearFloat8,
};

const Registered linear_registered{linear_backward_op, linear_op};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return bind(linear_op, {x, weight, bias});
}

}  // namespace mezzo
