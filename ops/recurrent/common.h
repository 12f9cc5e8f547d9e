// Shared by the recurrent cells: checks, the products of all gates, how gates reach the kernels, and the
// gradients of weights and inputs.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "mezzo/autograd/decomposed.h"
#include "mezzo/kernels/recurrent/recurrent.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/linalg/product.h"
#include "mezzo/ops/recurrent.h"

namespace mezzo::ops {

/// The tensors of a cell.
struct CellInputs {
  const Tensor &x, &h, &w_ih, &w_hh, &b_ih, &b_hh;
  /// From the inputs of an op: x, so many states, the weights and the biases.
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

/// Throws unless the tensors make a cell of that many gates.
void require_cell(std::string_view op, const CellInputs& inputs, std::int64_t gates);
/// Throws unless `tensor` is floating and of those sizes.
void require_sizes(std::string_view op, const std::string& what, const Tensor& tensor, const Shape& sizes);

/// Throws unless `tensor` is floating and a matrix, as `what` says.
void require_state(std::string_view op, const std::string& what, const Tensor& tensor);

/// x weight^T in the dtype sums are taken in; added to `sum` where that is given.
[[nodiscard]] Tensor cell_product(const Tensor& x, const Tensor& weight, const Tensor& sum = {});

/// A weight that is multiplied at every step, in the form that products read: else each would make this copy.
/// Rows lie one after the other, and 16-bit elements are widened where the device multiplies in f32.
[[nodiscard]] Tensor for_many_products(const Tensor& weight);

/// Gate `k` of a tensor [N, gates H], or of a bias [gates H] as it is for every row, as [N, H]; nothing of an
/// undefined one.
[[nodiscard]] kernels::View gate_view(const Tensor& gates, std::int64_t k, const Shape& state);
/// A whole state, or nothing.
[[nodiscard]] inline kernels::View state_view(const Tensor& state) {
  return state.defined() ? view_of(state) : kernels::View{nullptr, DType::f32, {}, {0, 0}};
}

/// x weight^T + bias in plain ops, inputs in `compute`.
[[nodiscard]] Tensor composed_product(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      DType compute);

/// The `count` gates of [N, count H] in plain ops.
[[nodiscard]] Tensors composed_gates(const Tensor& gates, std::int64_t count);
/// A gradient in `compute`; zeros in the shape of `like` where there is none.
[[nodiscard]] Tensor composed_gradient(const Tensor& grad, const Tensor& like, DType compute);

/// Attributes of the backward ops.
struct CellBackwardAttrs {
  std::optional<DType> state_dtype = {};  ///< of the gradient of c (GRU: h); default: the gates'
  static constexpr auto fields() { return std::tuple{attr("state_dtype", &CellBackwardAttrs::state_dtype)}; }
};
/// The dtype that a backward op computes in.
template <class A>
[[nodiscard]] DType common_compute(const ForwardArgs<A>& args) {
  DType common = DType::f32;
  for (const TensorRef& input : args.inputs) {
    if (input->defined()) common = promote(common, input->dtype());
  }
  return common;
}

/// Which inputs of an op make one product with its bias.
struct ProductPlaces {
  std::size_t x, weight, bias;
};
/// Writes the needed gradients of x, weight and bias, given the gradient of x weight^T + bias.
void spread_product(const VjpContext& args, Gradients& gradients, const Tensor& grad,
                    const ProductPlaces& places);

/// Writes the needed gradients of the weight and the bias, given the matrix x.
void spread_weights(const VjpContext& args, Gradients& gradients, const Tensor& grad, const Tensor& x,
                    std::size_t weight, std::size_t bias);

/// The gradient of output i, undefined for none.
[[nodiscard]] inline Tensor grad_or_none(const VjpContext& args, std::size_t i) {
  return args.has_grad(i) ? args.grad(i) : Tensor();
}

/// Calls a cell whose first inputs are x and so many states; one sample is a batch of one on the way.
[[nodiscard]] Outputs call_cell(const Op<NoAttrs>& op, Inputs inputs, std::size_t states);

/// Samples of a cell with that many gates and states: with biases, without, of one element, without a batch.
[[nodiscard]] std::vector<Sample<NoAttrs>> cell_samples(std::int64_t gates, std::size_t states);

}  // namespace mezzo::ops
