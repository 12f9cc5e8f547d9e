// MultiheadAttention's forward: projections (one product if query, key and value are one tensor), all
// masks joined into one, then scaled_dot_product_attention. If the caller wants the weights, softmax and
// two products take its place.
#include "mezzo/nn/attention.h"

#include <cmath>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

namespace {

constexpr std::string_view kName = "MultiheadAttention";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// softmax over the last dim, where a row of -inf is 0, in forward and backward.
Tensor weights_of(const Tensor& scores, bool masked) {
  if (!masked || scores.numel() == 0) return softmax(scores, -1);
  const Tensor nothing = eq(amax(scores, {-1}, true), -kInfinity);
  return where(nothing, 0, softmax(where(nothing, 0, scores), -1));
}

/// Both masks, each undefined for none.
Tensor joined(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  const bool a_is_bool = a.dtype() == DType::boolean, b_is_bool = b.dtype() == DType::boolean;
  if (a_is_bool && b_is_bool) return logical_and(a, b);
  if (a_is_bool) return where(a, b, -kInfinity);
  return b_is_bool ? where(b, a, -kInfinity) : a + b;
}

}  // namespace

MultiheadAttention::Sizes::Sizes(std::int64_t embed_dim_in, std::int64_t num_heads_in,
                                 const MultiheadAttentionOptions& options)
    : embed_dim(detail::at_least_one(kName, "embed_dim", embed_dim_in)),
      num_heads(detail::at_least_one(kName, "num_heads", num_heads_in)),
      kdim(detail::at_least_one(kName, "kdim", options.kdim.value_or(embed_dim))),
      vdim(detail::at_least_one(kName, "vdim", options.vdim.value_or(embed_dim))) {
  layout::checked_numel(kName, {3, embed_dim, embed_dim});
  if (embed_dim % num_heads != 0) {
    throw ValueError(kName, "an embed_dim that num_heads divides",
                     std::to_string(embed_dim) + " and " + std::to_string(num_heads),
                     "every head takes an equal part");
  }
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(kName, "a probability dropout in [0, 1]", Value(options.dropout).to_string(),
                     "dropout is the part of the weights that is zeroed");
  }
}

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : sizes_(embed_dim, num_heads, options),
      in_proj_weight(*this, "in_proj_weight",
                     detail::unfilled(sizes_.one_size(), {3 * embed_dim, embed_dim}, options)),
      q_proj_weight(*this, "q_proj_weight",
                    detail::unfilled(!sizes_.one_size(), {embed_dim, embed_dim}, options)),
      k_proj_weight(*this, "k_proj_weight",
                    detail::unfilled(!sizes_.one_size(), {embed_dim, sizes_.kdim}, options)),
      v_proj_weight(*this, "v_proj_weight",
                    detail::unfilled(!sizes_.one_size(), {embed_dim, sizes_.vdim}, options)),
      in_proj_bias(*this, "in_proj_bias", detail::unfilled(options.bias, {3 * embed_dim}, options)),
      bias_k(*this, "bias_k", detail::unfilled(options.add_bias_kv, {1, 1, embed_dim}, options)),
      bias_v(*this, "bias_v", detail::unfilled(options.add_bias_kv, {1, 1, embed_dim}, options)),
      out_proj(*this, "out_proj",
               make<Linear>(embed_dim, embed_dim,
                            LinearOptions{.bias = options.bias,
                                          .dtype = options.dtype,
                                          .device = options.device,
                                          .generator = options.generator})),
      options_(options) {
  fill(detail::or_default(options.generator));
}

void MultiheadAttention::fill(Generator& generator) {
  for (const Param* weight : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight}) {
    if (weight->defined()) init::xavier_uniform_(*weight, 1, generator);
  }
  for (const Param* added : {&bias_k, &bias_v}) {
    if (added->defined()) init::xavier_normal_(*added, 1, generator);
  }
  if (!in_proj_bias.defined()) return;
  init::zeros_(in_proj_bias);
  init::zeros_(out_proj->bias);
}

void MultiheadAttention::reset_parameters(Generator& generator) {
  out_proj->reset_parameters(generator);
  fill(generator);
}

void MultiheadAttention::require_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw ShapeError(described(), expected, got,
                     "check the layers before, or this one's sizes and batch_first");
  };
  const std::int64_t dims = query.defined() ? query.dim() : 0;
  for (const auto& [what, x, size] : {std::tuple{"query", &query, sizes_.embed_dim},
                                      {"key", &key, sizes_.kdim},
                                      {"value", &value, sizes_.vdim}}) {
    if (!x->defined())
      throw ValueError(described(), std::string("a ") + what, "an undefined tensor", "pass all three");
    if ((x->dim() == 2 || x->dim() == 3) && x->dim() == dims && x->shape().back() == size) continue;
    refuse(std::string("a ") + what + " of 2 dims (one sample) or 3, as the query, of which the last is " +
               std::to_string(size),
           to_string(x->shape()));
  }
  const std::size_t batch = options_.batch_first ? 0 : 1, length = dims == 3 && options_.batch_first ? 1 : 0;
  const bool one_batch = dims == 2 || (query.shape()[batch] == key.shape()[batch] &&
                                       query.shape()[batch] == value.shape()[batch]);
  if (one_batch && key.shape()[length] == value.shape()[length]) return;
  refuse("query, key and value of one batch, and as many keys as values",
         to_string(query.shape()) + ", " + to_string(key.shape()) + " and " + to_string(value.shape()));
}

