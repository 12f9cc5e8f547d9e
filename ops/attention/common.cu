// The checks of attention, its way to the kernels, and its plain composition; see common.h.
#include "mezzo/ops/attention/common.h"

#include <cmath>
#include <limits>

#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/random/generate.h"
#include "mezzo/ops/ops.h"

namespace mezzo::ops {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Shape leading(const Tensor& x) {
  return Shape(std::span<const std::int64_t>(x.shape().begin(), x.shape().size() - 2));
}

void require_matrices(std::string_view op, const AttentionInputs& in) {
  for (const auto& [what, x] :
       {std::pair{"query", &in.query}, std::pair{"key", &in.key}, std::pair{"value", &in.value}}) {
    require_floating(op, *x);
    if (x->dim() >= 2) continue;
    throw ShapeError(op, std::string("a ") + what + " of at least 2 dims", to_string(x->shape()),
                     "the last two are length and size");
  }
  const DType dtype = in.query.dtype();
  if (in.key.dtype() != dtype || in.value.dtype() != dtype) {
    throw DTypeError(
        op, "query, key and value of one dtype",
        to_string(dtype) + ", " + to_string(in.key.dtype()) + " and " + to_string(in.value.dtype()),
        "convert them to one");
  }
  if (in.query.size(-1) != in.key.size(-1)) {
    throw ShapeError(op, "query and key of one size in the last dim",
                     to_string(in.query.shape()) + " and " + to_string(in.key.shape()),
                     "their dot products are the scores");
  }
  if (in.key.size(-2) != in.value.size(-2)) {
    throw ShapeError(op, "as many values as keys (last dim but one)",
                     to_string(in.key.shape()) + " and " + to_string(in.value.shape()),
                     "each key has one value");
  }
}

/// The leading dims of key or value, with as many heads as the query has.
Shape leading_of_heads(std::string_view op, const Tensor& query, const Tensor& x) {
  if (query.dim() < 3 || x.dim() < 3) {
    throw ShapeError(op, "query, key and value of at least 3 dims for enable_gqa",
                     to_string(query.shape()) + " and " + to_string(x.shape()),
                     "heads are the last dim but two");
  }
  const std::int64_t heads = query.size(-3), own = x.size(-3);
  if (heads != own && (own == 0 || heads % own != 0)) {
    throw ShapeError(op, "heads of key and value that divide the query's " + std::to_string(heads),
                     std::to_string(own), "each of them is read by an equal number of the query's heads");
  }
  Shape shape = leading(x);
  shape.back() = heads;
  return shape;
}

bool broadcasts_to(const Shape& shape, const Shape& target) {
  if (shape.size() > target.size()) return false;
  const std::size_t added = target.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && shape[d] != target[added + d]) return false;
  }
  return true;
}

void require_mask(std::string_view op, const AttentionInputs& in, const Shape& scores, bool causal) {
  if (!in.mask.defined()) return;
  if (causal) {
    throw ValueError(op, "a mask or is_causal", "both", "put the causal part into the mask");
  }
  const DType dtype = in.mask.dtype();
  if (dtype != DType::boolean && dtype != DType::f32 && dtype != in.query.dtype()) {
    throw DTypeError(op, "a mask in bool, f32 or the query's " + to_string(in.query.dtype()),
                     to_string(dtype), "convert it with to()");
  }
  if (broadcasts_to(in.mask.shape(), scores)) return;
  throw ShapeError(op, "a mask that broadcasts to " + to_string(scores), to_string(in.mask.shape()),
                   "its last dims are queries and keys");
}

void require_dropout(std::string_view op, const Tensor& seed, double p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(op, "a probability dropout_p in [0, 1]", number_text(p),
                     "dropout_p is the part that is zeroed");
  }
  if (!seed.defined()) {
    if (p == 0) return;
    throw ValueError(op, "a seed for dropout", "none", "pass two random numbers in i64");
  }
  if (seed.dtype() != DType::i64)
    throw DTypeError(op, "a seed in i64", to_string(seed.dtype()), "draw it with randint");
  if (seed.shape() != Shape{2})
    throw ShapeError(op, "a seed of shape [2]", to_string(seed.shape()), "draw two numbers");
}

/// 1 where dropout keeps a weight.
struct KeptBlocks {
  const std::int64_t* seed;
  std::uint64_t threshold;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, float* values) const {
    const PhiloxBlock four = kernels::AttentionWords(seed)(block);
    for (int i = 0; i < 4; ++i) values[i] = four[i] < threshold ? 1.0F : 0.0F;
  }
};

Tensor kept_weights(const AttentionCall& call, const Tensor& seed) {
  Tensor kept =
      empty(call.matrix(call.queries, call.keys), {.dtype = DType::boolean, .device = seed.device()});
  const Tensor numbers = seed.contiguous();
  const KeptBlocks blocks{static_cast<const std::int64_t*>(numbers.impl().data()),
                          kernels::keep_threshold(call.dropout_p)};
  kernels::generate<float>(kept.device(), blocks, view_of(kept));
  return kept;
}

/// [L, S] bools: key s takes part in query l.
Tensor causal_mask(const AttentionCall& call, Device device) {
  const ValueOptions options{.device = device};
  return ge(unsqueeze(arange(call.queries, options), 1), arange(call.keys, options));
}

}  // namespace

