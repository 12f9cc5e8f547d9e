// matmul, mm, bmm, mv, dot, vdot, outer.
#include "mezzo/ops/matmul.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/linalg/float8.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

struct ProductAttrs {
  std::optional<DType> out_dtype;
  MEZZO_FIELDS(ProductAttrs, out_dtype)
};

/// The transpose of the last two dims.
Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

/// x as the left or the right matrix of a product: a vector becomes one.
Tensor left_operand(const Tensor& x) { return x.dim() == 1 ? unsqueeze(x, 0) : x; }
Tensor right_operand(const Tensor& x) { return x.dim() == 1 ? unsqueeze(x, 1) : x; }

/// g b^T and a^T g, the gradients of a x b with matrices in the last two dims, each in the dtype its owner
/// wants. Inputs 0 and 1 of the op are these matrices, or vectors that stand for them.
Gradients product_gradients(const VjpContext& args, const Tensor& g) {
  Gradients result{Tensor(), Tensor()};
  if (args.needs(0)) result[0] = matmul(g, transposed(right_operand(args.in(1))), args.wanted(0));
  if (args.needs(1)) {
    const Tensor a = left_operand(args.in(0));
    // With a plain matrix b, the batch dims of a and g are only more rows: one product instead of a sum of
    // many.
    const bool fold = args.in_shape(1).size() <= 2 && a.dim() > 2 && a.numel() > 0 && g.numel() > 0;
    const Tensor rows_a = fold ? reshape(a, {-1, a.size(-1)}) : a;
    const Tensor rows_g = fold ? reshape(g, {-1, g.size(-1)}) : g;
    result[1] = matmul(transposed(rows_a), rows_g, args.wanted(1));
  }
  return result;
}

// --- matmul

Outputs matmul_forward(const ForwardArgs<ProductAttrs>& args) {
  if (args.in(0).dim() == 0 || args.in(1).dim() == 0) {
    throw ShapeError("matmul", "operands with at least 1 dim",
                     to_string(args.in(0).shape()) + " x " + to_string(args.in(1).shape()),
                     "use mul for numbers");
  }
  const DType dtype = product_dtype("matmul", args.in(0), args.in(1), args.attrs.out_dtype);
  const Tensor a = left_operand(args.in(0)), b = right_operand(args.in(1));
  require_inner("matmul", args.in(0), args.in(1), a.size(-1), b.size(-2));
  const auto batch = [](const Tensor& x) {
    return Shape(std::span<const std::int64_t>(x.shape()).first(x.shape().size() - 2));
  };
  Shape shape = layout::broadcast("matmul", batch(a), batch(b));
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  const Tensor out = empty(shape, {.dtype = dtype, .device = a.device()});
  product_into(out, a, b);
  if (args.in(1).dim() == 1) shape.pop_back();
  if (args.in(0).dim() == 1) shape.erase(shape.size() - (args.in(1).dim() == 1 ? 1 : 2));
  return alias(out, shape, layout::contiguous_strides(shape), 0, false);
}

Gradients matmul_vjp(const VjpArgs<ProductAttrs>& args) {
  const bool from_row = args.in_shape(0).size() == 1, from_column = args.in_shape(1).size() == 1;
  Tensor g = args.grad();
  if (from_column) g = unsqueeze(g, -1);
  if (from_row) g = unsqueeze(g, -2);
  Gradients result = product_gradients(args, g);
  // A vector's gradient still has the dim that made it a matrix; batch dims are the engine's to sum.
  if (from_row && result[0].defined()) result[0] = squeeze(result[0], {-2});
  if (from_column && result[1].defined()) result[1] = squeeze(result[1], {-1});
  return result;
}

std::vector<Sample<ProductAttrs>> matmul_samples() {
  using op_samples::real;
  return {{{real({3, 4}), real({4, 5})}},          {{real({2, 3, 4}), real({4, 5})}},
          {{real({2, 1, 3, 4}), real({3, 4, 2})}}, {{real({4}), real({4})}},
          {{real({2, 3, 4}), real({4})}},          {{real({4}), real({2, 4, 3})}},
          {{real({3, 0}), real({0, 2})}},          {{real({4, 3}), real({2, 3, 5})}},
          {{real({2, 3, 4}), real({4, 0})}}};
}
/// Of two matrices, without a dtype for the result.
Float8Product product_float8(const ForwardArgs<ProductAttrs>& args) {
  return args.attrs.out_dtype ? Float8Product{} : product_of_matrices(args.in(0), args.in(1));
}
constexpr Float8Form<ProductAttrs> kProductFloat8{product_float8, run_linear_f8};

