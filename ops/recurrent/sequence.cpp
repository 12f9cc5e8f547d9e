// Checks of the ops over sequences, the gradients of x and its weight, and samples.
#include "mezzo/ops/recurrent/sequence.h"

#include "mezzo/ops/matmul.h"

namespace mezzo::ops {

void require_steps(std::string_view op, const std::string& what, const Tensor& steps) {
  require_floating(op, steps);
  if (steps.dim() == 3 && steps.size(0) > 0) return;
  throw ShapeError(op, what + " with at least one step", to_string(steps.shape()),
                   "the first dim counts the steps, the second one the samples");
}

CellInputs checked_sequence(std::string_view op, const CellInputs& inputs, std::int64_t gates) {
  require_steps(op, "x [L, N, I]", inputs.x);
  const Tensor first = at(inputs.x, 0);
  require_cell(op, {first, inputs.h, inputs.w_ih, inputs.w_hh, inputs.b_ih, inputs.b_hh}, gates);
  return inputs;
}

void spread_steps(const VjpContext& args, Gradients& gradients, const Tensor& grad,
                  const ProductPlaces& places) {
  const auto [x, weight, bias] = places;
  const Tensor rows = as_rows(grad);
  if (args.needs(x)) gradients[x] = reshape(matmul(rows, args.in(weight), args.wanted(x)), args.in_shape(x));
  spread_weights(args, gradients, rows, as_rows(args.in(x)), weight, bias);
}

std::vector<Sample<SequenceAttrs>> sequence_samples(std::int64_t gates, std::size_t states) {
  using op_samples::absent;
  using op_samples::real;
  const auto sample = [&](std::int64_t length, std::int64_t n, std::int64_t features, std::int64_t hidden,
                          bool biases, bool reverse) {
    Sample<SequenceAttrs> result{{real({length, n, features})}, {reverse}};
    for (std::size_t s = 0; s < states; ++s) result.inputs.push_back(real({n, hidden}));
    for (const std::int64_t columns : {features, hidden})
      result.inputs.push_back(real({gates * hidden, columns}, -1, 1));
    for (int b = 0; b < 2; ++b) result.inputs.push_back(biases ? real({gates * hidden}, -1, 1) : absent());
    return result;
  };
  return {sample(3, 2, 3, 2, true, false), sample(2, 3, 1, 3, false, true), sample(1, 1, 2, 1, true, true),
          sample(2, 0, 2, 3, true, false)};
}

}  // namespace mezzo::ops
