// The cache writes into views of its two tensors. Sampling is a composition of ops in f64, so that no
// temperature overflows.
#include "mezzo/nn/generation.h"

#include <cmath>
#include <limits>
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

namespace {

constexpr std::string_view kCache = "KeyValueCache", kSample = "sample_logits";
constexpr double kNeverDrawn = -std::numeric_limits<double>::infinity();

/// Throws unless `x` can be written behind the steps of `to`.
void require_step(const char* what, const Tensor& x, const Tensor& to) {
  if (!x.defined()) throw ValueError(kCache, what, "an undefined tensor", "pass keys and values");
  if (x.dtype() != to.dtype()) {
    throw DTypeError(kCache, std::string(what) + " in the cache's " + to_string(to.dtype()),
                     to_string(x.dtype()), "make the cache with the dtype of the keys");
  }
  if (x.device() != to.device()) {
    throw DeviceError(kCache, std::string(what) + " on " + to_string(to.device()), to_string(x.device()),
                      "make the cache on the device of the keys");
  }
  Shape wanted = to.shape();
  if (x.dim() == 4) wanted[2] = x.size(2);
  if (x.shape() == wanted) return;
  throw ShapeError(kCache,
                   std::string(what) + " [" + std::to_string(wanted[0]) + ", " + std::to_string(wanted[1]) +
                       ", L, " + std::to_string(wanted[3]) + "]",
                   to_string(x.shape()), "check batch, heads and sizes of the cache");
}

void require_logits(std::string_view name, const Tensor& logits) {
  if (!logits.defined()) throw ValueError(name, "logits", "an undefined tensor", "pass a model's scores");
  if (!is_floating(logits.dtype())) {
    throw DTypeError(name, "floating logits", to_string(logits.dtype()), "convert them with to()");
  }
  if (logits.dim() >= 1 && logits.shape().back() > 0) return;
  throw ShapeError(name, "logits [.., V] with a V of at least 1", to_string(logits.shape()),
                   "the last dim is the vocabulary");
}

void require_probability(std::string_view name, double p) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(name, "a p in [0, 1]", number_text(p), "it is a part of the probability; 1 is all");
}

/// `values` at `places` of the last dim of a tensor like x, and -inf elsewhere.
Tensor only(const Tensor& x, const Tensor& places, const Tensor& values) {
  return scatter(full_like(x, kNeverDrawn), -1, places, values);
}

}  // namespace

KeyValueCache::KeyValueCache(std::int64_t batch, std::int64_t num_heads, std::int64_t max_length,
                             std::int64_t key_size, const KeyValueCacheOptions& options) {
  const std::int64_t value_size = options.value_size.value_or(key_size);
  for (const std::int64_t size : {batch, num_heads, max_length, key_size, value_size}) {
    if (size >= 0) continue;
    throw ValueError(kCache, "sizes of at least 0", std::to_string(size), "check the model's sizes");
  }
  if (!is_floating(options.dtype))
    throw DTypeError(kCache, "a floating dtype", to_string(options.dtype), "use that of the keys");
  const TensorOptions tensor_options{.dtype = options.dtype, .device = options.device};
  keys_ = zeros({batch, num_heads, max_length, key_size}, tensor_options);
  values_ = zeros({batch, num_heads, max_length, value_size}, tensor_options);
}

KeyValues KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  require_step("keys", keys, keys_);
  require_step("values", values, values_);
  const std::int64_t steps = keys.size(2);
  if (values.size(2) != steps) {
    throw ShapeError(kCache, "as many values as keys",
                     to_string(keys.shape()) + " and " + to_string(values.shape()), "each key has one value");
  }
  if (steps > max_length() - length_) {
    throw ValueError(kCache, "at most " + std::to_string(max_length() - length_) + " more steps",
                     std::to_string(steps), "make the cache with a larger max_length, or truncate it");
  }
  if (grad_enabled() && (keys.requires_grad() || values.requires_grad())) {
    throw AutogradError(kCache, "keys and values without history", "some that are recorded",
                        "generate in a scope with NoGrad");
  }
  {
    const NoGrad no_grad;
    narrow(keys_, 2, length_, steps).copy_(keys);
    narrow(values_, 2, length_, steps).copy_(values);
  }
  length_ += steps;
  return get();
}

KeyValues KeyValueCache::get() const {
  return {narrow(keys_, 2, 0, length_), narrow(values_, 2, 0, length_)};
}

Tensor KeyValueCache::causal_mask(std::int64_t queries) const {
  if (queries < 0 || queries > length_) {
    throw ValueError(kCache, "at most as many queries as the " + std::to_string(length_) + " keys",
                     std::to_string(queries), "append the queries' keys first");
  }
  const ValueOptions options{.device = keys_.device()};
  return ge(unsqueeze(arange(length_ - queries, length_, 1, options), 1), arange(length_, options));
}

void KeyValueCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw ValueError(kCache, "a length in [0, " + std::to_string(length_) + "]", std::to_string(length),
                     "only steps that are there can stay");
  }
  length_ = length;
}

Tensor top_k_logits(const Tensor& logits, std::int64_t k) {
  constexpr std::string_view kTopK = "top_k_logits";
  require_logits(kTopK, logits);
  if (k < 1) throw ValueError(kTopK, "a k of at least 1", std::to_string(k), "leave the filter out for all");
  if (k >= logits.shape().back()) return logits;
  const auto [values, places] = topk(logits, k, -1);
  return only(logits, places, values);
}

Tensor top_p_logits(const Tensor& logits, double p) {
  constexpr std::string_view kTopP = "top_p_logits";
  require_logits(kTopP, logits);
  require_probability(kTopP, p);
  if (p == 1) return logits;
  const auto [values, places] = sort(logits, -1, true);
  const Tensor shares = softmax(values, -1, logits.dtype() == DType::f64 ? DType::f64 : DType::f32);
  // The sum of all larger shares: the largest logit stays whatever p is.
  const Tensor before = cumsum(shares, -1) - shares;
  const Tensor first = eq(arange(logits.shape().back(), {.device = logits.device()}), 0);
  return only(logits, places, where(logical_or(first, lt(before, p)), values, kNeverDrawn));
}

Tensor sample_logits(const Tensor& logits, const SampleOptions& options, Generator& generator) {
  require_logits(kSample, logits);
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    throw ValueError(kSample, "a finite temperature of at least 0", number_text(options.temperature),
                     "0 takes the largest logit, 1 leaves them");
  }
  if (options.top_k < 0)
    throw ValueError(kSample, "a top_k of at least 0", std::to_string(options.top_k), "0 is for all");
  require_probability(kSample, options.top_p);
  const NoGrad no_grad;
  const Tensor largest = amax(logits, {-1}, true);
  if (!all(isfinite(largest)).item<bool>()) {
    throw ValueError(kSample, "logits without NaN and inf, and not all of -inf", "others",
                     "look at what they are computed from");
  }
  if (options.temperature == 0) return argmax(logits, -1);
  // Differences first: they cannot overflow upwards, whatever they are divided by.
  Tensor scores = (logits.to(DType::f64) - largest.to(DType::f64)) / options.temperature;
  if (options.top_k > 0) scores = top_k_logits(scores, options.top_k);
  scores = top_p_logits(scores, options.top_p);
  const std::int64_t size = scores.shape().back();
  Shape leading = scores.shape();
  leading.pop_back();
  const Tensor rows = reshape(softmax(scores, -1), {layout::numel(leading), size});
  return reshape(multinomial(rows, 1, false, generator), leading);
}

}  // namespace mezzo::nn