constexpr Op<ProductAttrs> matmul_op{
    .info = {.name = "matmul", .category = Category::lower_precision, .runs_in_float8 = true},
    .samples = matmul_samples,
    .forward = matmul_forward,
    .vjp = matmul_vjp,
    .saves = save_factors(0, 1),
    .float8 = &kProductFloat8,
};

// --- mm, bmm

template <int dims>
constexpr const char* kProductName = dims == 2 ? "mm" : "bmm";

template <int dims>
Outputs same_rank_forward(const ForwardArgs<ProductAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  const std::string_view op = kProductName<dims>;
  require_dims(op, "a first operand", a, dims);
  require_dims(op, "a second operand", b, dims);
  const DType dtype = product_dtype(op, a, b, args.attrs.out_dtype);
  require_inner(op, a, b, a.size(-1), b.size(-2));
  if (dims == 3 && a.size(0) != b.size(0)) {
    throw ShapeError(op, "equal batch sizes", to_string(a.shape()) + " x " + to_string(b.shape()),
                     "use matmul, which broadcasts");
  }
  Shape shape = a.shape();
  shape.back() = b.size(-1);
  const Tensor out = empty(shape, {.dtype = dtype, .device = a.device()});
  product_into(out, a, b);
  return out;
}
Gradients same_rank_vjp(const VjpArgs<ProductAttrs>& args) { return product_gradients(args, args.grad()); }

std::vector<Sample<ProductAttrs>> mm_samples() {
  using op_samples::real;
  return {{{real({3, 4}), real({4, 5})}}, {{real({1, 7}), real({7, 2})}}, {{real({2, 0}), real({0, 3})}}};
}
constexpr Op<ProductAttrs> mm_op{
    .info = {.name = "mm", .category = Category::lower_precision, .runs_in_float8 = true},
    .samples = mm_samples,
    .forward = same_rank_forward<2>,
    .vjp = same_rank_vjp,
    .saves = save_factors(0, 1),
    .float8 = &kProductFloat8,
};

std::vector<Sample<ProductAttrs>> bmm_samples() {
  using op_samples::real;
  return {{{real({2, 3, 4}), real({2, 4, 5})}},
          {{real({3, 1, 2}), real({3, 2, 1})}},
          {{real({0, 2, 3}), real({0, 3, 2})}}};
}
constexpr Op<ProductAttrs> bmm_op = plain_op<ProductAttrs>(
    "bmm", Category::lower_precision, bmm_samples, same_rank_forward<3>, same_rank_vjp, save_factors(0, 1));

// --- mv

Outputs mv_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &a = args.in(0), &v = args.in(1);
  require_dims("mv", "a matrix", a, 2);
  require_dims("mv", "a vector", v, 1);
  const DType dtype = product_dtype("mv", a, v, {});
  require_inner("mv", a, v, a.size(1), v.size(0));
  const Tensor out = empty({a.size(0)}, {.dtype = dtype, .device = a.device()});
  product_into(unsqueeze(out, 1), a, unsqueeze(v, 1));
  return out;
}
Gradients mv_vjp(const VjpArgs<NoAttrs>& args) {
  Gradients result = product_gradients(args, unsqueeze(args.grad(), 1));
  if (result[1].defined()) result[1] = squeeze(result[1], {1});
  return result;
}
std::vector<Sample<NoAttrs>> mv_samples() {
  return {{{op_samples::real({3, 4}), op_samples::real({4})}},
          {{op_samples::real({2, 0}), op_samples::real({0})}}};
}
constexpr Op<NoAttrs> mv_op =
    plain_op("mv", Category::lower_precision, mv_samples, mv_forward, mv_vjp, save_factors(0, 1));

// --- dot and vdot, which differ for complex numbers only

template <bool v>
constexpr const char* kDotName = v ? "vdot" : "dot";

template <bool v>
Outputs dot_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  const std::string_view op = kDotName<v>;
  require_dims(op, "a first vector", a, 1);
  require_dims(op, "a second vector", b, 1);
  const DType dtype = product_dtype(op, a, b, {});
  require_inner(op, a, b, a.size(0), b.size(0));
  const Tensor out = empty({1, 1}, {.dtype = dtype, .device = a.device()});
  product_into(out, unsqueeze(a, 0), unsqueeze(b, 1));
  return alias(out, {}, {}, 0, false);
}
Gradients dot_vjp(const VjpArgs<NoAttrs>& args) {
  Gradients result{Tensor(), Tensor()};
  if (args.needs(0)) result[0] = mul(args.grad(), args.in(1));
  if (args.needs(1)) result[1] = mul(args.grad(), args.in(0));
  return result;
}
std::vector<Sample<NoAttrs>> dot_samples() {
  return {{{op_samples::real({5}), op_samples::real({5})}}, {{op_samples::real({0}), op_samples::real({0})}}};
}
template <bool v>
constexpr Op<NoAttrs> kDotOp = plain_op(kDotName<v>, Category::promote, dot_samples, dot_forward<v>, dot_vjp,
                                        save_factors(0, 1));

