// The gradients of attention on a CUDA device, by either kind of block.
#pragma once

#include <utility>

#include "mezzo/kernels/attention/cuda_pass.h"

namespace mezzo::kernels::cuda {

/// Where the gradients go; data == nullptr: not wanted.
struct AttentionTargets {
  const View &queries, &keys, &values;
};

/// By flash kernels (takes_flash). `pass` has queries as rows, logsumexp and delta.
void flash_backward(Device device, const Attention& attention, const AttentionPass<float>& pass,
                    const AttentionTargets& targets, const View& grad);

/// The pass to the gradient of queries.
template <class T>
[[nodiscard]] AttentionPass<T> to_queries(const Attention& attention, AttentionPass<T> pass, const View& grad,
                                          const View& target) {
  pass.grad_x = TileSource(grad);
  pass.grad_y = values_of(attention);
  pass.z = pass.y;
  if (target.data != nullptr) pass.out = TileSource(target);
  return pass;
}
/// The passes to the gradients of keys and values, whose rows are keys.
template <class T>
[[nodiscard]] AttentionPass<T> to_keys(const Attention& attention, AttentionPass<T> pass, const View& grad,
                                       const View& target) {
  std::swap(pass.x, pass.y);
  pass.grad_x = values_of(attention);
  pass.grad_y = TileSource(grad);
  pass.z = pass.y;
  if (target.data != nullptr) pass.out = TileSource(target);
  return pass;
}
template <class T>
[[nodiscard]] AttentionPass<T> to_values(AttentionPass<T> pass, const View& grad, const View& target) {
  std::swap(pass.x, pass.y);
  pass.z = TileSource(grad);
  if (target.data != nullptr) pass.out = TileSource(target);
  return pass;
}

}  // namespace mezzo::kernels::cuda
