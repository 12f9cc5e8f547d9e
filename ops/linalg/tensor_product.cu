// tensordot, bilinear, cross.
#include "mezzo/ops/tensor_product.h"

#include "mezzo/autograd/decomposed.h"
#include "mezzo/core/promotion.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/linalg/contraction.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;

// --- tensordot

struct TensordotAttrs {
  Dims dims_a, dims_b;
  MEZZO_FIELDS(TensordotAttrs, dims_a, dims_b)
};

/// The dims from 0 on, in their order. Throws IndexError for one that is not there or given twice.
Dims wrapped(const Dims& dims, const Shape& shape) {
  if (dims.empty()) return {};
  static_cast<void>(layout::wrap_dims("tensordot", dims, shape.size()));
  Dims result;
  for (const std::int64_t dim : dims) {
    result.push_back(layout::wrap_dim("tensordot", dim, shape.size()));
    if (!shape.empty()) continue;
    throw IndexError("tensordot", "dims of a tensor that has some", "a 0-dim tensor", "use mul for numbers");
  }
  return result;
}

/// Labels of a's dims, of b's, and of the result's.
struct TensordotLabels {
  std::array<IntList, 2> operands;
  IntList result;
};
TensordotLabels labels_of(const TensordotAttrs& attrs, const Shape& a, const Shape& b) {
  const Dims dims_a = wrapped(attrs.dims_a, a), dims_b = wrapped(attrs.dims_b, b);
  if (dims_a.size() != dims_b.size()) {
    throw ValueError("tensordot", "as many dims of b as of a",
                     to_string(dims_a) + " and " + to_string(dims_b), "pair each dim of a with one of b");
  }
  const auto rank_a = static_cast<std::int64_t>(a.size()), rank_b = static_cast<std::int64_t>(b.size());
  TensordotLabels labels;
  for (std::int64_t d = 0; d < rank_a; ++d) {
    labels.operands[0].push_back(d);
    if (!dims_a.contains(d)) labels.result.push_back(d);
  }
  for (std::int64_t d = 0; d < rank_b; ++d) {
    std::int64_t label = rank_a + d;
    for (std::size_t i = 0; i < dims_b.size(); ++i) {
      if (dims_b[i] == d) label = dims_a[i];
    }
    labels.operands[1].push_back(label);
    if (label >= rank_a) labels.result.push_back(label);
  }
  return labels;
}

Outputs tensordot_forward(const ForwardArgs<TensordotAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  const TensordotLabels labels = labels_of(args.attrs, a.shape(), b.shape());
  const Tensor result =
      contract("tensordot", {{a, labels.operands[0]}, {b, labels.operands[1]}}, labels.result);
  return alias(result, result.shape(), result.strides(), result.impl().offset, false);  // not a view
}
Gradients tensordot_vjp(const VjpArgs<TensordotAttrs>& args) {
  const TensordotLabels labels = labels_of(args.attrs, args.in_shape(0), args.in_shape(1));
  return contract_gradients("tensordot", args, labels.operands, labels.result);
}

std::vector<Sample<TensordotAttrs>> tensordot_samples() {
  using op_samples::real;
  return {{{real({3, 4}), real({4, 5})}, {{1}, {0}}},
          {{real({2, 3, 4}), real({4, 5, 2})}, {{0, -1}, {2, 0}}},
          {{real({2}), real({3})}, {{}, {}}},
          {{real({2, 1}), real({3, 2})}, {{1, 0}, {0, 1}}},
          {{real({2, 0}), real({0, 3})}, {{1}, {0}}}};
}
constexpr Op<TensordotAttrs> tensordot_op = plain_op<TensordotAttrs>(
    "tensordot", Category::promote, tensordot_samples, tensordot_forward, tensordot_vjp, save_factors(0, 1));

// --- bilinear

