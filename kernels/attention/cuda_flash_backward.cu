// The gradients of attention by flash kernels: q's in one launch, k's and v's in another.
#include "mezzo/kernels/attention/cuda_flash.h"
#include "mezzo/kernels/attention/cuda_gradients.h"

namespace mezzo::kernels::cuda {

void flash_backward(Device device, const Attention& attention, const AttentionPass<float>& pass,
                    const AttentionTargets& targets, const View& grad) {
  const bool joined = are_joined(attention) && TileSource(grad).joined;
  if (targets.queries.data != nullptr) {
    launch_flash<AttentionResult::queries>(device, attention, joined,
                                           to_queries(attention, pass, grad, targets.queries));
  }
  if (targets.keys.data == nullptr && targets.values.data == nullptr) return;
  AttentionPass<float> both = to_keys(attention, pass, grad, targets.keys);
  if (targets.values.data != nullptr) both.second_out = TileSource(targets.values);
  launch_flash<AttentionResult::keys_and_values>(device, attention, joined, both);
}

}  // namespace mezzo::kernels::cuda