Tensor MultiheadAttention::as_heads(const Tensor& x) const {
  Shape shape = x.shape();
  shape.back() = sizes_.num_heads;
  shape.push_back(sizes_.embed_dim / sizes_.num_heads);
  const Tensor heads = reshape(x, shape);
  if (heads.dim() == 3) return unsqueeze(transpose(heads, 0, 1), 0);
  return permute(heads, options_.batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
}

MultiheadAttention::Heads MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  if (in_proj_weight.defined() && query.is_same(key) && key.is_same(value)) {
    const Tensors parts = split(linear(query, in_proj_weight, in_proj_bias), sizes_.embed_dim, -1);
    return {as_heads(parts[0]), as_heads(parts[1]), as_heads(parts[2])};
  }
  const bool packed = in_proj_weight.defined();
  const Tensors weights =
      packed ? split(in_proj_weight, sizes_.embed_dim) : Tensors{q_proj_weight, k_proj_weight, v_proj_weight};
  const Tensors biases = in_proj_bias.defined() ? split(in_proj_bias, sizes_.embed_dim) : Tensors{{}, {}, {}};
  return {as_heads(linear(query, weights[0], biases[0])), as_heads(linear(key, weights[1], biases[1])),
          as_heads(linear(value, weights[2], biases[2]))};
}

Tensor MultiheadAttention::joined_mask(const Heads& heads, const AttentionMasks& masks,
                                       bool is_sample) const {
  const std::int64_t batch = heads.q.size(0), queries = heads.q.size(2), keys = heads.k.size(2),
                     added = added_keys();
  const auto checked_mask = [&](const char* name, const Tensor& mask, const Shape& shape,
                                const Shape& other) {
    if (mask.dtype() != DType::boolean && !is_floating(mask.dtype())) {
      throw DTypeError(described(), std::string(name) + " that is bool or floating", to_string(mask.dtype()),
                       "a bool mask is true where a key is left out");
    }
    if (mask.shape() != shape && mask.shape() != other) {
      throw ShapeError(
          described(),
          std::string(name) + " " + to_string(shape) + (other == shape ? "" : " or " + to_string(other)),
          to_string(mask.shape()), "its last dim is the keys");
    }
    return mask.dtype() == DType::boolean ? logical_not(mask) : mask;
  };
  Tensor result;
  if (masks.attn_mask.defined()) {
    const Shape each{batch * sizes_.num_heads, queries, keys};
    result = checked_mask("an attn_mask", masks.attn_mask, {queries, keys}, each);
    if (result.dim() == 3) result = reshape(result, {batch, sizes_.num_heads, queries, keys});
  }
  if (masks.key_padding_mask.defined()) {
    const Shape shape = is_sample ? Shape{keys} : Shape{batch, keys};
    const Tensor padding = checked_mask("a key_padding_mask", masks.key_padding_mask, shape, shape);
    result = joined(result, reshape(padding, {batch, 1, 1, keys}));
  }
  if (masks.is_causal && (result.defined() || masks.need_weights || added > 0)) {
    const ValueOptions options{.device = heads.q.device()};
    result = joined(result, ge(unsqueeze(arange(queries, options), 1), arange(keys, options)));
  }
  if (!result.defined() || added == 0) return result;
  Shape shape = result.shape();
  shape.back() = added;
  const double takes_part = result.dtype() == DType::boolean ? 1 : 0;
  return cat({result, full(shape, takes_part, {.dtype = result.dtype(), .device = result.device()})}, -1);
}

Tensor MultiheadAttention::with_added(const Tensor& heads, const Tensor& bias) const {
  if (added_keys() == 0) return heads;
  const Shape one{heads.size(0), sizes_.num_heads, 1, heads.size(3)};
  Tensors parts{heads};
  if (bias.defined()) {
    const Tensor of_heads = reshape(bias, {1, sizes_.num_heads, 1, heads.size(3)});
    parts.push_back(expand(of_heads.to(heads.dtype()), one));
  }
  if (options_.add_zero_attn) parts.push_back(zeros(one, {.dtype = heads.dtype(), .device = heads.device()}));
  return cat(parts, 2);
}

AttentionOutput MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const AttentionMasks& masks) {
  require_inputs(query, key, value);
  const bool is_sample = query.dim() == 2;
  Heads heads = project(query, key, value);
  const Tensor mask = joined_mask(heads, masks, is_sample);
  heads.k = with_added(heads.k, bias_k);
  heads.v = with_added(heads.v, bias_v);
  const double dropout_p = is_training() ? options_.dropout : 0;
  Generator& generator = detail::or_default(options_.dropout_generator);
  AttentionOutput result;
  Tensor mixed;
  if (masks.need_weights) {
    const double scale = 1 / std::sqrt(static_cast<double>(sizes_.embed_dim / sizes_.num_heads));
    Tensor scores = matmul(heads.q * scale, transpose(heads.k, -2, -1));
    if (mask.defined())
      scores = mask.dtype() == DType::boolean ? where(mask, scores, -kInfinity) : scores + mask;
    result.weights = mezzo::dropout(weights_of(scores, mask.defined()), dropout_p, true, generator);
    mixed = matmul(result.weights.to(heads.v.dtype()), heads.v);
    if (masks.average_attn_weights) result.weights = mean(result.weights, {1});
    if (is_sample) result.weights = squeeze(result.weights, 0);
  } else {
    mixed = scaled_dot_product_attention(
        heads.q, heads.k, heads.v,
        {.attn_mask = mask, .dropout_p = dropout_p, .is_causal = masks.is_causal && !mask.defined()},
        generator);
  }
  // [N, num_heads, L, ..] back to the query's layout.
  const Tensor ordered = is_sample
                             ? transpose(squeeze(mixed, 0), 0, 1)
                             : permute(mixed, options_.batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3});
  Shape shape = query.shape();
  shape.back() = sizes_.embed_dim;
  result.output = out_proj(reshape(ordered, shape));
  return result;
}

}  // namespace mezzo::nn
