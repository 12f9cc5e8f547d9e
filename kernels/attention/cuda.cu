// Attention on a CUDA device. Its gradients are in a file of their own, for the time to compile.
#include "mezzo/kernels/attention/attention.h"

#include "mezzo/kernels/attention/cuda_pass.h"

namespace mezzo::kernels::cuda {

void attention(Device device, const Attention& attention, const View& out, void* logsumexp) {
  const auto run = [&](auto number) {
    using T = decltype(number);
    AttentionPass<T> pass = pass_of<T>(attention, true, logsumexp);
    pass.z = values_of(attention);
    pass.out = TileSource(out);
    launch_attention<AttentionResult::output>(device, pass, attention.q.shape[0]);
  };
  attention.q.dtype == DType::f64 ? run(double{}) : run(float{});
}

}  // namespace mezzo::kernels::cuda
