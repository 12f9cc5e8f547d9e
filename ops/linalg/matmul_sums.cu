// addmm, addmv, addr, baddbmm, addbmm: beta * x + alpha * product, rounded once.
#include "mezzo/ops/linalg/float8.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/shape/copy_into.h"

namespace mezzo {

namespace {

using namespace ops;

struct MatmulSumAttrs {
  Scalar beta = 1;
  Scalar alpha = 1;
  MEZZO_FIELDS(MatmulSumAttrs, beta, alpha)
};

/// The parameters of one of these ops.
struct Form {
  std::string_view name;
  std::int64_t dims_a, dims_b;
  bool sums_batch = false;
};
constexpr Form kAddmm{"addmm", 2, 2};
constexpr Form kAddmv{"addmv", 2, 1};
constexpr Form kAddr{"addr", 1, 1};
constexpr Form kBaddbmm{"baddbmm", 3, 3};
constexpr Form kAddbmm{"addbmm", 3, 3, true};

// Vectors as matrices: all five are products of matrices then.

Tensor left_matrix(const Tensor& a) { return a.dim() == 1 ? unsqueeze(a, 1) : a; }
Tensor right_matrix(const Form& form, const Tensor& b) {
  return b.dim() == 1 ? unsqueeze(b, form.dims_a == 1 ? 0 : 1) : b;
}
/// The result, or its gradient.
Tensor result_matrix(const Tensor& out) { return out.dim() == 1 ? unsqueeze(out, 1) : out; }

Shape result_shape(const Form& form, const Tensor& a, const Tensor& b) {
  if (form.dims_b == 1) return form.dims_a == 1 ? Shape{a.size(0), b.size(0)} : Shape{a.size(0)};
  if (form.sums_batch || form.dims_a == 2) return {a.size(-2), b.size(-1)};
  return {a.size(0), a.size(1), b.size(2)};
}

void check(const Form& form, const Tensor& x, const Tensor& a, const Tensor& b) {
  require_dims(form.name, form.dims_a == 1 ? "a first vector" : "a first operand", a, form.dims_a);
  require_dims(form.name, form.dims_b == 1 ? "a vector" : "a second operand", b, form.dims_b);
  static_cast<void>(product_dtype(form.name, a, b, {}));
  static_cast<void>(product_dtype(form.name, x, a, {}));
  if (form.dims_a > 1) require_inner(form.name, a, b, a.size(-1), b.size(form.dims_b == 1 ? 0 : -2));
  if (form.dims_a == 3 && a.size(0) != b.size(0)) {
    throw ShapeError(form.name, "equal batch sizes", to_string(a.shape()) + " x " + to_string(b.shape()),
                     "expand the smaller one");
  }
}

/// A new tensor of this shape and dtype that holds `x` broadcast; the product is then added to it in the
/// sum's precision. Where `x` is not read, the tensor stays uninitialised.
Tensor start_from(std::string_view op, const Tensor& x, const Shape& shape, DType dtype, bool read) {
  Tensor out = empty(shape, {.dtype = dtype, .device = x.device()});
  const Dims strides = layout::expand_strides(op, x.shape(), x.strides(), shape);
  const Tensor source = alias(x, shape, strides, x.impl().offset, true);
  if (read) copy_into(out, source);
  return out;
}

template <const Form& form>
Outputs matmul_sum_forward(const ForwardArgs<MatmulSumAttrs>& args) {
  const Tensor &x = args.in(0), &a = args.in(1), &b = args.in(2);
  check(form, x, a, b);
  const double alpha = args.attrs.alpha.real(), beta = args.attrs.beta.real();
  const Shape shape = result_shape(form, a, b);
  Tensor left = left_matrix(a), right = right_matrix(form, b);
  if (form.sums_batch) {  // the batch is a part of the inner dim: one product, one rounding
    const std::int64_t inner = layout::checked_numel(form.name, {a.size(0), a.size(2)});
    left = reshape(permute(a, {1, 0, 2}), {a.size(1), inner});
    right = reshape(b, {inner, b.size(2)});
  }
  if (beta == 1 && shape.size() == 2 && x.shape() == Shape{shape[1]}) {
    const Tensor out = empty(shape, {.dtype = a.dtype(), .device = a.device()});
    product_into(out, left, right, alpha, 0, {.bias = x.contiguous()});
    return out;
  }
  const Tensor out = start_from(form.name, x, shape, a.dtype(), beta != 0);
  product_into(result_matrix(out), left, right, alpha, beta);
  return out;
}

template <const Form& form>
Gradients matmul_sum_vjp(const VjpArgs<MatmulSumAttrs>& args) {
  const Tensor g = args.grad(), g_matrix = result_matrix(g);
  Gradients result{Tensor(), Tensor(), Tensor()};
  if (args.needs(0)) result[0] = mul(g, args.attrs.beta);
  // alpha scales the small factor's side once, in f32, by way of the product's own gradient.
  if (args.needs(1)) {
    const Tensor b = transpose(right_matrix(form, args.in(2)), -2, -1);
    result[1] = reshape(mul(matmul(g_matrix, b, args.wanted(1)), args.attrs.alpha), args.in_shape(1));
  }
  if (args.needs(2)) {
    const Tensor a = transpose(left_matrix(args.in(1)), -2, -1);
    result[2] = reshape(mul(matmul(a, g_matrix, args.wanted(2)), args.attrs.alpha), args.in_shape(2));
  }
  return result;
}

/// Calls with x of the result's shape, with one that is broadcast, and with one that is not read.
template <const Form& form>
std::vector<Sample<MatmulSumAttrs>> samples_of() {
  using op_samples::real;
  const auto shape_of = [](std::int64_t dims, const Shape& matrix, const Shape& vector) {
    Shape shape = dims == 1 ? vector : matrix;
    if (dims == 3) shape.insert(std::size_t{0}, 2);
    return real(shape);
  };
  const auto a = [&](std::int64_t m, std::int64_t k) { return shape_of(form.dims_a, {m, k}, {m}); };
  const auto b = [&](std::int64_t k, std::int64_t n) {
    return shape_of(form.dims_b, {k, n}, {form.dims_a == 1 ? n : k});
  };
  Shape full{3, 5};
  if (form.dims_a == 2 && form.dims_b == 1) full = {3};
  if (form.dims_a == 3 && !form.sums_batch) full = {2, 3, 5};
  const Shape last{full.size() == 1 ? 1 : full.back()};
  return {{{real(full), a(3, 4), b(4, 5)}},
          {{real(last), a(3, 4), b(4, 5)}, {.beta = 0.5, .alpha = -2}},
          {{real(last), a(3, 4), b(4, 5)}},
          {{real({}), a(2, 3), b(3, 2)}, {.beta = 0, .alpha = 1}},
          {{real({}), a(2, 0), b(0, 2)}, {.beta = 2, .alpha = 1}}};
}

/// addmm as a linear layer writes it: a bias for each row and no factors.
Float8Product addmm_float8(const ForwardArgs<MatmulSumAttrs>& args) {
  const Tensor &bias = args.in(0), &a = args.in(1), &b = args.in(2);
  const bool plain = args.attrs.alpha.real() == 1 && args.attrs.beta.real() == 1 && bias.defined() &&
                     b.defined() && b.dim() == 2 && bias.shape() == Shape{b.size(1)};
  return plain ? product_of_matrices(a, b, bias) : Float8Product{};
}
constexpr Float8Form<MatmulSumAttrs> kAddmmFloat8{addmm_float8, run_linear_f8};

template <const Form& form>
constexpr Op<MatmulSumAttrs> kOp = [] {
  constexpr bool kIsAddmm = form.dims_a == 2 && form.dims_b == 2;
  return Op<MatmulSumAttrs>{
      .info = {.name = form.name, .category = Category::lower_precision, .runs_in_float8 = kIsAddmm},
      .samples = samples_of<form>,
      .forward = matmul_sum_forward<form>,
      .vjp = matmul_sum_vjp<form>,
      .saves = save_factors(1, 2),
      .float8 = kIsAddmm ? &kAddmmFloat8 : nullptr,
  };
}();

const Registered matmul_sums_registered{kOp<kAddmm>, kOp<kAddmv>, kOp<kAddr>, kOp<kBaddbmm>, kOp<kAddbmm>};

}  // namespace

const Tensor& Tensor::addmm_(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  require_defined("addmm_", *this);
  const NoInputHook no_autocast;
  const Tensor sum = addmm(*this, a, b, beta, alpha);
  if (sum.shape() != shape()) {
    throw ShapeError("addmm_", "a tensor of the product's shape " + to_string(sum.shape()),
                     to_string(shape()), "use addmm, which broadcasts");
  }
  return copy_(sum);
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return bind(kOp<kAddmm>, {x, a, b}, MatmulSumAttrs{beta, alpha});
}
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& v, Scalar beta, Scalar alpha) {
  return bind(kOp<kAddmv>, {x, a, v}, MatmulSumAttrs{beta, alpha});
}
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return bind(kOp<kAddr>, {x, a, b}, MatmulSumAttrs{beta, alpha});
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return bind(kOp<kBaddbmm>, {x, a, b}, MatmulSumAttrs{beta, alpha});
}
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return bind(kOp<kAddbmm>, {x, a, b}, MatmulSumAttrs{beta, alpha});
}

}  // namespace mezzo
