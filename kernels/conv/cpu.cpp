// Convolutions on the CPU: cuts each of the three maps into parts that do not depend on the number of
// threads, gives every part to an engine (cpu_part.h) in f32 or f64, and does around it what all engines
// need: other dtypes, biases, sums over parts.
#include "mezzo/kernels/conv/conv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>

#include "mezzo/kernels/conv/cpu_images.h"
#include "mezzo/kernels/conv/cpu_part.h"
#include "mezzo/kernels/conv/cpu_winograd.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/gemm/cpu_bf16.h"
#include "mezzo/kernels/gemm/cpu_panel.h"
#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels::cpu {
namespace {

/// The batch in blocks of `images`, of which the last may be smaller, and the channels in `channel_parts`
/// equal parts: whole groups, or, of a single group, the channels of what is computed (of a weight's
/// gradient: output channels). Every pair of them is one part; of weight gradients, `blocks_per_part` blocks
/// are, which are added up.
struct ConvCut {
  std::int64_t batch, images, blocks_per_part, channel_parts;

  [[nodiscard]] std::int64_t blocks() const { return (batch + images - 1) / images; }
  [[nodiscard]] std::int64_t image_parts() const {
    return (blocks() + blocks_per_part - 1) / blocks_per_part;
  }
};

/// Parts for this many threads, while each takes some 20 us.
constexpr std::int64_t kWantedParts = 8;
constexpr double kMinPartProducts = 1e6;
/// Images of a block together, so that what one step writes the next finds in the cache. A block adds to the
/// whole weight gradient, and is larger where that is large, up to a limit of the memory it takes.
constexpr double kBlockBytes = 1 << 20, kGradientBlockFactor = 8, kMaxBlockBytes = 4 << 20;
/// Channels of a part of a single group are a multiple of this: a vector of f32.
constexpr std::int64_t kChannelUnit = 16;

/// The channels, or groups, that parts divide between them.
std::int64_t divided_channels(ConvMap map, const ConvShape& shape) {
  if (shape.groups > 1) return shape.groups;
  return map == ConvMap::input_gradient ? shape.in_channels : shape.out_channels;
}

/// The largest number of parts up to `wanted` that divides them evenly, into multiples of `unit`.
std::int64_t channel_parts(ConvMap map, const ConvShape& shape, std::int64_t wanted, std::int64_t unit) {
  const std::int64_t channels = divided_channels(map, shape);
  for (std::int64_t parts = wanted; parts > 1; --parts) {
    if (channels % parts == 0 && channels / parts % unit == 0) return parts;
  }
  return 1;
}

/// Multiplications of each of the three maps, those with padding too.
double conv_products(const ConvShape& shape) {
  return static_cast<double>(shape.batch) * static_cast<double>(shape.out_channels) *
         static_cast<double>(shape.in_channels / shape.groups) *
         static_cast<double>(shape.windows.kernels()) * static_cast<double>(shape.windows.outputs());
}

/// The cut for a convolution without empty dims, computed in elements of `element_size` bytes. It depends on
/// sizes only, so that the bits of a result do not depend on the number of threads.
ConvCut cut_convolution(ConvMap map, const ConvShape& shape, std::size_t element_size, bool by_winograd) {
  const std::int64_t wanted = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::min(conv_products(shape) / kMinPartProducts, 1e3)), 1, kWantedParts);
  const auto size = static_cast<double>(element_size);
  const double image = size * static_cast<double>(shape.in_channels * shape.windows.inputs() +
                                                  shape.out_channels * shape.windows.outputs());
  const double weight = size * static_cast<double>(shape.out_channels) *
                        static_cast<double>(shape.in_channels / shape.groups * shape.windows.kernels());
  // A part of the images has a gradient of its own, a part of the channels reads all of x: as many parts of
  // the images as their gradients together are no larger than the images.
  const bool gradient = map == ConvMap::weight_gradient;
  std::int64_t image_parts = std::min(wanted, shape.batch);
  if (gradient) {
    const double fit = image * static_cast<double>(shape.batch) / std::max(weight, 1.0);
    const auto most_parts = static_cast<std::uint64_t>(std::clamp<double>(fit, 1, kWantedParts));
    image_parts = std::min(image_parts, static_cast<std::int64_t>(std::bit_floor(most_parts)));
  }
  if (by_winograd) image_parts = std::min(image_parts, winograd_image_parts(shape));
  const std::int64_t most = ceil_div(shape.batch, image_parts);
  const double block =
      gradient ? std::clamp(kGradientBlockFactor * weight, kBlockBytes, kMaxBlockBytes) : kBlockBytes;
  const auto images = static_cast<std::int64_t>(std::min(block / image, static_cast<double>(most)));
  ConvCut cut{shape.batch, std::max<std::int64_t>(images, 1), 1, 1};
  if (gradient) cut.blocks_per_part = ceil_div(most, cut.images);
  const std::int64_t unit = shape.groups > 1 ? 1 : by_winograd ? kPanel : kChannelUnit;
  cut.channel_parts = channel_parts(map, shape, wanted / cut.image_parts(), unit);
  return cut;
}