void check_bilinear(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& bias) {
  require_dims("bilinear", "a weight", w, 3);
  const Shape wanted_a{w.size(1)}, wanted_b{w.size(2)};
  const bool fits = a.dim() > 0 && a.dim() == b.dim() && a.size(-1) == w.size(1) && b.size(-1) == w.size(2);
  Shape batch_a = a.shape(), batch_b = b.shape();
  if (fits) batch_a.pop_back(), batch_b.pop_back();
  if (!fits || batch_a != batch_b) {
    throw ShapeError("bilinear",
                     "inputs [.., " + std::to_string(w.size(1)) + "] and [.., " + std::to_string(w.size(2)) +
                         "] for a weight " + to_string(w.shape()),
                     to_string(a.shape()) + " and " + to_string(b.shape()), "check the features of both");
  }
  static_cast<void>(product_dtype("bilinear", a, b, {}));
  static_cast<void>(product_dtype("bilinear", a, w, {}));
  if (!bias.defined()) return;
  static_cast<void>(product_dtype("bilinear", a, bias, {}));
  if (bias.shape() == Shape{w.size(0)}) return;
  throw ShapeError("bilinear", "a bias " + to_string(Shape{w.size(0)}), to_string(bias.shape()),
                   "give it one element per output feature");
}

/// One product with the rows a_i b_j: the weight is read once.
Outputs bilinear_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1), &w = args.in(2), &bias = args.in(3);
  check_bilinear(a, b, w, bias);
  const DType compute = compute_dtype(a.dtype());
  const std::int64_t outputs = w.size(0), n = w.size(1), m = w.size(2);
  Shape shape = a.shape();
  shape.pop_back();
  const std::int64_t rows = layout::numel(shape), pairs = layout::checked_numel("bilinear", {n, m});
  shape.push_back(outputs);
  const Tensor left = reshape(to(a, compute), {rows, n, 1}), right = reshape(to(b, compute), {rows, 1, m});
  const Tensor outer = reshape(mul(left, right), {rows, pairs});
  const Tensor weight = reshape(to(w, compute), {outputs, pairs});
  const Tensor y = linear(outer, weight, bias.defined() ? to(bias, compute) : bias);
  return reshape(to(y, a.dtype()), shape);
}
Outputs bilinear_result(const ForwardArgs<NoAttrs>& args) {
  const Tensor y = bilinear_forward(args);
  return alias(y, y.shape(), y.strides(), 0, false);  // the memory is new: not a view
}

std::vector<Sample<NoAttrs>> bilinear_samples() {
  using op_samples::real;
  return {{{real({3, 4}), real({3, 2}), real({5, 4, 2}), real({5})}},
          {{real({2, 3, 2}), real({2, 3, 4}), real({2, 2, 4}), op_samples::absent()}},
          {{real({3}), real({2}), real({1, 3, 2}), real({1})}},
          {{real({0, 3}), real({0, 2}), real({2, 3, 2}), real({2})}}};
}
constexpr Op<NoAttrs> bilinear_op =
    fused_op<NoAttrs>("bilinear", Category::promote, bilinear_samples, bilinear_result, bilinear_forward,
                      kDecomposed, Saves{~0U, 0}, tensor_set(3));

// --- cross

struct CrossAttrs {
  std::optional<std::int64_t> dim = {};
  MEZZO_FIELDS(CrossAttrs, dim)
};

/// p q - r s, each product rounded by itself.
struct CrossFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T p, T q, T r, T s) const {
    using namespace kernels::scalar;
    if constexpr (std::is_integral_v<T>)
      return SubFn{}(MulFn{}(p, q), MulFn{}(r, s));
    else
      return kernels::math::detail::mul_add(p, q, -kernels::math::detail::multiply(r, s));
  }
};

std::int64_t cross_dim(const Shape& shape, std::optional<std::int64_t> dim) {
  if (dim) return layout::wrap_dim("cross", *dim, shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 3) return static_cast<std::int64_t>(d);
  }
  throw ShapeError("cross", "a dim of size 3", to_string(shape),
                   "vectors of the space have three components");
}

