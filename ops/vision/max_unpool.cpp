// max_unpool1d to 3d: compositions of a scatter into each image.
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/indexing/common.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/vision/pooling_common.h"

namespace mezzo {

namespace {

using namespace ops;

constexpr std::array<const char*, 3> kUnpoolNames{"max_unpool1d", "max_unpool2d", "max_unpool3d"};

/// The spatial sizes of the result: those asked for, or what pools to `sizes` without a rest.
Shape unpooled_sizes(const char* op, const MaxUnpoolOptions& attrs, const Shape& sizes) {
  const std::size_t spatial = sizes.size();
  const Dims kernel = per_dim(op, "kernel_size", attrs.kernel_size, spatial, 1);
  const Dims stride = attrs.stride.empty() ? kernel : per_dim(op, "stride", attrs.stride, spatial, 1);
  const Dims padding = per_dim(op, "padding", attrs.padding, spatial, 0);
  const Dims asked =
      attrs.output_size.empty() ? Dims{} : per_dim(op, "output_size", attrs.output_size, spatial, 1);
  Shape result;
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t fitting = (sizes[d] - 1) * stride[d] - 2 * padding[d] + kernel[d];
    const std::int64_t size = asked.empty() ? fitting : asked[d];
    if (size <= fitting - stride[d] || size >= fitting + stride[d]) {
      throw ValueError(op,
                       "an output_size above " + std::to_string(fitting - stride[d]) + " and below " +
                           std::to_string(fitting + stride[d]) + " in spatial dim " + std::to_string(d),
                       std::to_string(size), "pass the sizes of the input of max_pool");
    }
    if (size < 1) {
      throw ShapeError(op, "an output of at least 1 place in each dim", std::to_string(size),
                       "choose less padding");
    }
    result.push_back(size);
  }
  return result;
}

template <std::size_t kSpatial>
Outputs max_unpool_forward(const ForwardArgs<MaxUnpoolOptions>& args) {
  constexpr const char* kOp = kUnpoolNames[kSpatial - 1];
  const Tensor &x = args.in(0), &indices = args.in(1);
  if (x.dtype() == DType::boolean)
    throw DTypeError(kOp, "numbers", to_string(x.dtype()), "convert it with to(DType::u8)");
  require_images(kOp, x, kSpatial);
  if (indices.dtype() != DType::i64)
    throw DTypeError(kOp, "indices of dtype i64", to_string(indices.dtype()), "pass max_pool's");
  if (indices.shape() != x.shape()) {
    throw ShapeError(kOp, "indices of x's shape " + to_string(x.shape()), to_string(indices.shape()),
                     "pass those of the same pooling");
  }
  const Shape sizes = unpooled_sizes(kOp, args.attrs, spatial_sizes(x.shape(), kSpatial));
  const Shape shape = with_spatial_sizes(x.shape(), sizes);
  const std::int64_t places = layout::checked_numel(kOp, sizes);
  layout::checked_numel(kOp, shape);
  constexpr auto kFirst = -static_cast<std::int64_t>(kSpatial);
  const Tensor at = flatten(indices, kFirst, -1).contiguous();
  check_indices(kOp, at, 0, places);
  Shape lines = at.shape();
  lines.back() = places;
  const Tensor images = scatter(zeros(lines, options_of(x)), -1, at, flatten(x, kFirst, -1));
  return reshape(images, shape).contiguous(image_format(x, kSpatial));
}

/// One place for each image, as of several in one place only the last would stay.
template <std::size_t kSpatial>
std::vector<Sample<MaxUnpoolOptions>> max_unpool_samples() {
  using op_samples::index, op_samples::real;
  const Shape shape = with_spatial_sizes(kSpatial == 1   ? Shape{2, 3, 1}
                                         : kSpatial == 2 ? Shape{2, 3, 1, 1}
                                                         : Shape{2, 3, 1, 1, 1},
                                         Shape(kSpatial, 1));
  return {{{real(shape), index(shape, 2)}, {.kernel_size = {2}}},
          {{real(shape), index(shape, 3)}, {.kernel_size = {3}, .stride = {2}, .output_size = {4}}}};
}

template <std::size_t kSpatial>
constexpr Op<MaxUnpoolOptions> kMaxUnpool = plain_composition<MaxUnpoolOptions>(kUnpoolNames[kSpatial - 1],
                                                                                max_unpool_samples<kSpatial>,
                                                                                max_unpool_forward<kSpatial>);

const Registered max_unpool_registered{kMaxUnpool<1>, kMaxUnpool<2>, kMaxUnpool<3>};

}  // namespace

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const MaxUnpoolOptions& options) {
  return bind(kMaxUnpool<1>, {x, indices}, options);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const MaxUnpoolOptions& options) {
  return bind(kMaxUnpool<2>, {x, indices}, options);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const MaxUnpoolOptions& options) {
  return bind(kMaxUnpool<3>, {x, indices}, options);
}

}  // namespace mezzo
