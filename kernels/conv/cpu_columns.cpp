// Convolutions as matrix products over columns (cpu_rows.h), which are gathered in panels that stay in the
// cache, never as a whole. The products are the tile engines' of gemm/cpu_tile.h. Depthwise convolutions are
// direct loops (cpu_depthwise.h).
#include <algorithm>

#include "mezzo/kernels/conv/cpu_depthwise.h"
#include "mezzo/kernels/conv/cpu_part.h"
#include "mezzo/kernels/conv/cpu_rows.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/gemm/cpu_tile.h"

namespace mezzo::kernels::cpu {
namespace {

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
void depthwise(const ConvPart<T>& part) {
  switch (part.map) {
    case ConvMap::forward:
      return run_isa<DepthwiseForward<T>>(&part);
    case ConvMap::input_gradient:
      return run_isa<DepthwiseInputGradient<T>>(&part);
    case ConvMap::weight_gradient:
      return run_isa<DepthwiseWeightGradient<T>>(&part);
  }
}

template <class T>
class Columns final : public ConvEngine<T> {
 public:
  [[nodiscard]] bool takes_channels_last() const override { return false; }
  void run(const ConvPart<T>& part) const override {
    if (is_depthwise(part.shape)) return depthwise(part);
    const Windows& windows = part.shape.windows;
    const std::int64_t rows = part.shape.in_channels / part.shape.groups * windows.kernels();
    const RowScratch<T> buffer(
        are_places(windows) ? 0 : std::min(rows, kPanelRows) * std::min(windows.outputs(), kPanelPlaces));
    switch (part.map) {
      case ConvMap::forward:
        return forward(part, buffer.data());
      case ConvMap::input_gradient:
        return input_gradient(part, buffer.data());
      case ConvMap::weight_gradient:
        return weight_gradient(part, buffer.data());
    }
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
