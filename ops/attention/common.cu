// The checks of attention, its way to the kernels, and its plain composition; see common.h.
#include "mezzo/ops/attention/common.h"

#include <cmath>
#include <limits>

#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/random/generate.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"
#include "mezzo/ops/softmax.h"

namespace mezzo::ops {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Shape leading(const Tensor& x) {
  return Shape(std::span<const std::int64_t>(x.shape().begin(), x.shape().size() - 2));
}

void require_matrices(std::string_view op, const AttentionInputs& in) {
  for (const auto& [what, x] : {std::pair{"query", &in.query}, {"key", &in.key}, {"value", &in.value}}) {
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
    : causal(attrs.is_causal), dropout_p(attrs.dropout_p) {
  require_matrices(op, in);
  batch = layout::broadcast(op, layout::broadcast(op, leading(in.query), leading(in.key)), leading(in.value));
  queries = in.query.size(-2), size = in.query.size(-1);
  keys = in.value.size(-2), value_size = in.value.size(-1);
  const Shape scores = matrix(queries, keys);
  layout::checked_numel(op, scores);
  for (const auto& [rows, cols] :
       {std::pair{queries, size}, {keys, size}, {keys, value_size}, {queries, value_size}})
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

AttentionViews::AttentionViews(const AttentionCall& call, const AttentionInputs& in) : call_(call) {
  attention_.q = heads(in.query, call.queries, call.size);
  attention_.k = heads(in.key, call.keys, call.size);
  attention_.v = heads(in.value, call.keys, call.value_size);
  if (in.mask.defined()) attention_.mask = heads(in.mask, call.queries, call.keys);
  attention_.causal = call.causal;
  attention_.scale = call.scale;
  if (call.dropout_p == 0) return;
  attention_.dropout_p = call.dropout_p;
  kept_.push_back(in.seed.contiguous());
  attention_.seed = static_cast<const std::int64_t*>(kept_.back().impl().data());
}

kernels::View AttentionViews::heads(const Tensor& x, std::int64_t rows, std::int64_t cols) {
  const Shape shape = call_.matrix(rows, cols);
  const bool neighbours = x.dim() == 0 || x.size(-1) == 1 || x.strides().back() == 1;
  Tensor shown = expand(neighbours ? x : x.contiguous(), shape);
  const std::size_t rank = call_.batch.size();
  // More leading dims than two are merged, with a copy where strides cannot show it.
  if (rank > 2) {
    std::int64_t outer = 1;
    for (std::size_t d = 0; d + 1 < rank; ++d) outer *= call_.batch[d];
    shown = reshape(shown, {outer, call_.batch[rank - 1], rows, cols});
  }
  kept_.push_back(shown);
  kernels::View view = view_of(shown);
  while (view.shape.size() < 4) {
    view.shape.insert(0, 1);
    view.strides.insert(0, 0);
  }
  return view;
}

ComposedAttention::ComposedAttention(const AttentionCall& call, const AttentionInputs& in, DType compute)
    : query(expand(to(in.query, compute), call.matrix(call.queries, call.size))),
      key(expand(to(in.key, compute), call.matrix(call.keys, call.size))),
      value(expand(to(in.value, compute), call.matrix(call.keys, call.value_size))),
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
