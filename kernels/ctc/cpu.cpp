// The CPU's CTC loss: samples side by side, each by one thread.
#include <algorithm>
#include <limits>
#include <vector>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/ctc/ctc.h"
#include "mezzo/kernels/ctc/ctc_math.h"

namespace mezzo::kernels::cpu {

namespace {

using scalar::CtcSample;

/// forward() of all states and frames, each frame's row in the place that `row(t)` gives; the loss.
template <class T, class Row>
double run_forward(const CtcSample<T>& sample, const Row& row) {
  const std::int64_t states = sample.states();
  for (std::int64_t t = 0; t < sample.frames; ++t) {
    const double* const before = t == 0 ? nullptr : row(t - 1);
    double* const now = row(t);
    for (std::int64_t s = 0; s < states; ++s) now[s] = sample.forward(t, s, before);
  }
  return sample.loss(sample.frames == 0 ? nullptr : row(sample.frames - 1));
}

/// Makes the rows of forward() each state's share of its frame.
template <class T>
void run_backward(const CtcSample<T>& sample, double* rows, double loss) {
  const std::int64_t states = sample.states();
  std::vector<double> later(static_cast<std::size_t>(states)), now(later.size());
  for (std::int64_t t = sample.frames; t-- > 0;) {
    for (std::int64_t s = 0; s < states; ++s) {
      double& share = rows[t * states + s];
      const double behind = sample.backward(t, s, later.data());
      now[static_cast<std::size_t>(s)] = behind;
      share = math::exp(share + behind + loss);
    }
    later.swap(now);
  }
}

/// The gradient of one sample's frame, from the shares of its states.
template <class T>
void spread(const CtcSample<T>& sample, std::int64_t t, const double* shares, double factor,
            std::vector<double>& sums, T* out) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for (std::int64_t s = 0; s < sample.states(); ++s)
    sums[static_cast<std::size_t>(sample.label(s))] += shares[s];
  const T* const log_probs = sample.log_probs + t * sample.frame_step;
  for (std::size_t c = 0; c < sums.size(); ++c)
    out[c] = static_cast<T>(scalar::ctc_slope(static_cast<double>(log_probs[c]), sums[c], factor));
}

template <class T>
void sample_gradient(T* out, const CtcSample<T>& sample, const CtcBatch& batch, double factor,
                     bool zero_infinity) {
  const std::int64_t states = sample.states();
  std::vector<double> shares(static_cast<std::size_t>(sample.frames * states));
  const double loss = run_forward(sample, [&](std::int64_t t) { return shares.data() + t * states; });
  const bool infinite = loss == std::numeric_limits<double>::infinity();
  if (!infinite) run_backward(sample, shares.data(), loss);
  std::vector<double> sums(static_cast<std::size_t>(batch.classes));
  for (std::int64_t t = 0; t < batch.steps; ++t) {
    T* const row = out + t * sample.frame_step;
    if (t < sample.frames && !infinite)
      spread(sample, t, shares.data() + t * states, factor, sums, row);
    else
      std::fill_n(row, batch.classes,
                  t < sample.frames && !zero_infinity ? std::numeric_limits<T>::quiet_NaN() : T(0));
  }
}

}  // namespace

void ctc_loss(double* losses, const CtcBatch& batch, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    parallel_for(batch.samples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const CtcSample<T> sample(batch, n);
        const std::int64_t states = sample.states();
        std::vector<double> rows(static_cast<std::size_t>(2 * states));  // of even frames and of odd ones
        losses[n] = run_forward(sample, [&](std::int64_t t) { return rows.data() + t % 2 * states; });
      }
    });
  });
}

void ctc_loss_backward(void* gradient, const double* factors, const CtcBatch& batch, bool zero_infinity,
                       DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    parallel_for(batch.samples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        sample_gradient(static_cast<T*>(gradient) + n * batch.classes, CtcSample<T>(batch, n), batch,
                        factors[n], zero_infinity);
      }
    });
  });
}

}  // namespace mezzo::kernels::cpu
