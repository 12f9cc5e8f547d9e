// oneDNN's convolution primitives as an engine, for oneDNN 2 and 3. Row-major images are brought into the
// blocked layout that a primitive asks for, and back, on the thread that computes them and a few at a time:
// they are in its cache then, and the primitive for that layout is some 1.5 times as fast as the one for
// row-major images (measured, 64 channels of 56 x 56, 3 x 3). Empty in a build without oneDNN.
#include "mezzo/kernels/conv/cpu_part.h"

#ifdef MEZZO_HAVE_ONEDNN

#include <array>
#include <atomic>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/kernels/conv/cpu_images.h"
#include "mezzo/kernels/cpu/onednn.h"
#include "mezzo/kernels/cpu/rows.h"

namespace mezzo::kernels::cpu {
namespace {

using Desc = dnnl::memory::desc;
using DnnlDims = dnnl::memory::dims;
using DataType = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

[[noreturn]] void fail(std::string_view what) {
  throw Error("oneDNN convolution", "success", what, "set MEZZO_CPU_GEMM=eigen and report this");
}

Desc with_strides(const DnnlDims& dims, const DnnlDims& strides) {
  return {dims, dnnl::memory::data_type::f32, strides};
}

/// A convolution's sizes as oneDNN takes them: without the spatial dims in front that change nothing, since
/// there are fewer primitives for 3 than for 2.
class Geometry {
 public:
  Geometry(ConvMap map, const ConvShape& shape, const ConvStrides& strides, bool bf16)
      : read(bf16 ? DataType::bf16 : DataType::f32),
        shape_(shape),
        strides_(strides),
        plain_(!bf16 && map != ConvMap::weight_gradient && shape.groups == 1 && are_places(shape.windows)) {
    const Windows& w = shape.windows;
    std::size_t d = 0;
    while (d < 2 && w.input[d] == 1 && w.kernel[d] == 1 && w.output[d] == 1 && w.padding[d] == 0) ++d;
    for (; d < Windows::kDims; ++d) {
      input_.push_back(w.input[d]), output_.push_back(w.output[d]), kernel_.push_back(w.kernel[d]);
      stride.push_back(w.stride[d]), dilation.push_back(w.dilation[d] - 1), front.push_back(w.padding[d]);
      // The padding that the last window needs, or, where it stops short of the input's end, up to a stride
      // more: oneDNN takes no padding below minus a stride.
      const std::int64_t needed = w.position(d, w.output[d] - 1, w.kernel[d] - 1) + 1 - w.input[d];
      behind.push_back(std::max(needed, std::min<std::int64_t>(0, needed + w.stride[d] - 1)));
    }
  }

  [[nodiscard]] Desc x() const { return images(shape_.in_channels, input_, strides_.x_channels); }
  [[nodiscard]] Desc y() const { return images(shape_.out_channels, output_, strides_.y_channels); }
  [[nodiscard]] Desc weight() const {
    DnnlDims steps = packed_steps(kernel_);
    const std::int64_t kernels = shape_.windows.kernels(), rows = shape_.out_channels / shape_.groups;
    steps.insert(steps.begin(), {strides_.weight, kernels});
    if (shape_.groups > 1) steps.insert(steps.begin(), rows * strides_.weight);
    return with_strides(weight_dims(), steps);
  }
  /// The layouts that the primitive is asked for: channels-last images as they are, row-major images as they
  /// are for a plain product (another layout would gain no more than it costs), all else as oneDNN likes.
  [[nodiscard]] Desc asked_x(DataType type) const { return asked(dims(shape_.in_channels, input_), type); }
  [[nodiscard]] Desc asked_y(DataType type) const { return asked(dims(shape_.out_channels, output_), type); }
  [[nodiscard]] Desc asked_weight(DataType type) const { return {weight_dims(), type, Tag::any}; }
  [[nodiscard]] Desc bias() const { return {{shape_.out_channels}, dnnl::memory::data_type::f32, Tag::a}; }

  DataType read;  ///< of what the primitive reads; its result is f32
  DnnlDims stride, dilation, front, behind;

