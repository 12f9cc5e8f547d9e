// Descriptors of interpolate and its gradient: two linear maps, each the gradient of the other.
#include <cmath>

#include "mezzo/kernels/resample/interpolate.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/sampling.h"
#include "mezzo/ops/vision/sampling_common.h"

namespace mezzo {

std::span<const double> ScaleFactors::list() const { return factors_; }
ScaleFactors::ScaleFactors(std::initializer_list<double> factors) : factors_(factors) {}

ScaleFactors ScaleFactors::from_value(const Value& value) {
  ScaleFactors result;
  if (value.is_null()) return result;
  if (!value.is_list()) return detail::scalar_from(value).to<double>();
  for (const Value& factor : value.as_list())
    result.factors_.push_back(detail::scalar_from(factor).to<double>());
  return result;
}
Value ScaleFactors::to_value() const { return factors_.empty() ? Value() : Value(list()); }

namespace {

using namespace ops;
using kernels::InterpolateShape;
using kernels::Resampling;
using op_samples::real;

constexpr std::string_view kInterpolate = "interpolate", kInterpolateBackward = "interpolate_backward";

struct InterpolateAttrs {
  Dims size = {};
  ScaleFactors scale_factor = {};
  InterpolateMode mode = InterpolateMode::nearest;
  std::optional<bool> align_corners = {}, recompute_scale_factor = {};
  MEZZO_FIELDS(InterpolateAttrs, size, scale_factor, mode, align_corners, recompute_scale_factor)
};
/// With the spatial sizes of x, and the dtype of the gradient; default: grad's.
struct InterpolateBackwardAttrs : InterpolateAttrs {
  Shape input_size = {};
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(InterpolateBackwardAttrs, size, scale_factor, mode, align_corners, recompute_scale_factor,
               input_size, dtype)
};

// --- checks and sizes

struct ModeInfo {
  Resampling kind;
  std::size_t least, most;  ///< spatial dims
};
ModeInfo info_of(InterpolateMode mode) {
  // In the order of the enum.
  constexpr std::array<ModeInfo, kEnumNames<InterpolateMode>.size()> kModes{
      {{Resampling::nearest, 1, 3},
       {Resampling::nearest_exact, 1, 3},
       {Resampling::linear, 1, 1},
       {Resampling::linear, 2, 2},
       {Resampling::linear, 3, 3},
       {Resampling::cubic, 2, 2}}};
  return kModes[static_cast<std::size_t>(mode)];
}

/// Throws unless the arguments that do not depend on x make sense together.
void require_arguments(std::string_view op, const InterpolateAttrs& attrs) {
  if (attrs.size.empty() == attrs.scale_factor.list().empty()) {
    throw ValueError(op, "either size or scale_factor", attrs.size.empty() ? "neither" : "both",
                     "give one of them");
  }
  const bool near = attrs.mode == InterpolateMode::nearest || attrs.mode == InterpolateMode::nearest_exact;
  if (near && attrs.align_corners) {
    throw ValueError(op, "align_corners with an interpolating mode only",
                     quote(kEnumNames<InterpolateMode>[static_cast<std::size_t>(attrs.mode)]),
                     "leave it out");
  }
  if (attrs.recompute_scale_factor.value_or(false) && !attrs.size.empty())
    throw ValueError(op, "recompute_scale_factor with scale_factor only", "size", "leave it out");
}

/// The size that a factor gives a dim.
std::int64_t scaled_size(std::string_view op, std::int64_t in, double factor) {
  const double size = std::floor(static_cast<double>(in) * factor);
  if (size >= 1 && size < static_cast<double>(layout::kMaxElements)) return static_cast<std::int64_t>(size);
  throw ValueError(op, "a scale factor that gives " + std::to_string(in) + " a size from 1 to 2^60",
                   number_text(factor), "check scale_factor");
}

/// The dims of spatial sizes `in`.
SmallVector<kernels::ResampledDim, 3> dims_of(std::string_view op, const Shape& in,
                                              const InterpolateAttrs& attrs) {
  SmallVector<kernels::ResampledDim, 3> dims;
  if (!attrs.size.empty()) {
    const Dims size = per_dim(op, "sizes", attrs.size, in.size(), 1);
    for (std::size_t d = 0; d < in.size(); ++d) dims.push_back({in[d], size[d], 0});
    return dims;
  }
  const std::span<const double> factors = attrs.scale_factor.list();
  if (factors.size() != 1 && factors.size() != in.size()) {
    throw ValueError(op, "1 or " + std::to_string(in.size()) + " numbers for scale_factor",
                     std::to_string(factors.size()), "give one for all spatial dims, or one for each");
  }
  const bool recompute = attrs.recompute_scale_factor.value_or(false);
  for (std::size_t d = 0; d < in.size(); ++d) {
    const double factor = factors[factors.size() == 1 ? 0 : d];
    dims.push_back({in[d], scaled_size(op, in[d], factor), recompute ? 0 : factor});
  }
  return dims;
}

/// A call of either op: what the kernels are told, and the shapes of x and of the result.
struct Call {
  /// `batch` and `channels`: of x and of the result; `in`: x's spatial sizes.
  Call(std::string_view op, std::int64_t batch, std::int64_t channels, const Shape& in,
       const InterpolateAttrs& attrs)
      : x{batch, channels}, out{batch, channels} {
    require_arguments(op, attrs);
    const ModeInfo mode = info_of(attrs.mode);
    if (in.size() < mode.least || in.size() > mode.most) {
      throw ShapeError(op,
                       "x [N, C, spatial...] with " +
                           (mode.least == mode.most ? std::to_string(mode.most) : std::string("1 to 3")) +
                           " spatial dims",
                       std::to_string(in.size()) + " of them", "choose the mode for these dims");
    }
    for (const std::int64_t size : in) x.push_back(size);
    require_places(op, x);
    auto dims = dims_of(op, in, attrs);
    for (const kernels::ResampledDim& dim : dims) out.push_back(dim.out);
    // PyTorch repeats or copies places then, whatever the factor; with 1 or 3 spatial dims it does not.
    if (attrs.mode == InterpolateMode::nearest && in.size() == 2) {
      for (kernels::ResampledDim& dim : dims) {
        if (dim.out == dim.in || dim.out == 2 * dim.in) dim.factor = 0;
      }
    }
    layout::checked_numel(op, x);
    layout::checked_numel(op, out);
    shape.kind = mode.kind;
    shape.align_corners = attrs.align_corners.value_or(false);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      shape.dims[shape.dims.size() - dims.size() + d] = dims[d];
    }
  }
  void set_format(MemoryFormat format) {
    const bool last = format == MemoryFormat::channels_last;
    shape.outer = last ? x[0] : x[0] * x[1];
    shape.inner = last ? x[1] : 1;
  }
  Shape x, out;
  InterpolateShape shape;
};

// --- interpolate

Outputs interpolate_forward(const ForwardArgs<InterpolateAttrs>& args) {
  const Tensor& x = args.in(0);
  const DType result = floating_result(kInterpolate, args);
  require_image_dims(kInterpolate, "x", x);
  Call call(kInterpolate, x.size(0), x.size(1), spatial_sizes(x.shape(), x.shape().size() - 2), args.attrs);
  const MemoryFormat format = x.suggest_memory_format();
  const Tensor input = dense_in(x, format);
  const Tensor out = empty(call.out, {.dtype = result, .device = x.device(), .memory_format = format});
  call.set_format(format);
  if (out.numel() > 0)
    kernels::interpolate(x.device(), call.shape, view_of(out), view_of(input), compute_dtype(result));
  return out;
}

Tensor interpolate_backward(const Tensor& grad, const InterpolateBackwardAttrs& attrs);

Gradients interpolate_vjp(const VjpArgs<InterpolateAttrs>& args) {
  InterpolateBackwardAttrs attrs{args.attrs};
  attrs.input_size = spatial_sizes(args.in_shape(0), args.in_shape(0).size() - 2);
  attrs.dtype = args.wanted(0);
  return {interpolate_backward(args.grad(), attrs)};
}

std::vector<Sample<InterpolateAttrs>> interpolate_samples() {
  using enum InterpolateMode;
  return {{{real({2, 3, 5})}, {.size = {8}, .mode = linear}},
          {{real({2, 2, 3, 4})}, {.scale_factor = 2.0, .mode = bilinear}},
          {{real({1, 3, 5, 4})}, {.size = {3, 7}, .mode = bilinear, .align_corners = true}},
          {{real({2, 1, 2, 3, 3})}, {.scale_factor = {1.5, 2.0, 0.7}, .mode = trilinear}},
          {{real({2, 2, 5, 3})}, {.size = {3, 7}}},
          {{real({1, 2, 7})}, {.scale_factor = 1.7, .recompute_scale_factor = true}},
          {{real({1, 2, 2, 3, 2})}, {.size = {3}, .mode = nearest_exact}},
          {{real({2, 2, 4, 5})}, {.scale_factor = {1.3, 0.6}, .mode = bicubic}}};
}
constexpr Op<InterpolateAttrs> interpolate_op = plain_op<InterpolateAttrs>(
    kInterpolate, Category::fp32, interpolate_samples, interpolate_forward, interpolate_vjp, kSaveNothing);

// --- interpolate_backward. Input: the gradient of the result

Outputs interpolate_backward_forward(const ForwardArgs<InterpolateBackwardAttrs>& args) {
  const Tensor& grad = args.in(0);
  require_floating(kInterpolateBackward, grad);
  require_image_dims(kInterpolateBackward, "a gradient", grad);
  for (const std::int64_t size : args.attrs.input_size) {
    if (size < 0)
      throw ShapeError(kInterpolateBackward, "sizes of x", to_string(args.attrs.input_size), "pass x's");
  }
  Call call(kInterpolateBackward, grad.size(0), grad.size(1), args.attrs.input_size, args.attrs);
  if (grad.shape() != call.out) {
    throw ShapeError(kInterpolateBackward, "a gradient " + to_string(call.out), to_string(grad.shape()),
                     "pass the gradient of interpolate's result");
  }
  const DType result = args.attrs.dtype.value_or(grad.dtype());
  if (!is_floating(result))
    throw DTypeError(kInterpolateBackward, "a floating dtype", to_string(result), "use f32 or another");
  const MemoryFormat format = grad.suggest_memory_format();
  const Tensor from = dense_in(grad, format);
  const Tensor out = empty(call.x, {.dtype = result, .device = grad.device(), .memory_format = format});
  call.set_format(format);
  if (out.numel() > 0) {
    kernels::interpolate_backward(grad.device(), call.shape, view_of(out), view_of(from),
                                  compute_dtype(promote(grad.dtype(), result)));
  }
  return out;
}

Gradients interpolate_backward_vjp(const VjpArgs<InterpolateBackwardAttrs>& args) {
  const InterpolateAttrs& attrs = args.attrs;
  return {bind(interpolate_op, {args.grad()}, attrs)};
}

std::vector<Sample<InterpolateBackwardAttrs>> interpolate_backward_samples() {
  using enum InterpolateMode;
  return {{{real({2, 3, 8})}, {{.size = {8}, .mode = linear}, {5}}},
          {{real({2, 2, 6, 8})}, {{.scale_factor = 2.0, .mode = bilinear}, {3, 4}}},
          {{real({1, 2, 3, 7})}, {{.size = {3, 7}, .mode = bilinear, .align_corners = true}, {5, 4}}},
          {{real({2, 1, 3, 7, 2})}, {{.size = {3, 7, 2}}, {2, 3, 5}}},
          {{real({1, 2, 5, 3})}, {{.scale_factor = {1.3, 0.6}, .mode = bicubic}, {4, 5}, DType::f64}}};
}
constexpr Op<InterpolateBackwardAttrs> interpolate_backward_op = plain_op<InterpolateBackwardAttrs>(
    kInterpolateBackward, Category::passthrough, interpolate_backward_samples, interpolate_backward_forward,
    interpolate_backward_vjp, kSaveNothing);

Tensor interpolate_backward(const Tensor& grad, const InterpolateBackwardAttrs& attrs) {
  return bind(interpolate_backward_op, {grad}, attrs);
}

/// The step in x from one place of the result to the next.
double step_of(const kernels::ResampledDim& dim, bool align_corners) {
  const auto in = static_cast<double>(dim.in), out = static_cast<double>(dim.out);
  if (align_corners) return dim.out > 1 ? (in - 1) / (out - 1) : 0;
  return dim.factor > 0 ? 1 / dim.factor : in / out;
}

Tensor antialiased(const Tensor& x, const InterpolateAttrs& attrs) {
  if (attrs.mode != InterpolateMode::bilinear && attrs.mode != InterpolateMode::bicubic) {
    throw ValueError(kInterpolate, "antialias with bilinear or bicubic",
                     quote(kEnumNames<InterpolateMode>[static_cast<std::size_t>(attrs.mode)]),
                     "leave it out");
  }
  require_defined(kInterpolate, x);
  require_image_dims(kInterpolate, "x", x);
  const Call call(kInterpolate, x.size(0), x.size(1), spatial_sizes(x.shape(), x.shape().size() - 2), attrs);
  const auto& [h, w] = std::tie(call.shape.dims[1], call.shape.dims[2]);
  const bool corners = attrs.align_corners.value_or(false);
  return interpolate_antialiased(x, {h.out, w.out}, {step_of(h, corners), step_of(w, corners)}, attrs.mode);
}

const Registered interpolate_registered{interpolate_op, interpolate_backward_op};

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const InterpolateAttrs attrs{options.size, options.scale_factor, options.mode, options.align_corners,
                               options.recompute_scale_factor};
  return options.antialias ? antialiased(x, attrs) : Tensor(bind(interpolate_op, {x}, attrs));
}

}  // namespace mezzo
