// Reading and writing along one dim: gather, index_select, index_add; scatter.cpp has the rest.
#include "mezzo/ops/indexing.h"

#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace ops {

Tensor index_as_i64(std::string_view op, const Tensor& index, bool narrow) {
  if (index.dtype() == DType::i64 || (narrow && index.dtype() == DType::i32))
    return to(index, DType::i64).contiguous();
  throw DTypeError(op, narrow ? "indices of dtype i64 or i32" : "indices of dtype i64",
                   to_string(index.dtype()), "convert them with to(DType::i64)");
}

void check_indices(const char* op, const Tensor& indices, std::int64_t low, std::int64_t limit) {
  const auto* const values = static_cast<const std::int64_t*>(indices.impl().data());
  const std::int64_t wrong =
      kernels::first_wrong_index(indices.device(), op, values, indices.numel(), low, limit);
  if (wrong < 0) return;
  throw IndexError(op, "indices in [" + std::to_string(low) + ", " + std::to_string(limit) + ")",
                   std::to_string(values[wrong]) + " at position " + std::to_string(wrong),
                   "check them against the size of the dim");
}

void require_one_dtype(std::string_view op, const Tensor& x, const Tensor& values) {
  if (x.dtype() == values.dtype()) return;
  throw DTypeError(op, "values of x's dtype " + to_string(x.dtype()), to_string(values.dtype()),
                   "convert them with to(x.dtype())");
}

Tensor with_dims(const Tensor& x) { return x.dim() == 0 ? alias(x, {1}, {1}, x.impl().offset, true) : x; }
Tensor without_dims(const Tensor& result, const Tensor& x) {
  return x.dim() == 0 ? alias(result, {}, {}, 0, false) : result;
}

std::size_t wrapped(std::string_view op, std::int64_t dim, const Tensor& x) {
  return static_cast<std::size_t>(layout::wrap_dim(op, dim, x.shape().size()));
}

void check_fit(std::string_view op, const Tensor& x, const Tensor& index, std::size_t dim,
               const Tensor* src) {
  const Shape &places = index.shape(), &base = x.shape();
  bool fits = places.size() == base.size() && (src == nullptr || src->shape().size() == base.size());
  const bool empty_index = index.numel() == 0;  // names no place
  for (std::size_t d = 0; fits && !empty_index && d < base.size(); ++d)
    fits = (d == dim || places[d] <= base[d]) && (src == nullptr || places[d] <= src->shape()[d]);
  if (fits) return;
  const std::string source = src == nullptr ? "" : " and src of shape " + to_string(src->shape());
  throw ShapeError(
      op,
      "an index with the dims of x, nowhere larger than x" + std::string(src == nullptr ? "" : " and src") +
          " but along dim " + std::to_string(dim),
      to_string(places) + " for x of shape " + to_string(base) + source, "check the shapes and the dim");
}

}  // namespace ops