 private:
  static DnnlDims packed_steps(const DnnlDims& sizes) {
    DnnlDims steps(sizes.size(), 1);
    for (std::size_t d = sizes.size() - 1; d > 0; --d) steps[d - 1] = steps[d] * sizes[d];
    return steps;
  }
  [[nodiscard]] DnnlDims dims(std::int64_t channels, const DnnlDims& spatial) const {
    DnnlDims result{shape_.batch, channels};
    result.insert(result.end(), spatial.begin(), spatial.end());
    return result;
  }
  [[nodiscard]] DnnlDims weight_dims() const {
    DnnlDims result{shape_.out_channels / shape_.groups, shape_.in_channels / shape_.groups};
    if (shape_.groups > 1) result.insert(result.begin(), shape_.groups);
    result.insert(result.end(), kernel_.begin(), kernel_.end());
    return result;
  }
  [[nodiscard]] Desc images(std::int64_t channels, const DnnlDims& spatial, std::int64_t all) const {
    DnnlDims steps = packed_steps(spatial);
    const std::int64_t places = steps[0] * spatial[0];
    if (shape_.channels_last)
      for (std::int64_t& step : steps) step *= all;
    steps.insert(steps.begin(), {all * places, shape_.channels_last ? 1 : places});
    return with_strides(dims(channels, spatial), steps);
  }
  [[nodiscard]] Desc asked(const DnnlDims& sizes, DataType type) const {
    constexpr std::array kChannelsLast{Tag::nwc, Tag::nhwc, Tag::ndhwc},
        kRowMajor{Tag::ncw, Tag::nchw, Tag::ncdhw};
    if (!shape_.channels_last && !plain_) return {sizes, type, Tag::any};
    const auto& tags = shape_.channels_last ? kChannelsLast : kRowMajor;
    return {sizes, type, tags[sizes.size() - 3]};
  }

  ConvShape shape_;
  ConvStrides strides_;
  bool plain_;
  DnnlDims input_, output_, kernel_;
};

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr result;
  // A scratchpad of ours: oneDNN's own belongs to the thread that made the primitive.
  result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return result;
}

constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct;
constexpr dnnl::prop_kind kTraining = dnnl::prop_kind::forward_training;

constexpr DataType kResult = DataType::f32;

// `y`: the dtype of the result; what is read when it only describes the convolution to a gradient's
// primitive.
#if DNNL_VERSION_MAJOR >= 3
dnnl::convolution_forward::primitive_desc describe_forward(const Geometry& g, DataType y) {
  return {onednn_engine(), kTraining,    kDirect,  g.asked_x(g.read), g.asked_weight(g.read),
          g.bias(),        g.asked_y(y), g.stride, g.dilation,        g.front,
          g.behind,        attributes()};
}
dnnl::convolution_backward_data::primitive_desc describe_input_gradient(const Geometry& g) {
  return {
      onednn_engine(), kDirect, g.asked_x(kResult), g.asked_weight(g.read),      g.asked_y(g.read), g.stride,
      g.dilation,      g.front, g.behind,           describe_forward(g, g.read), attributes()};
}
dnnl::convolution_backward_weights::primitive_desc describe_weight_gradient(const Geometry& g) {
  return {
      onednn_engine(), kDirect, g.asked_x(g.read), g.asked_weight(kResult),     g.asked_y(g.read), g.stride,
      g.dilation,      g.front, g.behind,          describe_forward(g, g.read), attributes()};
}
#else
dnnl::convolution_forward::primitive_desc describe_forward(const Geometry& g, DataType y) {
  return {dnnl::convolution_forward::desc(kTraining, kDirect, g.asked_x(g.read), g.asked_weight(g.read),
                                          g.bias(), g.asked_y(y), g.stride, g.dilation, g.front, g.behind),
          attributes(), onednn_engine()};
}
dnnl::convolution_backward_data::primitive_desc describe_input_gradient(const Geometry& g) {
  return {dnnl::convolution_backward_data::desc(kDirect, g.asked_x(kResult), g.asked_weight(g.read),
                                                g.asked_y(g.read), g.stride, g.dilation, g.front, g.behind),
          attributes(), onednn_engine(), describe_forward(g, g.read)};
}
dnnl::convolution_backward_weights::primitive_desc describe_weight_gradient(const Geometry& g) {
  return {
      dnnl::convolution_backward_weights::desc(kDirect, g.asked_x(g.read), g.asked_weight(kResult),
                                               g.asked_y(g.read), g.stride, g.dilation, g.front, g.behind),
      attributes(), onednn_engine(), describe_forward(g, g.read)};
}
#endif

dnnl::stream& stream() {
  struct Stream {
    dnnl::stream stream{onednn_engine()};
  };
  static constinit mezzo::detail::PerThread<Stream> streams;
  return streams.get().stream;
}

dnnl::memory at(const Desc& desc, const void* data) {
  return {desc, onednn_engine(), const_cast<void*>(data)};
}

std::int64_t floats(const Desc& desc) {
  return static_cast<std::int64_t>((desc.get_size() + sizeof(float) - 1) / sizeof(float));
}

/// A primitive that threads share: memory objects and scratchpad belong to a run.
class Step {
 public:
  Step() = default;
  template <class PrimitiveDesc>
  Step(dnnl::primitive primitive, const PrimitiveDesc& desc)
      : primitive_(std::move(primitive)),
        scratchpad_(desc.scratchpad_desc()),
        holds_signals_(SignalsHeld::needed_by(desc.impl_info_str())) {}