AttentionCall::AttentionCall(std::string_view op, const AttentionInputs& in, const AttentionAttrs& attrs)
    : causal(attrs.is_causal), dropout_p(attrs.dropout_p), grouped(attrs.enable_gqa) {
  require_matrices(op, in);
  batch = leading(in.query);
  for (const Tensor* x : {&in.key, &in.value})
    batch = layout::broadcast(op, batch, grouped ? leading_of_heads(op, in.query, *x) : leading(*x));
  queries = in.query.size(-2), size = in.query.size(-1);
  keys = in.value.size(-2), value_size = in.value.size(-1);
  const Shape scores = matrix(queries, keys);
  layout::checked_numel(op, scores);
  for (const auto& [rows, cols] : {std::pair{queries, size}, std::pair{keys, size},
                                   std::pair{keys, value_size}, std::pair{queries, value_size}})
    layout::checked_numel(op, matrix(rows, cols));
  require_mask(op, in, scores, causal);
  require_dropout(op, in.seed, dropout_p);
  scale = attrs.scale.value_or(1 / std::sqrt(static_cast<double>(size)));
  if (size == 0) scale = 0;  // a sum over nothing is 0 whatever its factor
  if (!std::isfinite(scale))
    throw ValueError(op, "a finite scale", number_text(scale), "1 / sqrt(E) is the default");
}

Shape AttentionCall::matrix(std::int64_t rows, std::int64_t cols) const {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(cols);
  return shape;
}

Tensor AttentionCall::per_query_head(const Tensor& x) const {
  if (!grouped || x.size(-3) == batch.back()) return x;
  Shape shape = x.shape();
  const std::size_t heads = shape.size() - 3;
  shape.insert(heads + 1, batch.back() / x.size(-3));
  const Tensor repeated = expand(unsqueeze(x, -3), shape);
  return flatten(repeated, static_cast<std::int64_t>(heads), static_cast<std::int64_t>(heads) + 1);
}

Tensor AttentionCall::summed(const Tensor& gradient, const Shape& shape) const {
  const std::size_t heads = shape.size() - 3;
  if (!grouped || shape[heads] == batch.back()) return sum_to(gradient, shape);
  Shape by_group = gradient.shape();
  by_group[by_group.size() - 3] = shape[heads];
  by_group.insert(by_group.size() - 2, batch.back() / shape[heads]);
  return sum_to(sum(reshape(gradient, by_group), {-3}), shape);
}

AttentionViews::AttentionViews(const AttentionCall& call, const AttentionInputs& in) : call_(call) {
  attention_.q = heads(in.query, call.queries, call.size);
  attention_.k = own_heads(in.key, call.keys, call.size);
  attention_.v = own_heads(in.value, call.keys, call.value_size);
  if (in.mask.defined()) attention_.mask = heads(in.mask, call.queries, call.keys);
  attention_.causal = call.causal;
  attention_.scale = call.scale;
  if (call.dropout_p == 0) return;
  attention_.dropout_p = call.dropout_p;
  kept_.push_back(in.seed.contiguous());
  attention_.seed = static_cast<const std::int64_t*>(kept_.back().impl().data());
}

kernels::View AttentionViews::own_heads(const Tensor& x, std::int64_t rows, std::int64_t cols) {
  Shape shape = call_.matrix(rows, cols);
  if (call_.grouped) shape[shape.size() - 3] = x.size(-3);
  return shown(x, shape);
}

kernels::View AttentionViews::shown(const Tensor& x, const Shape& shape) {
  const bool neighbours = x.dim() == 0 || x.size(-1) == 1 || x.strides().back() == 1;
  Tensor result = expand(neighbours ? x : x.contiguous(), shape);
  const std::size_t rank = call_.batch.size();
  // More leading dims than two are merged, with a copy where strides cannot show it.
  if (rank > 2) {
    std::int64_t outer = 1;
    for (std::size_t d = 0; d + 1 < rank; ++d) outer *= shape[d];
    result = reshape(result, {outer, shape[rank - 1], shape[rank], shape[rank + 1]});
  }
  kept_.push_back(result);
  kernels::View view = view_of(result);
  while (view.shape.size() < 4) {
    view.shape.insert(0, 1);
    view.strides.insert(0, 0);
  }
  return view;
}

ComposedAttention::ComposedAttention(const AttentionCall& call, const AttentionInputs& in, DType compute)
    : query(expand(to(in.query, compute), call.matrix(call.queries, call.size))),
      key(expand(call.per_query_head(to(in.key, compute)), call.matrix(call.keys, call.size))),
      value(expand(call.per_query_head(to(in.value, compute)), call.matrix(call.keys, call.value_size))),
      dropout_p(call.dropout_p) {
  Tensor scores = matmul(query, transpose(key, -2, -1)) * call.scale;
  if (in.mask.defined() && in.mask.dtype() == DType::boolean)
    scores = where(in.mask, scores, kMinusInfinity);
  else if (in.mask.defined())
    scores = scores + to(in.mask, compute);
  if (call.causal) scores = where(causal_mask(call, in.query.device()), scores, kMinusInfinity);
  if (call.keys == 0) {
    weights = scores;
    Shape rows = call.batch;
    rows.push_back(call.queries);
    logsumexp = full(rows, kMinusInfinity, {.dtype = compute, .device = query.device()});
  } else {
    // Softmax is not defined for a query without keys, and the gradient of what is not taken must not be NaN.
    const Tensor nothing = eq(amax(scores, {-1}, true), kMinusInfinity);
    const Tensor defined = where(nothing, 0, scores);
    weights = where(nothing, 0, softmax(defined, -1));
    logsumexp = where(squeeze(nothing, -1), kMinusInfinity, mezzo::logsumexp(defined, {-1}));
  }
  if (dropout_p > 0) kept = kept_weights(call, in.seed);
}

Tensor ComposedAttention::dropped(const Tensor& x) const {
  return kept.defined() ? dropout(x, kept, dropout_p) : x;
}

}  // namespace mezzo::ops