/// The sizes of a part of so many images.
ConvShape part_of(ConvMap map, const ConvShape& shape, std::int64_t images, std::int64_t channel_parts) {
  ConvShape part = shape;
  part.batch = images;
  if (shape.groups > 1) {
    part.groups /= channel_parts, part.in_channels /= channel_parts, part.out_channels /= channel_parts;
  } else {
    (map == ConvMap::input_gradient ? part.in_channels : part.out_channels) /= channel_parts;
  }
  return part;
}

#ifdef MEZZO_HAVE_ONEDNN
/// Where direct loops or columns are faster than oneDNN (measured): it fills up few input channels to a
/// vector of them, and has no good way for depthwise convolutions with several outputs of a channel.
bool are_columns_faster(ConvMap map, const ConvShape& part) {
  constexpr std::int64_t kFewChannels = 8;
  if (is_depthwise(part)) return part.out_channels > part.in_channels && part.groups > 1;
  return map == ConvMap::input_gradient && part.in_channels < kFewChannels && !part.channels_last &&
         part.groups == 1;
}

/// oneDNN for convolutions in f32 that are worth a primitive's call, where it has one. Images that are not of
/// f32 are widened into arrays of their own. `bf16`: by the processor's own products of bf16.
std::shared_ptr<const ConvEngine<float>> onednn_for(ConvMap map, const ConvShape& shape,
                                                    const ConvShape& part, DType x, DType y, bool bf16) {
  constexpr double kFewProducts = 1 << 16;
  if (gemm_engine() != GemmEngine::onednn) return nullptr;
  const bool ours = conv_products(shape) <= kFewProducts || are_columns_faster(map, part);
  if (ours && !gemm_engine_is_named()) return nullptr;
  const ConvStrides strides{x == DType::f32 ? shape.in_channels : part.in_channels,
                            y == DType::f32 ? shape.out_channels : part.out_channels,
                            shape.in_channels / shape.groups * shape.windows.kernels()};
  if (bf16) {
    if (auto engine = conv_onednn(map, part, strides, true)) return engine;
  }
  return conv_onednn(map, part, strides, false);
}
#else
std::shared_ptr<const ConvEngine<float>> onednn_for(ConvMap /*map*/, const ConvShape& /*shape*/,
                                                    const ConvShape& /*part*/, DType /*x*/, DType /*y*/,
                                                    bool /*bf16*/) {
  return nullptr;
}
#endif

