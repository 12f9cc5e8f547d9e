// The CUDA CTC loss. A block has a sample and goes through its frames, its threads side by side over the
// states; a second kernel gives each frame a block, which adds up the shares of a class in the order of the
// states, so that the sums do not depend on the threads.
#include <algorithm>
#include <limits>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/ctc/ctc.h"
#include "mezzo/kernels/ctc/ctc_math.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/scratch.h"

namespace mezzo::kernels::cuda {

namespace {

using scalar::CtcSample;

/// Threads for so many states.
[[nodiscard]] unsigned state_threads(std::int64_t states) {
  return static_cast<unsigned>(std::min<std::int64_t>((states + kWarp - 1) / kWarp * kWarp, kThreads));
}

/// forward() of all frames; `rows` has room for `kept` rows of a sample, which frames take in turn.
template <class T>
__device__ void run_forward(const CtcSample<T>& sample, double* rows, std::int64_t states,
                            std::int64_t kept) {
  for (std::int64_t t = 0; t < sample.frames; ++t) {
    const double* const before = rows + (t + kept - 1) % kept * states;
    double* const now = rows + t % kept * states;
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += blockDim.x)
      now[s] = sample.forward(t, s, before);
    __syncthreads();
  }
}
template <class T>
[[nodiscard]] __device__ double loss_of(const CtcSample<T>& sample, const double* rows, std::int64_t states,
                                        std::int64_t kept) {
  return sample.loss(sample.frames == 0 ? nullptr : rows + (sample.frames - 1) % kept * states);
}

/// `rows`: two rows of `states` for each sample.
template <class T>
__global__ void ctc_forward(CtcBatch batch, double* rows, std::int64_t states, double* losses) {
  const std::int64_t n = blockIdx.x;
  const CtcSample<T> sample(batch, n);
  double* const own = rows + n * 2 * states;
  run_forward(sample, own, states, 2);
  if (threadIdx.x == 0) losses[n] = loss_of(sample, own, states, 2);
}

/// `rows`: for each sample and frame a row of `states`, which gets the shares of the states; two rows more
/// for each sample in `behind`. A sample of infinite loss leaves its rows as they are.
template <class T>
__global__ void ctc_shares(CtcBatch batch, double* rows, double* behind, std::int64_t states,
                           double* losses) {
  const std::int64_t n = blockIdx.x;
  const CtcSample<T> sample(batch, n);
  double* const own = rows + n * batch.steps * states;
  run_forward(sample, own, states, batch.steps);
  const double loss = loss_of(sample, own, states, batch.steps);
  __syncthreads();  // before the last row changes
  if (threadIdx.x == 0) losses[n] = loss;
  if (loss == -scalar::kNever) return;  // the same for all threads
  for (std::int64_t t = sample.frames; t-- > 0;) {
    double* const now = behind + (2 * n + t % 2) * states;
    const double* const later = behind + (2 * n + (t + 1) % 2) * states;
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += blockDim.x) {
      const double value = sample.backward(t, s, later);
      now[s] = value;
      own[t * states + s] = math::exp(own[t * states + s] + value + loss);
    }
    __syncthreads();
  }
}

/// Of each state of a sample: twice the next state with the same label (sample.states() for none), plus 1
/// where no state before has it. Once for all frames: it takes a walk over the states.
template <class T>
__global__ void ctc_links(CtcBatch batch, std::int64_t* links, std::int64_t states) {
  const CtcSample<T> sample(batch, blockIdx.x);
  for (std::int64_t s = threadIdx.x; s < sample.states(); s += blockDim.x) {
    const std::int64_t label = sample.label(s);
    std::int64_t next = s + 1, before = s;
    while (next < sample.states() && sample.label(next) != label) ++next;
    while (before > 0 && sample.label(before - 1) != label) --before;
    links[blockIdx.x * states + s] = 2 * next + (before == 0 ? 1 : 0);
  }
}

/// A block per frame of a sample: classes that are in no state first, then those that are.
template <class T>
__global__ void ctc_spread(CtcBatch batch, const double* rows, const std::int64_t* links, std::int64_t states,
                           const double* losses, const double* factors, bool zero_infinity, T* gradient) {
  for (std::int64_t at = blockIdx.x; at < batch.steps * batch.samples; at += gridDim.x) {
    const std::int64_t t = at / batch.samples, n = at - t * batch.samples;
    const CtcSample<T> sample(batch, n);
    const T* const log_probs = sample.log_probs + t * sample.frame_step;
    T* const out = gradient + at * batch.classes;
    const bool infinite = losses[n] == -scalar::kNever, has_frame = t < sample.frames;
    const double factor = factors[n];
    for (std::int64_t c = threadIdx.x; c < batch.classes; c += blockDim.x) {
      double value = 0;
      if (has_frame && !infinite)
        value = scalar::ctc_slope(static_cast<double>(log_probs[c]), 0, factor);
      else if (has_frame && !zero_infinity)
        value = std::numeric_limits<double>::quiet_NaN();
      out[c] = static_cast<T>(value);
    }
    __syncthreads();
    if (!has_frame || infinite) continue;  // the same for all threads
    const double* const shares = rows + (n * batch.steps + t) * states;
    const std::int64_t* const own_links = links + n * states;
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += blockDim.x) {
      if (own_links[s] % 2 == 0) continue;
      double share = 0;
      for (std::int64_t same = s; same < sample.states(); same = own_links[same] / 2) share += shares[same];
      out[sample.label(s)] = static_cast<T>(scalar::ctc_slope(sample.log_prob(t, s), share, factor));
    }
  }
}

}  // namespace

void ctc_loss(Device device, double* losses, const CtcBatch& batch, DType compute) {
  if (batch.samples == 0) return;
  const std::int64_t states = 2 * batch.longest + 1;
  const Scratch rows(device, batch.samples * 2 * states * std::int64_t{sizeof(double)});
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    mezzo::cuda::launch(ctc_forward<T>, dim3(static_cast<unsigned>(batch.samples)),
                        dim3(state_threads(states)), 0, mezzo::cuda::current_stream(device), batch,
                        static_cast<double*>(rows.data()), states, losses);
  });
}

void ctc_loss_backward(Device device, void* gradient, const double* factors, const CtcBatch& batch,
                       bool zero_infinity, DType compute) {
  if (batch.samples == 0 || batch.steps == 0 || batch.classes == 0) return;
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const std::int64_t states = 2 * batch.longest + 1, samples = batch.samples;
  const Scratch memory(device,
                       (samples * (batch.steps + 3) * states + samples) * std::int64_t{sizeof(double)});
  auto* const rows = static_cast<double*>(memory.data());
  double* const behind = rows + samples * batch.steps * states;
  double* const losses = behind + samples * 2 * states;
  auto* const links = reinterpret_cast<std::int64_t*>(losses + samples);
  const auto blocks = static_cast<unsigned>(std::min(batch.steps * samples, kMostBlocks));
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    mezzo::cuda::launch(ctc_shares<T>, dim3(static_cast<unsigned>(samples)), dim3(state_threads(states)), 0,
                        stream, batch, rows, behind, states, losses);
    mezzo::cuda::launch(ctc_links<T>, dim3(static_cast<unsigned>(samples)), dim3(state_threads(states)), 0,
                        stream, batch, links, states);
    mezzo::cuda::launch(ctc_spread<T>, dim3(blocks), dim3(state_threads(std::max(states, batch.classes))), 0,
                        stream, batch, rows, links, states, losses, factors, zero_infinity,
                        static_cast<T*>(gradient));
  });
}

}  // namespace mezzo::kernels::cuda
