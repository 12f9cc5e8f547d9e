// A part of a convolution: some images and some channels, computed on one thread, and the engines that
// compute it: columns and matrix products (cpu_columns.cpp), oneDNN (cpu_onednn.cpp), Winograd
// (cpu_winograd.cpp). Dtypes, threads, the cut into parts and the sums over them are cpu.cpp's, once for
// both.
#pragma once

#include <cstdint>
#include <memory>

#include "mezzo/core/scope.h"
#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::cpu {

/// Images of one type: element (n, c, place) stands at `data + n * batch_stride + c * channel_stride + place
/// * place_stride`, and one of the last two strides is 1. Channels of a part are neighbours.
template <class T>
struct ConvImages {
  T* data;
  std::int64_t batch_stride, channel_stride, place_stride;
};

/// One map of the part whose sizes are `shape`, in type T: of x, y and weight, the map writes its result and
/// reads the two others. The weight is [out channels, in channels / groups, kernel] with rows `weight_stride`
/// apart and dense within. `bias`, of the channels that are written, or null for none.
template <class T>
struct ConvPart {
  ConvMap map;
  ConvShape shape;
  ConvImages<T> x = {}, y = {};
  T* weight;
  const T* packed = nullptr;  ///< the weight in the engine's own order, where it has one
  std::int64_t weight_stride;
  const T* bias = nullptr;
  bool accumulate = false;  ///< add to the weight's gradient in place of writing it
};

/// How parts of one map and shape are computed. Constant once made: threads share it.
template <class T>
class ConvEngine : mezzo::detail::NoCopy {
 public:
  ConvEngine() = default;
  virtual ~ConvEngine() = default;

  /// Whether images may be channels-last; else they have to be row-major.
  [[nodiscard]] virtual bool takes_channels_last() const = 0;
  /// Elements of a weight in the engine's own order, 64-byte aligned; 0 when it reads weights as they are.
  [[nodiscard]] virtual std::int64_t packed_size() const { return 0; }
  /// Brings a weight, as in ConvPart, into that order.
  virtual void pack(const T* /*weight*/, std::int64_t /*stride*/, T* /*packed*/) const {}
  /// Computes a part on the calling thread. False: results are not finite, and columns are to compute them,
  /// where a number that is not finite reaches the results that it belongs to alone.
  [[nodiscard]] virtual bool run(const ConvPart<T>& part) const = 0;
};

/// Columns and products of any sizes; row-major images.
template <class T>
[[nodiscard]] const ConvEngine<T>& conv_columns();

/// Whether windows are single places, each its own: then columns are the input itself, and the convolution of
/// a group is a product of places and channels as they lie.
[[nodiscard]] inline bool are_places(const Windows& windows) {
  const Windows::Sizes ones{1, 1, 1};
  return windows.kernel == ones && windows.stride == ones && windows.padding == Windows::Sizes{} &&
         windows.input == windows.output;
}

/// Whether every output channel sees one input channel, and few of them the same: what direct loops do best
/// (cpu_columns.cpp).
[[nodiscard]] inline bool is_depthwise(const ConvShape& shape) {
  constexpr std::int64_t kMostPerChannel = 4;
  return shape.in_channels == shape.groups && shape.out_channels <= kMostPerChannel * shape.groups;
}

#ifdef MEZZO_HAVE_ONEDNN
/// Of f32 parts for oneDNN: how many channels the arrays have in which x and y lie, and how far apart the
/// rows of the weight are.
struct ConvStrides {
  std::int64_t x_channels, y_channels, weight;
};
/// oneDNN's primitive for the map of parts of these sizes, none of which is 0, from the calling thread's
/// cache; nullptr when oneDNN has none. `bf16`: by the processor's own products, for arrays that hold values
/// of bf16; sums are f32's.
[[nodiscard]] std::shared_ptr<const ConvEngine<float>> conv_onednn(ConvMap map, const ConvShape& part,
                                                                   const ConvStrides& strides, bool bf16);
#endif

}  // namespace mezzo::kernels::cpu
