// Direct loops for depthwise convolutions, whose products with a single column of weights no matrix engine
// does well: each row of the output and each position of the kernel is one pass over neighbours in memory.
// Included by cpu_columns.cpp only; bodies for run_isa.
#pragma once

#include <cstdint>

#include "mezzo/kernels/conv/cpu_part.h"
#include "mezzo/kernels/conv/cpu_rows.h"

namespace mezzo::kernels::cpu {

/// f(x, y, w, n, step) for every run of neighbouring outputs of one plane and each position w of the kernel:
/// y[i] and x[i * step] belong together for i in [0, n).
template <class X, class Y, class F>
MEZZO_ALWAYS_INLINE void for_plane_runs(const Windows& windows, X* x, Y* y, const F& f) {
  const std::int64_t step = windows.stride[2], width = windows.input[2], outputs = windows.output[2];
  std::int64_t w = 0;
  for (std::int64_t k0 = 0; k0 < windows.kernel[0]; ++k0) {
    for (std::int64_t k1 = 0; k1 < windows.kernel[1]; ++k1) {
      for (std::int64_t k2 = 0; k2 < windows.kernel[2]; ++k2, ++w) {
        const OutputRange inside = outputs_inside(windows, k2);
        if (inside.begin >= inside.end) continue;
        const std::int64_t first = windows.position(2, inside.begin, k2);
        for (std::int64_t o0 = 0; o0 < windows.output[0]; ++o0) {
          const std::int64_t p0 = windows.position(0, o0, k0);
          if (!windows.inside(0, p0)) continue;
          for (std::int64_t o1 = 0; o1 < windows.output[1]; ++o1) {
            const std::int64_t p1 = windows.position(1, o1, k1);
            if (!windows.inside(1, p1)) continue;
            f(x + (p0 * windows.input[1] + p1) * width + first,
              y + (o0 * windows.output[1] + o1) * outputs + inside.begin, w, inside.end - inside.begin, step);
          }
        }
      }
    }
  }
}

template <class T>
MEZZO_ALWAYS_INLINE void fill_plane(T* plane, std::int64_t n, const T* bias, std::int64_t channel) {
  const T value = bias != nullptr ? bias[channel] : T(0);
  for (std::int64_t i = 0; i < n; ++i) plane[i] = value;
}

/// out[i * out_step] += factor * in[i * in_step] for i in [0, n); one of the steps is 1.
template <class T>
MEZZO_ALWAYS_INLINE void add_run(T* out, std::int64_t out_step, const T* in, std::int64_t in_step,
                                 std::int64_t n, T factor) {
  if (out_step * in_step == 1)
    for (std::int64_t i = 0; i < n; ++i) out[i] += factor * in[i];
  else
    for (std::int64_t i = 0; i < n; ++i) out[i * out_step] += factor * in[i * in_step];
}

template <class T>
struct DepthwiseForward {
  static void run(const ConvPart<T>* part) {
    const ConvPart<T>& p = *part;
    const Windows windows = p.shape.windows;
    const std::int64_t copies = p.shape.out_channels / p.shape.in_channels;
    for (std::int64_t n = 0; n < p.shape.batch; ++n) {
      for (std::int64_t o = 0; o < p.shape.out_channels; ++o) {
        T* const y = p.y.data + n * p.y.batch_stride + o * p.y.channel_stride;
        const T* const x = p.x.data + n * p.x.batch_stride + o / copies * p.x.channel_stride;
        const T* const weight = p.weight + o * p.weight_stride;
        fill_plane(y, windows.outputs(), p.bias, o);
        for_plane_runs(windows, x, y,
                       [&](const T* in, T* out, std::int64_t w, std::int64_t count, std::int64_t step) {
                         add_run(out, 1, in, step, count, weight[w]);
                       });
      }
    }
  }
};

template <class T>
struct DepthwiseInputGradient {
  static void run(const ConvPart<T>* part) {
    const ConvPart<T>& p = *part;
    const Windows windows = p.shape.windows;
    const std::int64_t copies = p.shape.out_channels / p.shape.in_channels;
    for (std::int64_t n = 0; n < p.shape.batch; ++n) {
      for (std::int64_t c = 0; c < p.shape.in_channels; ++c) {
        T* const x = p.x.data + n * p.x.batch_stride + c * p.x.channel_stride;
        fill_plane(x, windows.inputs(), p.bias, c);
        for (std::int64_t o = c * copies; o < (c + 1) * copies; ++o) {
          const T* const y = p.y.data + n * p.y.batch_stride + o * p.y.channel_stride;
          const T* const weight = p.weight + o * p.weight_stride;
          for_plane_runs(windows, x, y,
                         [&](T* out, const T* in, std::int64_t w, std::int64_t count, std::int64_t step) {
                           add_run(out, step, in, 1, count, weight[w]);
                         });
        }
      }
    }
  }
};

template <class T>
struct DepthwiseWeightGradient {
  /// Sums of one position are kept in as many lanes, added up at the end of a plane: the same order whatever
  /// the width of vectors.
  static constexpr std::int64_t kLanes = 8;

  static void run(const ConvPart<T>* part) {
    const ConvPart<T>& p = *part;
    const Windows windows = p.shape.windows;
    const std::int64_t copies = p.shape.out_channels / p.shape.in_channels;
    for (std::int64_t o = 0; o < p.shape.out_channels; ++o) {
      T* const weight = p.weight + o * p.weight_stride;
      if (!p.accumulate)
        for (std::int64_t w = 0; w < windows.kernels(); ++w) weight[w] = T(0);
      for (std::int64_t n = 0; n < p.shape.batch; ++n) {
        const T* const x = p.x.data + n * p.x.batch_stride + o / copies * p.x.channel_stride;
        const T* const y = p.y.data + n * p.y.batch_stride + o * p.y.channel_stride;
        add_plane(windows, x, y, weight);
      }
    }
  }

 private:
  MEZZO_ALWAYS_INLINE static void add_plane(const Windows& windows, const T* x, const T* y, T* weight) {
    T lanes[kLanes] = {};
    std::int64_t at = 0;
    const auto flush = [&](std::int64_t next) {
      weight[at] +=
          ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
      for (T& lane : lanes) lane = T(0);
      at = next;
    };
    for_plane_runs(windows, x, y,
                   [&](const T* in, const T* grad, std::int64_t w, std::int64_t count, std::int64_t step) {
                     if (w != at) flush(w);
                     std::int64_t i = 0;
                     if (step == 1) {
                       for (; i + kLanes <= count; i += kLanes)
                         for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += grad[i + j] * in[i + j];
                     }
                     for (; i < count; ++i) lanes[i % kLanes] += grad[i] * in[i * step];
                   });
    flush(0);
  }
};

}  // namespace mezzo::kernels::cpu
