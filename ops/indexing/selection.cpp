// nonzero, masked_select, index_copy, bincount, diff, glu, vecdot, meshgrid and the indices of triangles.
#include "mezzo/ops/selection.h"

#include <algorithm>
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

// --- masked_select

Outputs masked_select_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor &x = args.in(0), &mask = args.in(1);
  require_defined("masked_select", mask);
  if (mask.dtype() != DType::boolean) {
    throw DTypeError("masked_select", "a bool mask", to_string(mask.dtype()), "compare it with a number");
  }
  const Shape shape = layout::broadcast("masked_select", x.shape(), mask.shape());
  if (shape.empty()) return index(reshape(x, {1}), {reshape(mask, {1})});
  return index(expand(x, shape), {expand(mask, shape)});
}
std::vector<Sample<NoAttrs>> masked_select_samples() {
  using namespace op_samples;
  return {{{real({3, 4}), op_samples::mask({3, 4})}},
          {{real({3, 4}), op_samples::mask({4})}},
          {{real({4}), op_samples::mask({2, 4})}}};
}
constexpr Op<NoAttrs> masked_select_op =
    plain_composition<NoAttrs>("masked_select", masked_select_samples, masked_select_forward);

// --- index_copy

Outputs index_copy_forward(const ForwardArgs<AlongAttrs>& args) {
  const Tensor &x = args.in(0), &at = args.in(1), &src = args.in(2);
  require_defined("index_copy", at);
  require_defined("index_copy", src);
  if (x.dim() == 0) return reshape(index_copy(reshape(x, {1}), 0, reshape(at, {-1}), reshape(src, {-1})), {});
  const auto dim = static_cast<std::size_t>(layout::wrap_dim("index_copy", args.attrs.dim, x.shape().size()));
  Shape wanted = x.shape();
  wanted[dim] = at.numel();
  if (at.dim() > 1 || src.shape() != wanted) {
    throw ShapeError(
        "index_copy", "an index of one dim and a src of shape " + to_string(wanted),
        "an index of shape " + to_string(at.shape()) + " and a src of shape " + to_string(src.shape()),
        "give src a position for each index");
  }
  Shape along(wanted.size(), 1);
  along[dim] = at.numel();
  return scatter(x, args.attrs.dim, expand(reshape(at, along), wanted), src);
}
std::vector<Sample<AlongAttrs>> index_copy_samples() {
  using namespace op_samples;
  return {{{real({4, 3}), op_samples::index({1}, 4), real({1, 3})}, {0}},
          {{real({2, 4}), op_samples::index({}, 4), real({2, 1})}, {-1}}};
}
constexpr Op<AlongAttrs> index_copy_op =
    plain_composition<AlongAttrs>("index_copy", index_copy_samples, index_copy_forward);

// --- diff

struct DiffAttrs {
  std::int64_t n = 1, dim = -1;
  MEZZO_FIELDS(DiffAttrs, n, dim)
};
Outputs diff_forward(const ForwardArgs<DiffAttrs>& args) {
  const Tensor& x = args.in(0);
  if (x.dim() == 0) throw IndexError("diff", "a tensor with dims", "a 0-dim one", "use reshape");
  const std::int64_t dim = layout::wrap_dim("diff", args.attrs.dim, x.shape().size());
  if (args.attrs.n < 0)
    throw ValueError("diff", "n of at least 0", std::to_string(args.attrs.n), "use cumsum for the reverse");
  if (args.attrs.n == 0) return clone(x);
  if (args.attrs.n >= x.size(dim)) return narrow(x, dim, 0, 0);
  Tensor result = x;
  for (std::int64_t i = 0; i < args.attrs.n; ++i) {
    const std::int64_t rest = result.size(dim) - 1;
    const Tensor behind = narrow(result, dim, 1, rest), before = narrow(result, dim, 0, rest);
    result = x.dtype() == DType::boolean ? ne(behind, before) : sub(behind, before);
  }
  return result;
}
std::vector<Sample<DiffAttrs>> diff_samples() {
  return {{{op_samples::real({3, 5})}, {}},
          {{op_samples::real({4, 3})}, {1, 0}},
          {{op_samples::real({3})}, {1, 0}}};
}
constexpr Op<DiffAttrs> diff_op = plain_composition<DiffAttrs>("diff", diff_samples, diff_forward);

// --- glu and vecdot

struct LastDimAttrs {
  std::int64_t dim = -1;
  MEZZO_FIELDS(LastDimAttrs, dim)
};
Outputs glu_forward(const ForwardArgs<LastDimAttrs>& args) {
  const Tensor& x = args.in(0);
  require_floating("glu", x);
  if (x.dim() == 0) throw IndexError("glu", "a tensor with dims", "a 0-dim one", "use reshape");
  const std::int64_t dim = layout::wrap_dim("glu", args.attrs.dim, x.shape().size()), half = x.size(dim) / 2;
  if (x.size(dim) != 2 * half) {
    throw ShapeError("glu", "an even size of dim " + std::to_string(dim), to_string(x.shape()),
                     "make the layer before it an even number of features");
  }
  const Tensor wide = to(x, compute_dtype(x.dtype()));
  return to(mul(narrow(wide, dim, 0, half), sigmoid(narrow(wide, dim, half, half))), x.dtype());
}
std::vector<Sample<LastDimAttrs>> glu_samples() {
  return {{{op_samples::real({3, 4})}, {}}, {{op_samples::real({2, 3})}, {0}}};
}
constexpr Op<LastDimAttrs> glu_op = plain_composition<LastDimAttrs>("glu", glu_samples, glu_forward);

