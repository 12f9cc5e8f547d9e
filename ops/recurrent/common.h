// What the ops of recurrent cells share (ops/recurrent/cell_ops.h): their tensors and attributes, checks, the
// order of steps, products of all gates, and how gates and states reach the kernels.
//
// "Steps" are either all steps of a sequence, [L, N, F], or a single one, [N, F].
#pragma once

#include <array>
#include <vector>

#include "mezzo/autograd/decomposed.h"
#include "mezzo/kernels/recurrent/recurrent.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/recurrent.h"
#include "mezzo/ops/shape.h"

namespace mezzo::ops {

struct SequenceAttrs {
  bool reverse = false;  ///< from the last step to the first
  MEZZO_FIELDS(SequenceAttrs, reverse)
};

/// States and gates of a step or of all steps, or their gradients. Undefined: the cell has no such tensor, or
/// none is given.
struct CellStep {
  Tensor h, c, gates;
};
/// Gradients of a step: of x's product, of h's where that one stands apart, and of the state before it, as
/// far as that does not go through h's product.
struct CellStepGradient {
  Tensor of_x, of_h, state;
};

/// The tensors of a cell.
struct CellInputs {
  const Tensor &x, &h, &w_ih, &w_hh, &b_ih, &b_hh;
  /// From an op whose inputs are x, so many states, the weights and the biases.
  template <class A>
  [[nodiscard]] static CellInputs of(const ForwardArgs<A>& args, std::size_t states) {
    return {args.in(0),          args.in(1),          args.in(states + 1),
            args.in(states + 2), args.in(states + 3), args.in(states + 4)};
  }
  [[nodiscard]] std::int64_t batch() const { return h.size(0); }
  [[nodiscard]] std::int64_t hidden() const { return h.size(1); }
  [[nodiscard]] DType dtype() const { return x.dtype(); }
  [[nodiscard]] DType compute() const { return compute_dtype(x.dtype()); }
};

// --- steps

/// Which step comes as the k-th.
struct Order {
  std::int64_t length = 0;
  bool reverse = false;
  [[nodiscard]] std::int64_t operator[](std::int64_t k) const { return reverse ? length - 1 - k : k; }
  [[nodiscard]] std::int64_t last() const { return (*this)[length - 1]; }
};
[[nodiscard]] inline bool is_sequence(const Shape& steps) { return steps.size() == 3; }
/// The order of steps of that shape.
[[nodiscard]] inline Order order_of(const Shape& steps, bool reverse) {
  return is_sequence(steps) ? Order{steps[0], reverse} : Order{1, false};
}

/// Step t; undefined of an undefined tensor.
[[nodiscard]] inline Tensor at(const Tensor& steps, std::int64_t t) {
  return steps.defined() && is_sequence(steps.shape()) ? select(steps, 0, t) : steps;
}
[[nodiscard]] inline CellStep at(const CellStep& steps, std::int64_t t) {
  return {at(steps.h, t), at(steps.c, t), at(steps.gates, t)};
}
/// `steps` with that many columns.
[[nodiscard]] Shape with_columns(Shape steps, std::int64_t columns);
/// Steps as a matrix, [L N, F].
[[nodiscard]] Tensor as_rows(const Tensor& steps);
/// The states [L, N, H] that the steps of a sequence begin with, each at its step's place: `first`, then the
/// ones before.
[[nodiscard]] Tensor states_before(const Order& order, const Tensor& first, const Tensor& states);

// --- checks

/// Throws unless the tensors make a cell of that many gates.
void require_cell(std::string_view op, const CellInputs& inputs, std::int64_t gates);
/// require_cell for an x [L, N, I].
void require_cell_of_sequence(std::string_view op, const CellInputs& inputs, std::int64_t gates);
/// Throws unless `tensor` is floating and of those sizes.
void require_sizes(std::string_view op, const std::string& what, const Tensor& tensor, const Shape& sizes);

// --- products

/// steps weight^T, in the dtype sums are taken in.
[[nodiscard]] Tensor product_of_steps(const Tensor& steps, const Tensor& weight);
/// A weight that is multiplied at every step, in the form that products read: else each would make this copy.
/// Rows lie one after the other, and 16-bit elements are widened where the device multiplies in f32.
[[nodiscard]] Tensor for_products(const Tensor& weight, std::int64_t steps);
/// Writes the gradients of weight and bias that are needed, given the gradient of x weight^T + bias and the
/// matrix x.
void spread_weights(const VjpContext& args, Gradients& gradients, const Tensor& grad, const Tensor& x,
                    std::size_t weight, std::size_t bias);

/// The dtype that a backward op computes in.
template <class A>
[[nodiscard]] DType common_compute(const ForwardArgs<A>& args) {
  DType common = DType::f32;
  for (const TensorRef& input : args.inputs) {
    if (input->defined()) common = promote(common, input->dtype());
  }
  return common;
}

// --- operands of the kernels

/// Gate `k` of a tensor [N, gates H], or of a bias [gates H] as it is for every row, as [N, H]; nothing of an
/// undefined one.
[[nodiscard]] kernels::View gate_view(const Tensor& gates, std::int64_t k, const Shape& state);

/// The operands of a pass over states of one shape, in the order in which they are added.
template <std::size_t N>
class CellViews : public std::array<kernels::View, N> {
 public:
  explicit CellViews(const Shape& state) : state_(state) {}
  CellViews& state(const Tensor& tensor) {
    (*this)[size_++] =
        tensor.defined() ? view_of(tensor) : kernels::View{nullptr, DType::f32, state_, {0, 0}};
    return *this;
  }
  CellViews& gates(const Tensor& tensor, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) (*this)[size_++] = gate_view(tensor, k, state_);
    return *this;
  }

 private:
  const Shape& state_;
  std::size_t size_ = 0;
};

// --- plain ops, for references

/// In that dtype; undefined of an undefined tensor.
[[nodiscard]] inline Tensor in_dtype(const Tensor& tensor, DType dtype) {
  return tensor.defined() ? to(tensor, dtype) : tensor;
}
/// x weight^T + bias in plain ops, inputs in `compute`.
[[nodiscard]] Tensor composed_product(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      DType compute);
/// The `count` gates of [N, count H] in plain ops.
[[nodiscard]] Tensors composed_gates(const Tensor& gates, std::int64_t count);
/// Steps given one by one.
[[nodiscard]] Tensor stacked(const std::vector<Tensor>& steps, bool sequence);

// --- calls and samples

/// Calls a cell whose first inputs are x and so many states; one sample is a batch of one on the way.
[[nodiscard]] Outputs call_cell(const Op<NoAttrs>& op, Inputs inputs, std::size_t states);

/// Inputs of a cell with that many gates and states, over `length` steps, or one step without their dim for
/// 0.
[[nodiscard]] std::vector<SampleInput> cell_sample(std::int64_t gates, std::size_t states,
                                                   std::int64_t length, std::int64_t batch,
                                                   std::int64_t features, std::int64_t hidden, bool biases);

}  // namespace mezzo::ops
