// linear and addmm: products with something added, rounded once.
#include "mezzo/ops/copy_into.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/product.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"

namespace mezzo {

namespace {

using namespace ops;

/// A new tensor of this shape and dtype that holds `x` broadcast; the product is then added to it in the
/// sum's precision. What is not read stays empty.
Tensor start_from(const Tensor& x, const Shape& shape, DType dtype, bool read) {
  const Tensor out = empty(shape, {.dtype = dtype, .device = x.device()});
  const Tensor source = expand(x, shape);
  if (read) copy_into(out, source);
  return out;
}

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
  const Tensor out = bias.defined() ? start_from(bias, shape, x.dtype(), true) : empty(shape, options_of(x));
  const std::int64_t rows = layout::numel(shape) / std::max<std::int64_t>(weight.size(0), 1);
  const Shape flat{rows, weight.size(0)};
  const Tensor x_rows = x.dim() == 2 ? x : reshape(x, {rows, weight.size(1)});
  product_into(alias(out, flat, layout::contiguous_strides(flat), 0, false), x_rows, transpose(weight, 0, 1),
               1, bias.defined() ? 1 : 0);
  return out;
}

Gradients linear_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor(), Tensor()};
  const std::int64_t rows = layout::numel(args.out_shape()) / std::max<std::int64_t>(g.size(-1), 1);
  const Tensor g_rows = g.dim() == 2 ? g : reshape(g, {rows, g.size(-1)});
  if (args.needs(0)) result[0] = matmul(g, args.in(1), args.wanted(0));
  if (args.needs(1)) {
    const Tensor x = args.in(0);
    const Tensor x_rows = x.dim() == 2 ? x : reshape(x, {rows, x.size(-1)});
    result[1] = matmul(transpose(g_rows, 0, 1), x_rows, args.wanted(1));
  }
  if (args.needs(2)) result[2] = sum(g_rows, {0}, false, args.wanted(2));
  return result;
}

std::vector<Sample<NoAttrs>> linear_samples() {
  using samples::real;
  return {{{real({3, 4}), real({5, 4}), real({5})}},
          {{real({2, 3, 4}), real({5, 4}), samples::absent()}},
          {{real({4}), real({2, 4}), real({2})}},
          {{real({0, 4}), real({3, 4}), real({3})}}};
}
constexpr Op<NoAttrs> linear_op{
    .info = {.name = "linear", .category = Category::lower_precision, .optional_inputs = tensor_set(2)},
    .samples = linear_samples,
    .forward = linear_forward,
    .vjp = linear_vjp,
    .saves = save_inputs(0, 1),
};
const Registered linear_registered{linear_op};

// --- addmm

struct AddmmAttrs {
  Scalar beta = 1;
  Scalar alpha = 1;
  static constexpr auto fields() {
    return std::tuple{attr("beta", &AddmmAttrs::beta), attr("alpha", &AddmmAttrs::alpha)};
  }
};

Outputs addmm_forward(const ForwardArgs<AddmmAttrs>& args) {
  const Tensor &x = args.in(0), &a = args.in(1), &b = args.in(2);
  require_dims("addmm", "a first matrix", a, 2);
  require_dims("addmm", "a second matrix", b, 2);
  const DType dtype = product_dtype("addmm", a, b, {});
  static_cast<void>(product_dtype("addmm", x, a, {}));
  require_inner("addmm", a, b, a.size(1), b.size(0));
  const double beta = args.attrs.beta.real();
  const Tensor out = start_from(x, {a.size(0), b.size(1)}, dtype, beta != 0);
  product_into(out, a, b, args.attrs.alpha.real(), beta);
  return out;
}

Gradients addmm_vjp(const VjpArgs<AddmmAttrs>& args) {
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor(), Tensor()};
  if (args.needs(0)) result[0] = mul(g, args.attrs.beta);
  // alpha scales the small factor's side once, in f32, by way of the product's own gradient.
  if (args.needs(1))
    result[1] = mul(matmul(g, transpose(args.in(2), 0, 1), args.wanted(1)), args.attrs.alpha);
  if (args.needs(2))
    result[2] = mul(matmul(transpose(args.in(1), 0, 1), g, args.wanted(2)), args.attrs.alpha);
  return result;
}

std::vector<Sample<AddmmAttrs>> addmm_samples() {
  using samples::real;
  return {{{real({3, 5}), real({3, 4}), real({4, 5})}},
          {{real({5}), real({3, 4}), real({4, 5})}, {.beta = 0.5, .alpha = -2}},
          {{real({}), real({2, 3}), real({3, 2})}, {.beta = 0, .alpha = 1}}};
}
constexpr Op<AddmmAttrs> addmm_op{
    .info = {.name = "addmm", .category = Category::lower_precision},
    .samples = addmm_samples,
    .forward = addmm_forward,
    .vjp = addmm_vjp,
    .saves = save_inputs(1, 2),
};
const Registered addmm_registered{addmm_op};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return bind(linear_op, {x, weight, bias});
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return bind(addmm_op, {x, a, b}, AddmmAttrs{beta, alpha});
}

}  // namespace mezzo