namespace {

using namespace ops;

// --- gather: the index has a place for each element

Outputs gather_forward(const ForwardArgs<AlongAttrs>& args) {
  const Tensor x = with_dims(args.in(0));
  const std::size_t dim = wrapped("gather", args.attrs.dim, x);
  const Tensor index = with_dims(index_as_i64("gather", args.in(1), false));
  check_fit("gather", x, index, dim);
  check_indices("gather", index, 0, x.shape()[dim]);
  return without_dims(
      taken(x, index, along(dim, index.shape(), x.shape()[dim], x.strides(), index.strides())), args.in(1));
}
Gradients gather_vjp(const VjpArgs<AlongAttrs>& args) {
  const Tensor grad = args.grad();
  return {scatter_add(zeros(args.in_shape(0), options_of(grad)), args.attrs.dim, args.in(1), grad), {}};
}
std::vector<Sample<AlongAttrs>> gather_samples() {
  return {{{op_samples::real({3, 5}), op_samples::index({3, 2}, 5)}, {1}},
          {{op_samples::real({3, 5}), op_samples::index({4, 3}, 3)}, {0}},
          {{op_samples::real({2, 3, 4}), op_samples::index({2, 2, 6}, 4)}, {-1}},
          {{op_samples::real({}), op_samples::index({3}, 1)}, {0}}};
}
constexpr Op<AlongAttrs> gather_op = plain_op<AlongAttrs>("gather", Category::passthrough, gather_samples,
                                                          gather_forward, gather_vjp, save_inputs(1));

// --- index_select, index_add: one index for a whole position of the dim

/// The index, contiguous; throws ShapeError for one with several dims.
Tensor line_of(std::string_view op, const Tensor& index) {
  if (index.dim() <= 1) return with_dims(index_as_i64(op, index, true));
  throw ShapeError(op, "an index with at most 1 dim", to_string(index.shape()),
                   "use gather, index or index_put");
}
/// `shape` has an entry along `dim` for each of the indices.
PlaceMap along_line(std::size_t dim, const Shape& shape, std::int64_t size, const Dims& strides) {
  Dims index_strides(shape.size(), 0);
  index_strides[dim] = 1;
  return along(dim, shape, size, strides, index_strides);
}

Outputs index_select_forward(const ForwardArgs<AlongAttrs>& args) {
  const Tensor x = with_dims(args.in(0));
  const std::size_t dim = wrapped("index_select", args.attrs.dim, x);
  const Tensor index = line_of("index_select", args.in(1));
  if (args.in(0).dim() == 0 && index.numel() != 1) {
    throw ShapeError("index_select", "one index for a 0-dim tensor", to_string(index.shape()),
                     "use unsqueeze first");
  }
  Shape shape = x.shape();
  shape[dim] = index.numel();
  layout::checked_numel("index_select", shape);
  check_indices("index_select", index, 0, x.shape()[dim]);
  return without_dims(taken(x, index, along_line(dim, shape, x.shape()[dim], x.strides())), args.in(0));
}
Gradients index_select_vjp(const VjpArgs<AlongAttrs>& args) {
  const Tensor grad = args.grad();
  return {index_add(zeros(args.in_shape(0), options_of(grad)), args.attrs.dim, args.in(1), grad), {}};
}
std::vector<Sample<AlongAttrs>> index_select_samples() {
  return {{{op_samples::real({5, 3}), op_samples::index({4}, 5)}, {0}},
          {{op_samples::real({2, 4, 3}), op_samples::index({2}, 3)}, {-1}},
          {{op_samples::real({4, 3}), op_samples::index({}, 4)}, {0}},
          {{op_samples::real({}), op_samples::index({1}, 1)}, {0}}};
}
constexpr Op<AlongAttrs> index_select_op =
    plain_op<AlongAttrs>("index_select", Category::passthrough, index_select_samples, index_select_forward,
                         index_select_vjp, save_inputs(1));

struct IndexAddAttrs {
  std::int64_t dim = 0;
  Scalar alpha = 1;
  MEZZO_FIELDS(IndexAddAttrs, dim, alpha)
};
Outputs index_add_forward(const ForwardArgs<IndexAddAttrs>& args) {
  const Tensor x = with_dims(args.in(0)), src = with_dims(args.in(2));
  const std::size_t dim = wrapped("index_add", args.attrs.dim, x);
  const Tensor index = line_of("index_add", args.in(1));
  require_one_dtype("index_add", x, src);
  check_alpha("index_add", args.attrs.alpha, x.dtype());
  Shape expected = x.shape();
  expected[dim] = index.numel();
  if (src.shape() != expected) {
    throw ShapeError("index_add", "a src of shape " + to_string(expected), to_string(src.shape()),
                     "pass an entry along the dim for each index");
  }
  check_indices("index_add", index, 0, x.shape()[dim]);
  const auto map = [&](const Dims& strides) { return along_line(dim, src.shape(), x.shape()[dim], strides); };
  const DType compute = compute_dtype(x.dtype());
  const Tensor scaled = args.attrs.alpha.real() == 1 ? src : mul(to(src, compute), args.attrs.alpha);
  return without_dims(written(x, index, scaled, map, true), args.in(0));
}
Gradients index_add_vjp(const VjpArgs<IndexAddAttrs>& args) {
  const Tensor grad = args.grad();
  Gradients result(3);
  result[0] = grad;
  if (args.needs(2)) {
    // A 0-dim x is one place for all entries.
    const Tensor read =
        grad.dim() == 0 ? expand(grad, args.in_shape(2)) : index_select(grad, args.attrs.dim, args.in(1));
    result[2] = reshape(args.attrs.alpha.real() == 1 ? read : mul(read, args.attrs.alpha), args.in_shape(2));
  }
  return result;
}
std::vector<Sample<IndexAddAttrs>> index_add_samples() {
  return {{{op_samples::real({5, 3}), op_samples::index({4}, 5), op_samples::real({4, 3})}, {0, 1}},
          {{op_samples::real({2, 3}), op_samples::index({5}, 3), op_samples::real({2, 5})}, {-1, 2}},
          {{op_samples::real({}), op_samples::index({1}, 1), op_samples::real({})}, {0, 1}},
          {{op_samples::real({}), op_samples::index({3}, 1), op_samples::real({3})}, {0, 2}}};
}
constexpr Op<IndexAddAttrs> index_add_op = plain_op<IndexAddAttrs>(
    "index_add", Category::passthrough, index_add_samples, index_add_forward, index_add_vjp, save_inputs(1));

const Registered along_dim_registered{gather_op, index_select_op, index_add_op};

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return bind(gather_op, {x, index}, {dim});
}
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return bind(index_select_op, {x, index}, {dim});
}
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src, Scalar alpha) {
  return bind(index_add_op, {x, index, src}, {dim, alpha});
}

}  // namespace mezzo