  struct Argument {
    int index;
    const Desc& desc;
    const void* data;
  };
  template <std::size_t N>
  void run(const Argument (&arguments)[N]) const {
    const RowScratch<float> scratch(floats(scratchpad_));
    std::array<dnnl::memory, N + 1> memory;
    std::array<dnnl_exec_arg_t, N + 1> given;
    for (std::size_t i = 0; i < N; ++i) {
      memory[i] = at(arguments[i].desc, arguments[i].data);
      given[i] = {arguments[i].index, memory[i].get()};
    }
    memory[N] = at(scratchpad_, scratch.data());
    given[N] = {DNNL_ARG_SCRATCHPAD, memory[N].get()};
    const SignalsHeld held(holds_signals_);
    // The C call: the C++ one builds a hash map per run.
    const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                        static_cast<int>(given.size()), given.data());
    if (!std::atomic_ref(ran_).exchange(true, std::memory_order_relaxed)) onednn_has_new_objects();
    if (status != dnnl_success) fail("status " + std::to_string(static_cast<int>(status)));
  }

 private:
  dnnl::primitive primitive_;
  Desc scratchpad_;
  bool holds_signals_ = false;
  mutable bool ran_ = false;
};

/// An array of a primitive: the way from the caller's layout to the primitive's, or back, where they differ.
class Array {
 public:
  Array(Desc outer, Desc inner, bool written) : outer_(std::move(outer)), inner_(std::move(inner)) {
    if (!differs()) return;
    const Desc &from = written ? inner_ : outer_, &to = written ? outer_ : inner_;
    const dnnl::reorder::primitive_desc desc(onednn_engine(), from, onednn_engine(), to, attributes());
    reorder_ = Step(dnnl::reorder(desc), desc);
  }

  [[nodiscard]] bool differs() const { return outer_ != inner_; }
  [[nodiscard]] std::int64_t inner_size() const { return floats(inner_); }
  [[nodiscard]] const Desc& desc() const { return inner_; }

  void read(const float* outer, float* inner) const {
    reorder_.run({{DNNL_ARG_FROM, outer_, outer}, {DNNL_ARG_TO, inner_, inner}});
  }
  void write(const float* inner, float* outer) const {
    reorder_.run({{DNNL_ARG_FROM, inner_, inner}, {DNNL_ARG_TO, outer_, outer}});
  }

 private:
  Desc outer_, inner_;
  Step reorder_;
};

/// Images in the primitive's layout: in a part, or in scratch memory.
class InnerImages {
 public:
  InnerImages(const Array& array, float* outer)
      : array_(array), outer_(outer), scratch_(array.differs() ? array.inner_size() : 0) {}
  [[nodiscard]] float* data() const { return array_.differs() ? scratch_.data() : outer_; }
  [[nodiscard]] const float* read() const {
    if (array_.differs()) array_.read(outer_, scratch_.data());
    return data();
  }
  void write() const {
    if (array_.differs()) array_.write(scratch_.data(), outer_);
  }

