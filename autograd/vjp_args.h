// The arguments of a gradient function: the gradients of the outputs, the saved tensors, and which inputs
// need a gradient in which dtype.
#pragma once

#include "mezzo/autograd/node.h"

namespace mezzo {

namespace detail {
/// `saved` in `dtype` (recorded when recording is on). Defined with the engine, since it calls an op.
[[nodiscard]] Tensor cast_saved(const Tensor& saved, DType dtype);
/// `values` with the history that `edge` leads to: as if they were the input.
[[nodiscard]] Tensor with_history(const Tensor& values, const autograd::Edge& edge);
/// Zeros for an output that got no gradient.
[[nodiscard]] Tensor zero_gradient(const autograd::OutputInfo& output);
}  // namespace detail

/// Arguments of a vjp, independent of the attributes.
class VjpContext {
 public:
  VjpContext(const autograd::Node& node, std::span<const Tensor> grads, std::span<const bool> needs)
      : node_(node), grads_(grads), needs_(needs) {}

  /// Gradient of output i; zeros when nothing flowed back to it.
  [[nodiscard]] Tensor grad(std::size_t i = 0) const {
    return grads_[i].defined() ? grads_[i] : detail::zero_gradient(node_.outputs[i]);
  }
  [[nodiscard]] bool has_grad(std::size_t i) const { return grads_[i].defined(); }
  /// Saved input i; undefined when it was absent. When autocast had the kernel read 16-bit inputs and compute
  /// in f32, this is the f32 cast, so that the gradient is bit-equal to the gradient of cast-then-run.
  [[nodiscard]] Tensor in(std::size_t i) const {
    Tensor saved = node_.unpack_input(i);
    const bool widen = node_.run_dtype && saved.defined() && is_16bit(saved.dtype());
    return widen ? detail::cast_saved(saved, *node_.run_dtype) : saved;
  }
  /// Whether the op's `saves` names input i, or it was absent.
  [[nodiscard]] bool saves(std::size_t i) const { return node_.saves_input(i); }
  /// Saved input i as the kernel read it: for `_backward` ops whose kernels widen themselves.
  [[nodiscard]] Tensor stored_in(std::size_t i) const { return node_.unpack_input(i); }
  /// Input i, whose values were kept in another form than the input itself: `values` with its history.
  [[nodiscard]] Tensor in_as(std::size_t i, const Tensor& values) const {
    return detail::with_history(values, node_.edges[i]);
  }
  /// Saved output i.
  [[nodiscard]] Tensor out(std::size_t i = 0) const { return node_.unpack_output(i); }
  [[nodiscard]] bool needs(std::size_t i) const { return needs_[i]; }
  /// dtype in which the gradient of input i is best returned (the input's own, or the one behind its cast).
  [[nodiscard]] DType wanted(std::size_t i) const { return node_.edges[i].wanted; }
  [[nodiscard]] const Shape& in_shape(std::size_t i) const { return node_.edges[i].shape; }
  [[nodiscard]] DType in_dtype(std::size_t i) const { return node_.edges[i].dtype; }
  [[nodiscard]] Device in_device(std::size_t i) const { return node_.edges[i].device; }
  [[nodiscard]] const Shape& out_shape(std::size_t i = 0) const { return node_.outputs[i].shape; }
  [[nodiscard]] DType out_dtype(std::size_t i = 0) const { return node_.outputs[i].dtype; }
  [[nodiscard]] std::size_t num_inputs() const { return node_.edges.size(); }
  [[nodiscard]] std::size_t num_outputs() const { return node_.outputs.size(); }

 private:
  const autograd::Node& node_;
  std::span<const Tensor> grads_;
  std::span<const bool> needs_;
};

template <class A>
class VjpArgs : public VjpContext {
 public:
  VjpArgs(const VjpContext& context, const Op<A>& descriptor, const A& attributes)
      : VjpContext(context), op(descriptor), attrs(attributes) {}
  const Op<A>& op;  ///< whose gradient is asked for
  const A& attrs;
};

}  // namespace mezzo
