// Images changed by views, by interpolation, and by sampling on a rotated grid.
#include "mezzo/data/functional.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo::data {

namespace {

/// The least and the largest value of an integer dtype, as far as f64 has them.
struct Range {
  double least = 0, largest = 1;
};
Range range_of(DType dtype) {
  return dispatch(dtype, []<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>)
      return Range();
    else
      return Range{
          static_cast<double>(std::numeric_limits<T>::min()),
          sizeof(T) < sizeof(double) ? static_cast<double>(std::numeric_limits<T>::max()) : 0x1p63 - 0x1p10};
  });
}

/// The floating dtype that integers are computed in: wide enough for all of their values, except for i64.
DType floats_for(DType dtype) { return size_of(dtype) <= 2 ? DType::f32 : DType::f64; }

/// f(image as [N, C, H, W] of a floating dtype), brought back to the image's dims and dtype.
template <class F>
Tensor through_floats(const char* op, const Tensor& image, F f) {
  const ImageSize size = image_size(op, image);
  const Tensor x = is_floating(image.dtype()) ? image : image.to(floats_for(image.dtype()));
  Tensor y = f(x.reshape({1, -1, size.height, size.width}));
  if (!is_floating(image.dtype())) {
    const Range range = range_of(image.dtype());
    y = clamp(round(y), range.least, range.largest).to(image.dtype());
  }
  Shape shape = image.shape();
  shape[shape.size() - 2] = y.size(-2);
  shape[shape.size() - 1] = y.size(-1);
  return y.reshape(shape);
}

/// A part of a dim from `begin` on, which may reach outside, without what is outside: the part, and the zeros
/// before and after it.
struct Cut {
  std::int64_t begin, length, before, after;
  Cut(std::int64_t first, std::int64_t wanted, std::int64_t size)
      : begin(std::clamp<std::int64_t>(first, 0, size)),
        length(std::clamp<std::int64_t>(first + wanted, 0, size) - begin) {
    length = std::max<std::int64_t>(length, 0);
    before = std::clamp<std::int64_t>(-first, 0, wanted);
    after = wanted - length - before;
  }
};

/// Coordinates for grid_sample: for each place of an image of this size, where a rotation takes it from.
Tensor rotated_grid(ImageSize size, double degrees, const Tensor& like) {
  const double radians = -degrees * std::numbers::pi / 180, c = std::cos(radians), s = std::sin(radians);
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  const ValueOptions options{.dtype = DType::f64};
  const Tensor x = (arange(size.width, options) - (w - 1) / 2).reshape({1, -1});
  const Tensor y = (arange(size.height, options) - (h - 1) / 2).reshape({-1, 1});
  const Tensor grid = stack({(x * c + y * s) * (2 / w), (y * c - x * s) * (2 / h)}, -1);
  return grid.to(like.dtype()).to(like.device()).reshape({1, size.height, size.width, 2});
}

}  // namespace

ImageSize image_size(const char* op, const Tensor& image) {
  if (!image.defined()) throw ValueError(op, "an image", "an undefined tensor", "");
  if (image.dim() < 2) throw ShapeError(op, "an image [..., H, W]", to_string(image.shape()), "");
  return {image.size(-2), image.size(-1)};
}

Tensor hflip(const Tensor& image) {
  static_cast<void>(image_size("hflip", image));
  return flip(image, {-1});
}

Tensor vflip(const Tensor& image) {
  static_cast<void>(image_size("vflip", image));
  return flip(image, {-2});
}

Tensor crop(const Tensor& image, const Box& box) {
  const ImageSize size = image_size("crop", image);
  if (box.height < 0 || box.width < 0) {
    throw ValueError("crop", "a size of at least 0",
                     std::to_string(box.height) + " x " + std::to_string(box.width), "");
  }
  const Cut rows(box.top, box.height, size.height), columns(box.left, box.width, size.width);
  const Tensor inside = narrow(narrow(image, -2, rows.begin, rows.length), -1, columns.begin, columns.length);
  if (rows.length == box.height && columns.length == box.width) return inside;
  return pad(inside, {columns.before, columns.after, rows.before, rows.after});
}

Tensor center_crop(const Tensor& image, ImageSize size) {
  const ImageSize whole = image_size("center_crop", image);
  // Halves round to even, as Python's do.
  const auto start = [](std::int64_t of, std::int64_t part) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(of - part) / 2));
  };
  // A smaller image is padded first, with the odd row behind it.
  const auto begin = [&](std::int64_t of, std::int64_t part) {
    return of < part ? -((part - of) / 2) : start(of, part);
  };
  return crop(image,
              {begin(whole.height, size.height), begin(whole.width, size.width), size.height, size.width});
}