 private:
  const Array& array_;
  float* outer_;
  RowScratch<float> scratch_;
};

class Primitive final : public ConvEngine<float> {
 public:
  template <class PrimitiveDesc>
  Primitive(ConvMap map, const ConvShape& shape, const Geometry& geometry, dnnl::primitive primitive,
            const PrimitiveDesc& desc, const Desc& x, const Desc& y, const Desc& weight)
      : x_(geometry.x(), x, map == ConvMap::input_gradient),
        y_(geometry.y(), y, map == ConvMap::forward),
        weight_(geometry.weight(), weight, map == ConvMap::weight_gradient),
        bias_(geometry.bias()),
        step_(std::move(primitive), desc),
        no_bias_(map == ConvMap::forward ? static_cast<std::size_t>(shape.out_channels) : 0) {}

  [[nodiscard]] bool takes_channels_last() const override { return true; }
  [[nodiscard]] std::int64_t packed_size() const override {
    return weight_.differs() ? weight_.inner_size() : 0;
  }
  void pack(const float* weight, std::int64_t /*stride*/, float* packed) const override {
    const OnednnCall call;
    weight_.read(weight, packed);
  }

  [[nodiscard]] bool run(const ConvPart<float>& part) const override {
    const OnednnCall call;
    try {
      if (part.map == ConvMap::forward)
        forward(part);
      else if (part.map == ConvMap::input_gradient)
        input_gradient(part);
      else
        weight_gradient(part);
      return true;
    } catch (const dnnl::error& error) {
      fail(error.what());
    }
  }

 private:
  void forward(const ConvPart<float>& part) const {
    const InnerImages x(x_, part.x.data), y(y_, part.y.data);
    step_.run({{DNNL_ARG_SRC, x_.desc(), x.read()},
               {DNNL_ARG_WEIGHTS, weight_.desc(), part.packed != nullptr ? part.packed : part.weight},
               {DNNL_ARG_BIAS, bias_, part.bias != nullptr ? part.bias : no_bias_.data()},
               {DNNL_ARG_DST, y_.desc(), y.data()}});
    y.write();
  }

  void input_gradient(const ConvPart<float>& part) const {
    const InnerImages x(x_, part.x.data), y(y_, part.y.data);
    step_.run({{DNNL_ARG_DIFF_DST, y_.desc(), y.read()},
               {DNNL_ARG_WEIGHTS, weight_.desc(), part.packed != nullptr ? part.packed : part.weight},
               {DNNL_ARG_DIFF_SRC, x_.desc(), x.data()}});
    x.write();
    if (part.bias != nullptr) add_bias(part.x, part.shape, part.bias);
  }

  void weight_gradient(const ConvPart<float>& part) const {
    const InnerImages x(x_, part.x.data), y(y_, part.y.data);
    const std::int64_t size = part.shape.out_channels * part.weight_stride;
    const RowScratch<float> inner(weight_.differs() ? weight_.inner_size() : 0),
        added(part.accumulate ? size : 0);
    float* const outer = part.accumulate ? added.data() : part.weight;
    float* const result = weight_.differs() ? inner.data() : outer;
    step_.run({{DNNL_ARG_SRC, x_.desc(), x.read()},
               {DNNL_ARG_DIFF_DST, y_.desc(), y.read()},
               {DNNL_ARG_DIFF_WEIGHTS, weight_.desc(), result}});
    if (weight_.differs()) weight_.write(result, outer);
    if (part.accumulate) add_to<float>(part.weight, outer, size);
  }

  static void add_bias(const ConvImages<float>& x, const ConvShape& shape, const float* bias) {
    const std::int64_t places = shape.windows.inputs();
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      float* const image = x.data + n * x.batch_stride;
      if (shape.channels_last) {
        for (std::int64_t p = 0; p < places; ++p) add_to(image + p * x.place_stride, bias, shape.in_channels);
        continue;
      }
      for (std::int64_t c = 0; c < shape.in_channels; ++c) {
        float* const channel = image + c * x.channel_stride;
        for (std::int64_t p = 0; p < places; ++p) channel[p] += bias[c];
      }
    }
  }

  Array x_, y_, weight_;
  Desc bias_;
  Step step_;
  std::vector<float> no_bias_;
};