Outputs vecdot_forward(const ForwardArgs<LastDimAttrs>& args) {
  require_defined("vecdot", args.in(1));
  const DType result = promote(args.in(0).dtype(), args.in(1).dtype()), compute = compute_dtype(result);
  const Tensor product = mul(to(args.in(0), compute), to(args.in(1), compute));
  if (product.dim() == 0) throw IndexError("vecdot", "tensors with dims", "0-dim ones", "use mul");
  return to(sum(product, args.attrs.dim), result);
}
std::vector<Sample<LastDimAttrs>> vecdot_samples() {
  return {{{op_samples::real({3, 4}), op_samples::real({3, 4})}, {}},
          {{op_samples::real({3, 4}), op_samples::real({3, 1})}, {0}}};
}
constexpr Op<LastDimAttrs> vecdot_op =
    plain_composition<LastDimAttrs>("vecdot", vecdot_samples, vecdot_forward);

void require_sizes(std::string_view op, std::int64_t row, std::int64_t col) {
  if (row >= 0 && col >= 0) return;
  throw ValueError(op, "sizes of at least 0", std::to_string(std::min(row, col)), "count rows and columns");
}

const Registered selection_registered{masked_select_op, index_copy_op, diff_op, glu_op, vecdot_op};

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) { return bind(masked_select_op, {x, mask}); }
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return bind(index_copy_op, {x, index, src}, {dim});
}
Tensor diff(const Tensor& x, std::int64_t n, std::int64_t dim) { return bind(diff_op, {x}, {n, dim}); }
Tensor glu(const Tensor& x, std::int64_t dim) { return bind(glu_op, {x}, {dim}); }
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim) { return bind(vecdot_op, {a, b}, {dim}); }

Tensor nonzero(const Tensor& x) {
  require_defined("nonzero", x);
  const NoGrad no_grad;
  const Tensor mask = ne(x, 0);
  if (x.dim() == 0) return zeros({mask.item<bool>() ? 1 : 0, 0}, {.dtype = DType::i64, .device = x.device()});
  Tensors positions;
  for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
    Shape along(static_cast<std::size_t>(x.dim()), 1);
    along[static_cast<std::size_t>(dim)] = x.size(dim);
    const Tensor numbers = arange(x.size(dim), {.device = x.device()});
    positions.push_back(index(expand(reshape(numbers, along), x.shape()), {mask}));
  }
  return stack(positions, 1);
}

Tensor argwhere(const Tensor& x) { return nonzero(x); }

Tensor bincount(const Tensor& x, const Tensor& weights, std::int64_t minlength) {
  require_defined("bincount", x);
  if (is_floating(x.dtype()) || x.dtype() == DType::boolean)
    throw DTypeError("bincount", "integers", to_string(x.dtype()), "convert them with to(DType::i64)");
  if (x.dim() != 1 || (weights.defined() && weights.shape() != x.shape())) {
    throw ShapeError("bincount", "numbers of shape [n], and weights of the same",
                     to_string(weights.defined() && x.dim() == 1 ? weights.shape() : x.shape()),
                     "flatten them");
  }
  if (minlength < 0)
    throw ValueError("bincount", "a minlength of at least 0", std::to_string(minlength), "leave it out");
  std::int64_t length = minlength;
  if (x.numel() > 0) {
    const auto ends = stack({min(x), max(x)}).to_vector<std::int64_t>();  // one read
    if (ends[0] < 0)
      throw ValueError("bincount", "numbers of at least 0", std::to_string(ends[0]), "shift them");
    length = std::max(length, ends[1] + 1);
  }
  const DType dtype = weights.defined() ? weights.dtype() : DType::i64;
  const TensorOptions options{.dtype = dtype, .device = x.device()};
  return scatter_add(zeros({length}, options), 0, to(x, DType::i64),
                     weights.defined() ? weights : ones(x.shape(), options));
}

Tensors meshgrid(TensorList lists, MeshIndexing indexing) {
  if (lists.empty()) throw ValueError("meshgrid", "at least one list", "none", "pass one per dim");
  Shape shape;
  for (const Tensor& list : lists) {
    require_defined("meshgrid", list);
    if (list.dim() > 1)
      throw ShapeError("meshgrid", "lists of one dim", to_string(list.shape()), "flatten them");
    shape.push_back(list.numel());
  }
  const bool swaps = indexing == MeshIndexing::xy && lists.size() > 1;
  Tensors grids;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    Shape along(lists.size(), 1);
    along[i] = lists[i].numel();
    const Tensor grid = expand(reshape(lists[i], along), shape);
    grids.push_back(swaps ? transpose(grid, 0, 1) : grid);
  }
  return grids;
}

Tensor tril_indices(std::int64_t row, std::int64_t col, std::int64_t offset) {
  require_sizes("tril_indices", row, col);
  return t(nonzero(tril(ones({row, col}, {.dtype = DType::boolean}), offset)));
}
Tensor triu_indices(std::int64_t row, std::int64_t col, std::int64_t offset) {
  require_sizes("triu_indices", row, col);
  return t(nonzero(triu(ones({row, col}, {.dtype = DType::boolean}), offset)));
}

}  // namespace mezzo
