// sort and topk: the order of the elements along a dim, and the elements in that order.
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// The first `count` elements along a dim of a sorted x, and where they are.
Outputs first_in_order(const Tensor& x, std::size_t dim, std::int64_t count, bool descending) {
  Shape shape = x.shape();
  shape[dim] = count;
  Tensor indices = empty(shape, {.dtype = DType::i64, .device = x.device()});
  kernels::sorting_order(x.device(), view_of(indices), view_of(x), dim, descending);
  Tensor values = empty(shape, options_of(x));
  kernels::take(x.device(), view_of(values),
                along(dim, shape, x.shape()[dim], x.strides(), indices.strides()).of(x, indices));
  return Tensors{values, indices};
}
/// x itself, and its position 0.
Outputs only_element(const Tensor& x) {
  return Tensors{clone(x), zeros({}, {.dtype = DType::i64, .device = x.device()})};
}
template <class A>
Gradients order_vjp(const VjpArgs<A>& args) {
  const Tensor grad = args.grad(0);
  return {scatter(zeros(args.in_shape(0), options_of(grad)), args.attrs.dim, args.out(1), grad)};
}

struct SortAttrs {
  std::int64_t dim = -1;
  bool descending = false, stable = false;  ///< it always is
  MEZZO_FIELDS(SortAttrs, dim, descending, stable)
};
Outputs sort_forward(const ForwardArgs<SortAttrs>& args) {
  const Tensor& x = args.in(0);
  const auto dim = static_cast<std::size_t>(layout::wrap_dim("sort", args.attrs.dim, x.shape().size()));
  if (x.dim() == 0) return only_element(x);
  return first_in_order(x, dim, x.shape()[dim], args.attrs.descending);
}
std::vector<Sample<SortAttrs>> sort_samples() {
  return {{{op_samples::distinct({3, 5})}, {1, false}},
          {{op_samples::distinct({6, 2})}, {0, true}},
          {{op_samples::distinct({})}, {-1, false}}};
}
constexpr Op<SortAttrs> sort_op = plain_op<SortAttrs>("sort", Category::passthrough, sort_samples,
                                                      sort_forward, order_vjp<SortAttrs>, save_outputs(1));

struct TopkAttrs {
  std::int64_t k = 1, dim = -1;
  bool largest = true, sorted = true;
  MEZZO_FIELDS(TopkAttrs, k, dim, largest, sorted)
};
Outputs topk_forward(const ForwardArgs<TopkAttrs>& args) {
  const Tensor& x = args.in(0);
  const auto& [k, asked, largest, sorted] = args.attrs;
  static_cast<void>(sorted);  // any order would do without it
  const auto dim = static_cast<std::size_t>(layout::wrap_dim("topk", asked, x.shape().size()));
  const std::int64_t size = x.dim() == 0 ? 1 : x.shape()[dim];
  if (k < 0 || k > size || (x.dim() == 0 && k == 0)) {
    throw ValueError("topk",
                     "k in [" + std::to_string(x.dim() == 0 ? 1 : 0) + ", " + std::to_string(size) + "]",
                     std::to_string(k), "dim " + std::to_string(dim) + " has that many elements");
  }
  return x.dim() == 0 ? only_element(x) : first_in_order(x, dim, k, largest);
}
std::vector<Sample<TopkAttrs>> topk_samples() {
  return {{{op_samples::distinct({3, 5})}, {2, 1, true}},
          {{op_samples::distinct({6, 2})}, {3, 0, false}},
          {{op_samples::distinct({4})}, {4, -1, true}}};
}
constexpr Op<TopkAttrs> topk_op = plain_op<TopkAttrs>("topk", Category::passthrough, topk_samples,
                                                      topk_forward, order_vjp<TopkAttrs>, save_outputs(1));

ValuesIndices pair(Outputs outputs) { return {std::move(outputs[0]), std::move(outputs[1])}; }

const Registered sorting_registered{sort_op, topk_op};

}  // namespace

ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending, bool stable) {
  return pair(bind(sort_op, {x}, {dim, descending, stable}));
}
Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  return sort(x, dim, descending).indices;
}
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, bool sorted) {
  return pair(bind(topk_op, {x}, {k, dim, largest, sorted}));
}

}  // namespace mezzo
