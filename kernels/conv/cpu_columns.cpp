// Convolutions as matrix products over columns, which are gathered in panels that stay in the
// cache, never as a whole. The products are the tile engines' of gemm/cpu_tile.h. Depthwise convolutions
// and the gradients of their inputs, whose products with a single row or column of weights no matrix engine
// does well, are direct loops: each row of the output and each position of the kernel is one pass over
// neighbours in memory.
#include <algorithm>
#include <cstdint>

#include "mezzo/kernels/conv/cpu_part.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/kernels/pool/cpu_columns.h"

namespace mezzo::kernels::cpu {
namespace {

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

/// Of a panel: 512 KB in f32.
constexpr std::int64_t kPanelRows = 256, kPanelPlaces = 512;

/// One group of one image: matrices of its weight [outputs, rows], columns [rows, places] and y [outputs,
/// places].
template <class T>
struct Group {
  const Windows& windows;
  T* x;
  std::int64_t x_stride;  ///< of channels
  T* y;
  std::int64_t y_stride;
  T* weight;
  std::int64_t weight_stride;
  std::int64_t outputs, rows, places;
};

/// f(group, image, number of the group) for all of them.
template <class T, class F>
void for_groups(const ConvPart<T>& part, const F& f) {
  const ConvShape& s = part.shape;
  const std::int64_t inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      f(Group<T>{s.windows, part.x.data + n * part.x.batch_stride + g * inputs * part.x.channel_stride,
                 part.x.channel_stride,
                 part.y.data + n * part.y.batch_stride + g * outputs * part.y.channel_stride,
                 part.y.channel_stride, part.weight + g * outputs * part.weight_stride, part.weight_stride,
                 outputs, inputs * s.windows.kernels(), s.windows.outputs()},
        n, g);
    }
  }
}

/// f(panel) for all panels; panels of one range of places come after each other.
template <class T, class F>
void for_panels(const Group<T>& group, const F& f) {
  for (std::int64_t place = 0; place < group.places; place += kPanelPlaces) {
    for (std::int64_t row = 0; row < group.rows; row += kPanelRows) {
      f(ColumnPanel{row, std::min(kPanelRows, group.rows - row), place,
                    std::min(kPanelPlaces, group.places - place)});
    }
  }
}

template <class T>
struct Matrix {
  const T* data;
  std::int64_t ld;
};

/// Gathered into `buffer`, unless the input holds them so.
template <class T>
Matrix<T> columns_of(const Group<T>& group, const ColumnPanel& panel, T* buffer) {
  if (are_places(group.windows)) return {group.x + panel.row * group.x_stride + panel.place, group.x_stride};
  run_isa<GatherColumns<T>>(&group.windows, panel, static_cast<const T*>(group.x), group.x_stride, buffer);
  return {buffer, panel.places};
}

template <class T>
void fill_channels(T* data, std::int64_t channels, std::int64_t stride, std::int64_t places, const T* bias) {
  for (std::int64_t c = 0; c < channels; ++c)
    std::fill_n(data + c * stride, places, bias != nullptr ? bias[c] : T(0));
}

template <class T>
void forward(const ConvPart<T>& part, T* buffer) {
  for_groups(part, [&](const Group<T>& group, std::int64_t /*n*/, std::int64_t g) {
    if (part.bias != nullptr)
      fill_channels(group.y, group.outputs, group.y_stride, group.places, part.bias + g * group.outputs);
    for_panels(group, [&](const ColumnPanel& panel) {
      const Matrix<T> columns = columns_of(group, panel, buffer);
      gemm_tile<T>({group.outputs, panel.places, panel.rows, group.weight + panel.row, group.weight_stride,
                    false, columns.data, columns.ld, false, group.y + panel.place, group.y_stride,
                    part.bias != nullptr || panel.row > 0});
    });
  });
}

template <class T>
void input_gradient(const ConvPart<T>& part, T* buffer) {
  for_groups(part, [&](const Group<T>& group, std::int64_t /*n*/, std::int64_t g) {
    const std::int64_t channels = group.rows / group.windows.kernels();
    const bool direct = are_places(group.windows);
    if (!direct || part.bias != nullptr) {
      fill_channels(group.x, channels, group.x_stride, group.windows.inputs(),
                    part.bias != nullptr ? part.bias + g * channels : nullptr);
    }
    for_panels(group, [&](const ColumnPanel& panel) {
      T* const columns = direct ? group.x + panel.row * group.x_stride + panel.place : buffer;
      gemm_tile<T>({panel.rows, panel.places, group.outputs, group.weight + panel.row, group.weight_stride,
                    true, group.y + panel.place, group.y_stride, false, columns,
                    direct ? group.x_stride : panel.places, direct && part.bias != nullptr});
      if (!direct)
        run_isa<AddColumns<T>>(&group.windows, panel, static_cast<const T*>(buffer), group.x, group.x_stride);
    });
  });
}

template <class T>
void weight_gradient(const ConvPart<T>& part, T* buffer) {
  for_groups(part, [&](const Group<T>& group, std::int64_t n, std::int64_t /*g*/) {
    for_panels(group, [&](const ColumnPanel& panel) {
      const Matrix<T> columns = columns_of(group, panel, buffer);
      gemm_tile<T>({group.outputs, panel.rows, panel.places, group.y + panel.place, group.y_stride, false,
                    columns.data, columns.ld, true, group.weight + panel.row, group.weight_stride,
                    part.accumulate || n > 0 || panel.place > 0});
    });
  });
}

template <class T>
class Columns final : public ConvEngine<T> {
 public:
  [[nodiscard]] bool takes_channels_last() const override { return false; }
  [[nodiscard]] bool run(const ConvPart<T>& part) const override {
    const bool is_direct = is_depthwise(part.shape);
    if (is_direct && part.map == ConvMap::forward)
      run_isa<DepthwiseForward<T>>(&part);
    else if (is_direct && part.map == ConvMap::input_gradient)
      run_isa<DepthwiseInputGradient<T>>(&part);
    else
      by_columns(part);
    return true;
  }

 private:
  static void by_columns(const ConvPart<T>& part) {
    const Windows& windows = part.shape.windows;
    const std::int64_t rows = part.shape.in_channels / part.shape.groups * windows.kernels();
    const RowScratch<T> buffer(
        are_places(windows) ? 0 : std::min(rows, kPanelRows) * std::min(windows.outputs(), kPanelPlaces));
    if (part.map == ConvMap::forward) return forward(part, buffer.data());
    if (part.map == ConvMap::input_gradient) return input_gradient(part, buffer.data());
    weight_gradient(part, buffer.data());
  }
};

}  // namespace

template <class T>
const ConvEngine<T>& conv_columns() {
  static const Columns<T> columns;
  return columns;
}

template const ConvEngine<float>& conv_columns<float>();
template const ConvEngine<double>& conv_columns<double>();

}  // namespace mezzo::kernels::cpu
