// The attention kernels: softmax(scale q k^T + mask) v and its gradients in one pass over tiles. Kernels of
// their own, not products and a softmax, because no matrix of queries by keys is ever in memory.
#pragma once

#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// softmax(scale q k^T + mask) v, without a matrix [L, S] in memory. Views: q [B, H, L, E], k [B, Hk, S, E],
/// v [B, Hv, S, V], out [B, H, L, V]; one floating dtype, any strides but the last, which is 1. Hk and Hv
/// divide H: head h of q reads head h / (H / Hk) of k.
struct Attention {
  View q, k, v;
  /// data == nullptr: none; else shown as [B, H, L, S] (strides of 0 where it repeats); boolean (false: key
  /// takes no part) or floating (added to scale * q k^T).
  View mask;
  bool causal = false;  ///< key s takes part in query l only for s <= l
  double scale = 1;
  double dropout_p =
      0;  ///< each weight after the softmax is dropped with this probability, else divided by 1 - p
  /// Device memory, 2 numbers; for dropout_p > 0: weight (b, h, l, s) is kept by the word that Philox with
  /// this key gives its row-major index (kernels/attention/attention_math.h).
  const std::int64_t* seed = nullptr;

  /// How many heads of q read one head of k or v.
  [[nodiscard]] std::int64_t readers(const View& of) const {
    return q.shape[1] == 0 ? 1 : q.shape[1] / of.shape[1];
  }
};

/// logsumexp: [B, H, L] contiguous, of the compute type (f32, f64 for f64): log of the sum of exp(scores);
/// -inf for a query without keys, whose result is 0. Computed in f32 (f64 for f64), each result rounded once;
/// of 16-bit elements, in heads of up to 128, CUDA rounds the weights and, in backward, the gradients of
/// scores to 16 bits as well.
/// Sizes may be 0: no keys (S = 0) give zeros. B * H * L * S may exceed 2^31. On the CPU the bits do not
/// depend on the number of threads, and q k^T and grad v^T of bf16 go as gemm()'s bf16 products do
/// (MEZZO_CPU_BF16): on the processor's own bf16 instructions subnormal elements count as 0.
MEZZO_KERNEL(attention, void(const Attention& attention, const View& out, void* logsumexp));

/// dq, dk, dv like q, k, v, but with all H heads, each with its own share (may be of another floating dtype;
/// data == nullptr: not wanted), given grad (gradient of out, like it) and the results of the forward, of
/// which out may be of the compute type instead.
MEZZO_KERNEL(attention_backward,
             void(const Attention& attention, const View& dq, const View& dk, const View& dv,
                  const View& grad, const View& out, const void* logsumexp));

}  // namespace mezzo::kernels