/// A map cut into parts, with an engine for full blocks of images and one for a last smaller block.
template <class T>
class Convolution {
 public:
  Convolution(ConvMap map, const ConvShape& shape, const View& x, const View& y, DType weight)
      : map_(map), shape_(shape), x_(x), y_(y) {
    const bool reads_bf16 = (map == ConvMap::input_gradient || x.dtype == DType::bf16) &&
                            (map == ConvMap::forward || y.dtype == DType::bf16) &&
                            (map == ConvMap::weight_gradient || weight == DType::bf16);
    const bool bf16 = reads_bf16 && gemm_engine() == GemmEngine::onednn && use_native_bf16();
    const bool by_winograd = std::is_same_v<T, float> && is_by_winograd(map, shape, bf16);
    cut_ = cut_convolution(map, shape, sizeof(T), by_winograd);
    sizes_ = {cut_.images, shape.batch % cut_.images};
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] == 0) continue;
      if constexpr (std::is_same_v<T, float>) {
        const ConvShape part = part_of(map, shape, sizes_[i], cut_.channel_parts);
        engines_[i] =
            by_winograd ? conv_winograd(map, part) : onednn_for(map, shape, part, x.dtype, y.dtype, bf16);
      }
      if (engines_[i] == nullptr) engines_[i] = {std::shared_ptr<void>(), &conv_columns<T>()};
    }
  }

  /// forward and input gradient
  void run(const T* weight, const T* bias) {
    std::array<std::optional<RowScratch<T>>, 2> packed;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] > 0) pack(i, weight, packed[i].emplace(packed_stride(i) * cut_.channel_parts).data());
    }
    parallel_for(cut_.blocks() * cut_.channel_parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t block = at / cut_.channel_parts, channels = at % cut_.channel_parts;
        const std::size_t i = engine_index(block);
        const T* own = packed_stride(i) > 0 ? packed[i]->data() + channels * packed_stride(i) : nullptr;
        run_block(block, channels, const_cast<T*>(weight + weight_offset(channels)), own, bias, false);
      }
    });
  }

  /// weight gradient
  void run_gradient(const View& weight) {
    const std::int64_t parts = cut_.image_parts(), n = layout::numel(weight.shape);
    const bool direct = parts == 1 && weight.dtype == dtype_of<T>;
    const RowScratch<T> sums(direct ? 0 : parts * n);
    T* const first = direct ? static_cast<T*>(weight.data) : sums.data();
    parallel_for(parts * cut_.channel_parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t part = at / cut_.channel_parts, channels = at % cut_.channel_parts,
                           from = part * cut_.blocks_per_part,
                           to = std::min(from + cut_.blocks_per_part, cut_.blocks());
        for (std::int64_t block = from; block < to; ++block)
          run_block(block, channels, first + part * n + weight_offset(channels), nullptr, nullptr,
                    block > from);
      }
    });
    if (!direct) add_parts(first, parts, n, weight);
  }

 private:
  [[nodiscard]] std::size_t engine_index(std::int64_t block) const {
    return block == cut_.blocks() - 1 && sizes_[1] > 0 ? 1 : 0;
  }
  /// Elements between the packed weights of two parts; 64 bytes at least, as engines want them aligned.
  [[nodiscard]] std::int64_t packed_stride(std::size_t i) const {
    constexpr std::int64_t kUnit = 64 / sizeof(T);
    return (engines_[i]->packed_size() + kUnit - 1) / kUnit * kUnit;
  }
  [[nodiscard]] std::int64_t weight_stride() const {
    return shape_.in_channels / shape_.groups * shape_.windows.kernels();
  }
  /// Where the weight of a part of the channels begins.
  [[nodiscard]] std::int64_t weight_offset(std::int64_t channels) const {
    if (map_ == ConvMap::input_gradient && shape_.groups == 1)
      return channels * (shape_.in_channels / cut_.channel_parts) * shape_.windows.kernels();
    return channels * (shape_.out_channels / cut_.channel_parts) * weight_stride();
  }

  /// The weights of all parts of the channels, for one of the two engines.
  void pack(std::size_t i, const T* weight, T* packed) const {
    if (packed == nullptr) return;
    parallel_for(cut_.channel_parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part)
        engines_[i]->pack(weight + weight_offset(part), weight_stride(), packed + part * packed_stride(i));
    });
  }

  /// A block of images and the channels of one part, by the engine for them; `packed`: see ConvPart.
  void run_block(std::int64_t block, std::int64_t channels, T* weight, const T* packed, const T* bias,
                 bool accumulate) const {
    const std::size_t i = engine_index(block);
    ConvPart<T> part{.map = map_,
                     .shape = part_of(map_, shape_, sizes_[i], cut_.channel_parts),
                     .weight = weight,
                     .packed = packed,
                     .weight_stride = weight_stride(),
                     .accumulate = accumulate};
    const std::int64_t written = map_ == ConvMap::forward ? part.shape.out_channels : part.shape.in_channels;
    if (bias != nullptr) part.bias = bias + channels * written;
    if (run_part(*engines_[i], part, block, channels)) return;
    part.packed = nullptr;
    static_cast<void>(run_part(conv_columns<T>(), part, block, channels));
  }

  /// Brings the images of a part into an engine's layout and type, and back. Returns what the engine does.
  [[nodiscard]] bool run_part(const ConvEngine<T>& engine, ConvPart<T> part, std::int64_t block,
                              std::int64_t channels) const {
    ConvShape& shape = part.shape;
    shape.channels_last = shape_.channels_last && engine.takes_channels_last();
    const auto images = [&](const View& view, std::int64_t all, std::int64_t own, std::int64_t places) {
      return ImageSlice{view,        shape_.channels_last,           all, block * cut_.images,
                        shape.batch, own < all ? channels * own : 0, own, places};
    };
    const Windows& windows = shape_.windows;
    PartImages<T> x(images(x_, shape_.in_channels, shape.in_channels, windows.inputs()), shape.channels_last),
        y(images(y_, shape_.out_channels, shape.out_channels, windows.outputs()), shape.channels_last);
    if (map_ != ConvMap::input_gradient) x.load();
    if (map_ != ConvMap::forward) y.load();
    part.x = x.images(), part.y = y.images();
    if (!engine.run(part)) return false;
    if (map_ == ConvMap::input_gradient) x.store();
    if (map_ == ConvMap::forward) y.store();
    return true;
  }

  ConvMap map_;
  ConvShape shape_;
  const View &x_, &y_;
  ConvCut cut_{};
  std::array<std::int64_t, 2> sizes_{};
  std::array<std::shared_ptr<const ConvEngine<T>>, 2> engines_;
};