// --- outer

Outputs outer_forward(const ForwardArgs<NoAttrs>& args) {
  require_dims("outer", "a first vector", args.in(0), 1);
  require_dims("outer", "a second vector", args.in(1), 1);
  return mul(unsqueeze(args.in(0), 1), args.in(1));
}
Gradients outer_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor g = args.grad();
  // One vector may be of integers, which matmul takes among their own kind only.
  const auto other = [&](std::size_t i) {
    const Tensor x = args.in(i);
    return is_floating(x.dtype()) ? x : to(x, g.dtype());
  };
  Gradients result{Tensor(), Tensor()};
  if (args.needs(0)) result[0] = matmul(g, other(1), args.wanted(0));
  if (args.needs(1)) result[1] = matmul(other(0), g, args.wanted(1));
  return result;
}
std::vector<Sample<NoAttrs>> outer_samples() { return {{{op_samples::real({3}), op_samples::real({5})}}}; }
constexpr Op<NoAttrs> outer_op =
    plain_op("outer", Category::passthrough, outer_samples, outer_forward, outer_vjp, save_factors(0, 1));

/// Throws unless the product of a and b, as mm takes them, can be written to `out`.
void require_target(const Tensor& out, const Tensor& a, const Tensor& b) {
  constexpr std::string_view op = "mm_out";
  for (const Tensor* tensor : {&out, &a, &b}) {
    require_defined(op, *tensor);
    require_dims(op, "matrices", *tensor, 2);
    if (!(tensor->device() == out.device())) {
      throw DeviceError(op, "all on " + to_string(out.device()), to_string(tensor->device()),
                        "move them together with to(device)");
    }
    if (grad_enabled() && tensor->requires_grad()) {
      throw AutogradError(op, "tensors without gradients", "one that requires grad",
                          "use mm, or write under NoGrad");
    }
  }
  require_inner(op, a, b, a.size(1), b.size(0));
  if (out.shape() != Shape{a.size(0), b.size(1)}) {
    throw ShapeError(op, "an out of shape " + to_string(Shape{a.size(0), b.size(1)}), to_string(out.shape()),
                     "make it with empty(shape)");
  }
  if (out.dtype() != product_dtype(op, a, b, {})) {
    throw DTypeError(op, "an out of " + to_string(a.dtype()), to_string(out.dtype()),
                     "use mm, which takes an out_dtype");
  }
  const auto shares = [&](const Tensor& x) { return x.impl().storage == out.impl().storage; };
  if (shares(a) || shares(b))
    throw ValueError(op, "an out with memory of its own", "memory of an operand", "use mm");
  if (!out.is_contiguous() && !transposed(out).is_contiguous()) {
    throw ShapeError(op, "a dense out", "strides " + to_string(out.strides()), "make it with empty(shape)");
  }
}

const Registered matmul_registered{matmul_op, mm_op, bmm_op, mv_op, kDotOp<false>, kDotOp<true>, outer_op};

}  // namespace

const Tensor& mm_out(const Tensor& out, const Tensor& a, const Tensor& b) {
  require_target(out, a, b);
  product_into(out, a, b);
  out.impl().storage->bump_version();
  return out;
}

Tensor matmul(const Tensor& a, const Tensor& b, std::optional<DType> out_dtype) {
  return bind(matmul_op, {a, b}, ProductAttrs{out_dtype});
}
Tensor mm(const Tensor& a, const Tensor& b, std::optional<DType> out_dtype) {
  return bind(mm_op, {a, b}, ProductAttrs{out_dtype});
}
Tensor bmm(const Tensor& a, const Tensor& b, std::optional<DType> out_dtype) {
  return bind(bmm_op, {a, b}, ProductAttrs{out_dtype});
}
Tensor mv(const Tensor& a, const Tensor& v) { return bind(mv_op, {a, v}); }
Tensor dot(const Tensor& a, const Tensor& b) { return bind(kDotOp<false>, {a, b}); }
Tensor vdot(const Tensor& a, const Tensor& b) { return bind(kDotOp<true>, {a, b}); }
Tensor outer(const Tensor& a, const Tensor& b) { return bind(outer_op, {a, b}); }

}  // namespace mezzo