Tensor resize(const Tensor& image, ImageSize size, const ResizeOptions& options) {
  const ImageSize now = image_size("resize", image);
  if (size.height < 1 || size.width < 1) {
    throw ValueError("resize", "a size of at least 1",
                     std::to_string(size.height) + " x " + std::to_string(size.width), "");
  }
  if (size.height == now.height && size.width == now.width) return image;
  const bool smooths = options.mode == InterpolateMode::bilinear || options.mode == InterpolateMode::bicubic;
  return through_floats("resize", image, [&](const Tensor& x) {
    return interpolate(
        x,
        {.size = {size.height, size.width}, .mode = options.mode, .antialias = options.antialias && smooths});
  });
}

Tensor resize_shorter_edge(const Tensor& image, std::int64_t edge, const ResizeOptions& options) {
  const ImageSize now = image_size("resize", image);
  const std::int64_t shorter = std::min(now.height, now.width), longer = std::max(now.height, now.width);
  const auto other = static_cast<std::int64_t>(static_cast<double>(edge) * static_cast<double>(longer) /
                                               static_cast<double>(std::max<std::int64_t>(shorter, 1)));
  return resize(image, now.height <= now.width ? ImageSize(edge, other) : ImageSize(other, edge), options);
}

Tensor rotate(const Tensor& image, double degrees, const RotateOptions& options) {
  const ImageSize size = image_size("rotate", image);
  if (!std::isfinite(degrees)) throw ValueError("rotate", "a finite angle", number_text(degrees), "");
  return through_floats("rotate", image, [&](const Tensor& x) {
    const Tensor grid = rotated_grid(size, degrees, x);
    const Tensor y = grid_sample(x, grid, {.mode = options.mode});
    if (options.fill == 0) return y;
    const Tensor covered = grid_sample(ones_like(narrow(x, 1, 0, 1)), grid, {.mode = options.mode});
    return y + (1 - covered) * options.fill;
  });
}

Tensor erase(const Tensor& image, const Box& box, double value) {
  const ImageSize size = image_size("erase", image);
  if (box.top < 0 || box.left < 0 || box.height < 0 || box.width < 0 || box.top + box.height > size.height ||
      box.left + box.width > size.width) {
    throw ValueError("erase",
                     "a box within " + std::to_string(size.height) + " x " + std::to_string(size.width),
                     std::to_string(box.height) + " x " + std::to_string(box.width) + " at row " +
                         std::to_string(box.top) + ", column " + std::to_string(box.left),
                     "");
  }
  Tensor result = image.clone();
  narrow(narrow(result, -2, box.top, box.height), -1, box.left, box.width).fill_(value);
  return result;
}

Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& std) {
  static_cast<void>(image_size("normalize", image));
  if (!is_floating(image.dtype()))
    throw DTypeError("normalize", "a floating image", to_string(image.dtype()),
                     "convert it by ToDType first");
  const std::int64_t channels = image.dim() > 2 ? image.size(-3) : 1;
  for (const std::vector<double>& numbers : {mean, std}) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    if (count == 1 || count == channels) continue;
    throw ValueError("normalize",
                     "one mean and std for each of " + std::to_string(channels) + " channels, or one",
                     std::to_string(count), "");
  }
  if (std::find(std.begin(), std.end(), 0.0) != std.end())
    throw ValueError("normalize", "a std above 0", "0", "leave the channel out");
  const auto per_channel = [&](const std::vector<double>& numbers) {
    const Tensor row = tensor(numbers, {.dtype = image.dtype(), .device = image.device()});
    return image.dim() > 2 ? row.reshape({-1, 1, 1}) : row;
  };
  return (image - per_channel(mean)) / per_channel(std);
}

Tensor to_dtype(const Tensor& image, DType dtype, bool scale) {
  const bool from_floats = is_floating(image.dtype()), to_floats = is_floating(dtype);
  if (!scale || from_floats == to_floats || image.dtype() == DType::boolean || dtype == DType::boolean)
    return image.to(dtype);
  if (to_floats) return image.to(dtype) / range_of(image.dtype()).largest;
  // The product is just below the largest value plus 1, so that 1.0 is the largest value.
  const double largest = range_of(dtype).largest;
  const Tensor wide = image.dtype() == DType::f64 ? image : image.to(floats_for(dtype));
  return clamp(wide * (largest + 1.0 - 1e-3), 0, largest).to(dtype);
}

}  // namespace mezzo::data
