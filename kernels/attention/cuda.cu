// Attention on a CUDA device. Its gradients are in files of their own, for the time to compile.
#include "mezzo/kernels/attention/attention.h"

#include "mezzo/kernels/attention/cuda_block.h"
#include "mezzo/kernels/attention/cuda_flash.h"
#include "mezzo/kernels/cuda/bf16.h"

namespace mezzo::kernels::cuda {

void attention(Device device, const Attention& attention, const View& out, void* logsumexp) {
  // The kernels choose their way by what they are compiled for; this is for the warning.
  if (attention.q.dtype == DType::bf16) multiplies_bf16(device, "scaled_dot_product_attention");
  const std::int64_t batch = attention.q.shape[0];
  const auto pass_to = [&](auto number) {
    auto pass = pass_of<decltype(number)>(attention, logsumexp);
    pass.z = values_of(attention);
    pass.out = TileSource(out);
    return pass;
  };
  if (takes_flash(attention)) {
    return launch_flash<AttentionResult::output>(device, attention, are_joined(attention), pass_to(float{}));
  }
  attention.q.dtype == DType::f64
      ? launch_attention<AttentionResult::output>(device, pass_to(double{}), batch)
      : launch_attention<AttentionResult::output>(device, pass_to(float{}), batch);
}

}  // namespace mezzo::kernels::cuda