std::shared_ptr<const Primitive> make(ConvMap map, const ConvShape& shape, const ConvStrides& strides,
                                      bool bf16) {
  const OnednnCall call;
  const Geometry geometry(map, shape, strides, bf16);
  const auto made = [&](dnnl::primitive primitive, const auto& desc, const Desc& x, const Desc& y,
                        const Desc& weight) -> std::shared_ptr<const Primitive> {
    // oneDNN's plain loops are slower than columns.
    if (std::string_view(desc.impl_info_str()).starts_with("ref")) return nullptr;
    return std::make_shared<Primitive>(map, shape, geometry, std::move(primitive), desc, x, y, weight);
  };
  try {
    switch (map) {
      case ConvMap::forward: {
        const auto desc = describe_forward(geometry, kResult);
        return made(dnnl::convolution_forward(desc), desc, desc.src_desc(), desc.dst_desc(),
                    desc.weights_desc());
      }
      case ConvMap::input_gradient: {
        const auto desc = describe_input_gradient(geometry);
        return made(dnnl::convolution_backward_data(desc), desc, desc.diff_src_desc(), desc.diff_dst_desc(),
                    desc.weights_desc());
      }
      case ConvMap::weight_gradient: {
        const auto desc = describe_weight_gradient(geometry);
        return made(dnnl::convolution_backward_weights(desc), desc, desc.src_desc(), desc.diff_dst_desc(),
                    desc.diff_weights_desc());
      }
    }
  } catch (const dnnl::error&) {  // no primitive for these sizes
  }
  return nullptr;
}

/// All that a primitive is made for.
using Key = std::array<std::int64_t, 28>;

Key key_of(ConvMap map, const ConvShape& s, const ConvStrides& strides, bool bf16) {
  Key key{static_cast<std::int64_t>(map),
          s.batch,
          s.in_channels,
          s.out_channels,
          s.groups,
          s.channels_last ? 1 : 0,
          strides.x_channels,
          strides.y_channels,
          strides.weight,
          bf16 ? 1 : 0};
  auto next = key.begin() + 10;
  const Windows& w = s.windows;
  for (const Windows::Sizes* sizes : {&w.input, &w.kernel, &w.output, &w.stride, &w.padding, &w.dilation})
    next = std::copy(sizes->begin(), sizes->end(), next);
  return key;
}

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {
    std::size_t hash = 0;
    for (const std::int64_t size : key) {
      hash = (hash ^ static_cast<std::size_t>(size)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

/// Whether all sizes and places fit in the 32 bits that oneDNN's kernels count with.
bool fits(const Key& key, const ConvShape& s, const ConvStrides& strides) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t size : key)
    if (static_cast<double>(size) > kMost) return false;
  const auto elements = [&](std::int64_t channels, std::int64_t places) {
    return static_cast<double>(s.batch) * static_cast<double>(channels) * static_cast<double>(places);
  };
  return elements(strides.x_channels, s.windows.inputs()) <= kMost &&
         elements(strides.y_channels, s.windows.outputs()) <= kMost &&
         static_cast<double>(s.out_channels) * static_cast<double>(strides.weight) <= kMost;
}

}  // namespace

std::shared_ptr<const ConvEngine<float>> conv_onednn(ConvMap map, const ConvShape& part,
                                                     const ConvStrides& strides, bool bf16) {
  using Cache = std::unordered_map<Key, std::shared_ptr<const Primitive>, KeyHash>;
  static constinit mezzo::detail::PerThread<Cache> caches;
  Cache& cache = caches.get();
  const Key key = key_of(map, part, strides, bf16);
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  // Shapes that change with every call must not fill the memory; a large network has some hundred.
  constexpr std::size_t kMaxPrimitives = 512;
  if (cache.size() >= kMaxPrimitives) cache.clear();
  const auto primitive = fits(key, part, strides) ? make(map, part, strides, bf16) : nullptr;
  return cache.try_emplace(key, primitive).first->second;
}

}  // namespace mezzo::kernels::cpu

#endif  // MEZZO_HAVE_ONEDNN
