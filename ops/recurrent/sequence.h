// Shared by the ops that run a cell over all steps of a sequence: their attributes, the order of steps, and
// how one step is taken out of what holds all of them.
#pragma once

#include <optional>
#include <tuple>

#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/recurrent/common.h"
#include "mezzo/ops/shape.h"

namespace mezzo::ops {

struct SequenceAttrs {
  bool reverse = false;
  static constexpr auto fields() { return std::tuple{attr("reverse", &SequenceAttrs::reverse)}; }
};
struct SequenceBackwardAttrs {
  bool reverse = false;
  /// Of the gradient of the first c (GRU: h); default: the gates'.
  std::optional<DType> state_dtype = {};
  static constexpr auto fields() {
    using A = SequenceBackwardAttrs;
    return std::tuple{attr("reverse", &A::reverse), attr("state_dtype", &A::state_dtype)};
  }
};

/// Which step comes as the k-th.
struct Order {
  std::int64_t length = 0;
  bool reverse = false;
  [[nodiscard]] std::int64_t operator[](std::int64_t k) const { return reverse ? length - 1 - k : k; }
  [[nodiscard]] std::int64_t last() const { return (*this)[length - 1]; }
};

/// Step t of what holds all steps; undefined of an undefined tensor.
[[nodiscard]] inline Tensor at(const Tensor& steps, std::int64_t t) {
  return steps.defined() ? select(steps, 0, t) : Tensor();
}

/// [L, N, F] as [L N, F].
[[nodiscard]] inline Tensor as_rows(const Tensor& steps) {
  return reshape(steps, {steps.size(0) * steps.size(1), steps.size(2)});
}

/// States [L, N, H] that the steps begin with, at the steps' places: `first`, then each previous step's.
[[nodiscard]] inline Tensor states_before(const Order& order, const Tensor& first, const Tensor& states) {
  const Tensor start = unsqueeze(first, 0);
  return order.reverse ? cat({narrow(states, 0, 1, order.length - 1), start})
                       : cat({start, narrow(states, 0, 0, order.length - 1)});
}

/// Throws unless `steps` is floating, of three dims, as `what` says, and has a step.
void require_steps(std::string_view op, const std::string& what, const Tensor& steps);

/// The tensors of a cell over a sequence, checked: x [L, N, I], and a cell of that many gates at each step.
[[nodiscard]] CellInputs checked_sequence(std::string_view op, const CellInputs& inputs, std::int64_t gates);

/// Samples of a sequence with that many gates and states: in both directions, with biases and without, of
/// one element, without a batch.
[[nodiscard]] std::vector<Sample<SequenceAttrs>> sequence_samples(std::int64_t gates, std::size_t states);

/// spread_product of x's products of all steps, given their gradient [L, N, G H].
void spread_steps(const VjpContext& args, Gradients& gradients, const Tensor& grad,
                  const ProductPlaces& places);

/// The OpInfo of an op over a sequence whose inputs are x, so many states, the weights and the biases.
[[nodiscard]] constexpr OpInfo sequence_info(std::string_view name, std::size_t states) {
  return {
      .name = name,
      .category = Category::lower_precision,
      .optional_inputs = tensor_set(states + 3, states + 4),
      .opt_out = {.low_precision = "rounds between its steps, as its cell does: a test compares the two"}};
}
/// A backward op whose low-precision results are no single rounding.
template <class A>
[[nodiscard]] constexpr Op<A> rounding_between_steps(Op<A> op) {
  op.info.opt_out.low_precision =
      "rounds the gradients of products between its steps, as a loop of cells does: a test compares the two";
  return op;
}

}  // namespace mezzo::ops