/// Calls f(TypeTag<T>) with the type that arrays of these dtypes are computed in.
template <class F>
void in_compute_type(const View& a, const View& b, const View& c, const F& f) {
  const bool wide = a.dtype == DType::f64 || b.dtype == DType::f64 || c.dtype == DType::f64;
  if (wide)
    f(TypeTag<double>{});
  else
    f(TypeTag<float>{});
}

}  // namespace

void conv_forward(const ConvShape& shape, const View& y, const View& x, const View& weight,
                  const void* bias) {
  in_compute_type(y, x, weight, [&]<class T>(TypeTag<T>) {
    const Widened<T> w(weight.data, weight.dtype, layout::numel(weight.shape)),
        b(bias, y.dtype, shape.out_channels);
    Convolution<T>(ConvMap::forward, shape, x, y, weight.dtype).run(w.data(), b.data());
  });
}

void conv_input_gradient(const ConvShape& shape, const View& x, const View& y, const View& weight,
                         const void* bias) {
  in_compute_type(x, y, weight, [&]<class T>(TypeTag<T>) {
    const Widened<T> w(weight.data, weight.dtype, layout::numel(weight.shape)),
        b(bias, x.dtype, shape.in_channels);
    Convolution<T>(ConvMap::input_gradient, shape, x, y, weight.dtype).run(w.data(), b.data());
  });
}

void conv_weight_gradient(const ConvShape& shape, const View& weight, const View& x, const View& y) {
  in_compute_type(weight, x, y, [&]<class T>(TypeTag<T>) {
    Convolution<T>(ConvMap::weight_gradient, shape, x, y, weight.dtype).run_gradient(weight);
  });
}

}  // namespace mezzo::kernels::cpu
