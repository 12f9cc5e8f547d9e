// The gradients of attention on a CUDA device.
#include <type_traits>

#include "mezzo/kernels/attention/attention.h"
#include "mezzo/kernels/attention/cuda_block.h"
#include "mezzo/kernels/attention/cuda_flash.h"
#include "mezzo/kernels/attention/cuda_gradients.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/start.h"

namespace mezzo::kernels::cuda {

namespace {

/// delta[r] = the sum over row r of grad * out, a warp per row.
template <class T>
__global__ void attention_delta(TileSource grad, TileSource out, std::int64_t heads, std::int64_t rows,
                                T* delta) {
  const std::int64_t warps = grid_size() / kWarp;
  for (std::int64_t r = first_index() / kWarp; r < rows; r += warps) {
    const std::int64_t of_head = r % grad.rows, head = r / grad.rows;
    const TileSource g = grad.of(head / heads, head % heads), o = out.of(head / heads, head % heads);
    T sum = 0;
    for (std::int64_t column = threadIdx.x % kWarp * kPack; column < g.width; column += kWarp * kPack) {
      T a[kPack], b[kPack];
      g.load_four(of_head, column, a);
      o.load_four(of_head, column, b);
      for (int i = 0; i < kPack; ++i) sum = add_product(sum, a[i], b[i]);
    }
    sum = reduce_warp(sum, [](T a, T b) { return a + b; });
    if (threadIdx.x % kWarp == 0) delta[r] = sum;
  }
}

template <class T>
void backward(Device device, const Attention& attention, const View& dq, const View& dk, const View& dv,
              const View& grad, const View& out, void* logsumexp) {
  const std::int64_t batch = attention.q.shape[0], heads = attention.q.shape[1];
  const std::int64_t rows = batch * heads * attention.q.shape[2];
  const bool flash = takes_flash(attention);
  const bool needs_delta = dq.data != nullptr || dk.data != nullptr || flash;
  const Scratch delta(device, needs_delta ? rows * std::int64_t{sizeof(T)} : 0);
  if (needs_delta) {
    start(device, rows * kWarp, attention_delta<T>, TileSource(grad), TileSource(out), heads, rows,
          static_cast<T*>(delta.data()));
  }
  AttentionPass<T> pass = pass_of<T>(attention, logsumexp);
  pass.delta = static_cast<const T*>(delta.data());
  if constexpr (std::is_same_v<T, float>) {
    if (flash) return flash_backward(device, attention, pass, {dq, dk, dv}, grad);
  }
  if (dq.data != nullptr)
    launch_attention<AttentionResult::queries>(device, to_queries(attention, pass, grad, dq), batch);
  if (dk.data != nullptr)
    launch_attention<AttentionResult::keys>(device, to_keys(attention, pass, grad, dk), batch);
  if (dv.data != nullptr) launch_attention<AttentionResult::values>(device, to_values(pass, grad, dv), batch);
}

}  // namespace

void attention_backward(Device device, const Attention& attention, const View& dq, const View& dk,
                        const View& dv, const View& grad, const View& out, const void* logsumexp) {
  dispatch_real(attention.q.dtype, [&]<class T>(TypeTag<T>) {
    backward<T>(device, attention, dq, dk, dv, grad, out, const_cast<void*>(logsumexp));
  });
}

}  // namespace mezzo::kernels::cuda
