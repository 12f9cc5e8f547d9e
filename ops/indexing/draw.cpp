// bernoulli and multinomial: random numbers compared with probabilities.
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// Whether each row of [rows, n] can be drawn from. One host read.
bool are_fit(const Tensor& weights, std::int64_t least_positive) {
  const Tensor sound = logical_and(isfinite(weights), ge(weights, 0));
  const Tensor enough = ge(sum(gt(weights, 0), 1), least_positive);
  return logical_and(all(sound), all(enough)).item<bool>();
}

}  // namespace

Tensor bernoulli(const Tensor& p, Generator& generator) {
  require_floating("bernoulli", p);
  const NoGrad no_grad;
  const Tensor u = rand(p.shape(), {.dtype = DType::f64, .device = p.device()}, generator);
  return to(lt(u, to(p, DType::f64)), p.dtype());
}

Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement, Generator& generator) {
  require_floating("multinomial", weights);
  if (weights.dim() < 1 || weights.dim() > 2) {
    throw ShapeError("multinomial", "weights of shape [n] or [rows, n]", to_string(weights.shape()),
                     "reshape them");
  }
  if (num_samples < 1) {
    throw ValueError("multinomial", "at least 1 sample", std::to_string(num_samples), "ask for more");
  }
  const NoGrad no_grad;
  const Tensor rows = to(weights.dim() == 1 ? unsqueeze(weights, 0) : weights, DType::f64);
  if (!are_fit(rows, replacement ? 1 : num_samples)) {
    throw ValueError("multinomial",
                     "finite weights of at least 0, in each row " +
                         (replacement ? std::string("one") : std::to_string(num_samples)) + " above 0",
                     "others", "draw with replacement, or look at what the weights are computed from");
  }
  // -log(1 - u) is exponential, and 0 for u = 0, by which a weight of 0 must not be divided.
  const std::int64_t draws = replacement ? num_samples : 1;
  const Tensor u =
      rand({rows.size(0), draws, rows.size(1)}, {.dtype = DType::f64, .device = rows.device()}, generator);
  const Tensor clocks = clamp(neg(log1p(neg(u))), 0x1p-60);
  const Tensor share = div(rows, amax(rows, 1, true));
  const Tensor speeds = div(unsqueeze(share, 1), clocks);
  const Tensor drawn = replacement ? argmax(speeds, 2) : topk(squeeze(speeds, 1), num_samples, 1).indices;
  return weights.dim() == 1 ? squeeze(drawn, 0) : drawn;
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, std::int64_t dim, Generator& generator) {
  require_floating("gumbel_softmax", logits);
  if (!(tau > 0)) throw ValueError("gumbel_softmax", "tau above 0", number_text(tau), "1 is usual");
  Tensor noise = empty_like(logits, compute_dtype(logits.dtype()));
  noise = neg(log(exponential_(noise, 1, generator)));
  const Tensor soft = softmax(div(add(logits, noise), tau), dim);
  if (!hard) return to(soft, logits.dtype());
  const Tensor place = argmax(soft, logits.dim() == 0 ? 0 : dim, true);
  const Tensor one = scatter(zeros_like(soft), dim, place, 1);
  return to(add(sub(one, soft.detach()), soft), logits.dtype());
}

}  // namespace mezzo