Outputs cross_forward(const ForwardArgs<CrossAttrs>& args) {
  const Tensor &a = args.in(0), &b = args.in(1);
  const std::int64_t dim = cross_dim(a.shape(), args.attrs.dim);
  const auto is_vector = [&](const Tensor& x) { return x.dim() > dim && x.size(dim) == 3; };
  if (a.dim() != b.dim() || !is_vector(a) || !is_vector(b)) {
    throw ShapeError("cross", "two tensors of equally many dims with size 3 in dim " + std::to_string(dim),
                     to_string(a.shape()) + " and " + to_string(b.shape()), "check the dim");
  }
  const DType dtype = result_type({&a, &b});
  if (dtype == DType::boolean) refuse_bool("cross", a, "convert it with to(DType::f32)");
  const Shape shape = layout::broadcast("cross", a.shape(), b.shape());
  const Tensor out = empty(shape, {.dtype = dtype, .device = a.device()});
  Shape one = shape;
  one.erase(static_cast<std::size_t>(dim));
  const auto component = [&](const Tensor& x, std::int64_t i) {
    return expanded_view("cross", select(x, dim, i % 3), one);
  };
  if (out.numel() == 0) return out;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::array in{component(a, i + 1), component(b, i + 2), component(a, i + 2), component(b, i + 1)};
    kernels::pointwise(out.device(), CrossFn{}, view_of(select(out, dim, i)), in, compute_dtype(dtype));
  }
  return out;
}
Gradients cross_vjp(const VjpArgs<CrossAttrs>& args) {
  const std::int64_t dim = cross_dim(args.in_shape(0), args.attrs.dim);
  const Tensor g = args.grad();
  Gradients result{Tensor(), Tensor()};
  if (args.needs(0)) result[0] = cross(args.in(1), g, dim);
  if (args.needs(1)) result[1] = cross(g, args.in(0), dim);
  return result;
}
std::vector<Sample<CrossAttrs>> cross_samples() {
  using op_samples::real;
  return {{{real({3}), real({3})}, {}},
          {{real({4, 3}), real({4, 3})}, {-1}},
          {{real({3, 2, 1}), real({3, 1, 3})}, {0}},
          {{real({2, 3}), real({2, 3})}, {}}};
}
constexpr Op<CrossAttrs> cross_op = plain_op<CrossAttrs>("cross", Category::promote, cross_samples,
                                                         cross_forward, cross_vjp, save_factors(0, 1));

const Registered tensor_product_registered{tensordot_op, bilinear_op, cross_op};

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b) {
  return bind(tensordot_op, {a, b}, TensordotAttrs{dims_a, dims_b});
}
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims) {
  require_defined("tensordot", a);
  require_defined("tensordot", b);
  if (dims < 0 || dims > std::min(a.dim(), b.dim())) {
    throw ValueError(
        "tensordot",
        "a number of dims that both operands have, up to " + std::to_string(std::min(a.dim(), b.dim())),
        std::to_string(dims), "the last dims of a meet the first of b");
  }
  Dims dims_a, dims_b;
  for (std::int64_t d = 0; d < dims; ++d) {
    dims_a.push_back(a.dim() - dims + d);
    dims_b.push_back(d);
  }
  return tensordot(a, b, dims_a, dims_b);
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& bias) {
  return bind(bilinear_op, {a, b, w, bias});
}

Tensor kron(const Tensor& a, const Tensor& b) {
  require_defined("kron", a);
  require_defined("kron", b);
  const auto rank = static_cast<std::size_t>(std::max(a.dim(), b.dim()));
  if (rank > 4)
    throw ShapeError("kron", "at most 4 dims", std::to_string(rank), "flatten dims that go together");
  Shape of_a, of_b, result;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto size = [&](const Tensor& x) {
      const std::size_t missing = rank - x.shape().size();
      return d < missing ? 1 : x.shape()[d - missing];
    };
    for (const std::int64_t n : {size(a), std::int64_t{1}}) of_a.push_back(n);
    for (const std::int64_t n : {std::int64_t{1}, size(b)}) of_b.push_back(n);
    result.push_back(layout::checked_numel("kron", {size(a), size(b)}));
  }
  return reshape(mul(reshape(a, of_a), reshape(b, of_b)), result);
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<std::int64_t> dim) {
  return bind(cross_op, {a, b}, CrossAttrs{dim});
}

}  // namespace mezzo
