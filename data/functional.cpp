// Images changed by views, by interpolation, by sampling on a turned grid, and in their colours.
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

/// What shears and turns places (x, y) around the centre: (a x + b y, c x + d y), of determinant 1.
struct Turn {
  double a, b, c, d;
  explicit Turn(const Affine& by) {
    const auto radians = [](double degrees) { return degrees * std::numbers::pi / 180; };
    const double turn = radians(by.degrees), shear_x = radians(by.shear_x), shear_y = radians(by.shear_y);
    a = std::cos(turn - shear_y) / std::cos(shear_y);
    c = std::sin(turn - shear_y) / std::cos(shear_y);
    b = -a * std::tan(shear_x) - std::sin(turn);
    d = -c * std::tan(shear_x) + std::cos(turn);
  }
};

/// Coordinates for grid_sample: for each place of an image of this size, where `by` takes it from.
Tensor affine_grid(ImageSize size, const Affine& by, const Tensor& like) {
  const Turn turn(by);
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  const ValueOptions options{.dtype = DType::f64};
  const Tensor x = (arange(size.width, options) - (w - 1) / 2 - by.right).reshape({1, -1});
  const Tensor y = (arange(size.height, options) - (h - 1) / 2 - by.down).reshape({-1, 1});
  const Tensor grid = stack({(x * (turn.d / by.scale) - y * (turn.b / by.scale)) * (2 / w),
                             (y * (turn.a / by.scale) - x * (turn.c / by.scale)) * (2 / h)},
                            -1);
  return grid.to(like.dtype()).to(like.device()).reshape({1, size.height, size.width, 2});
}

/// The number of an image's channels. Throws: ShapeError unless it is 1 or 3.
std::int64_t channels_of(const char* op, const Tensor& image) {
  static_cast<void>(image_size(op, image));
  const std::int64_t channels = image.dim() > 2 ? image.size(-3) : 1;
  if (channels == 1 || channels == 3) return channels;
  throw ShapeError(op, "an image of 1 or 3 channels [..., C, H, W]", to_string(image.shape()),
                   "select the colours");
}

/// Red, green and blue weighed as the eye does, [..., 1, H, W]; of integers rounded down.
Tensor gray_of(const Tensor& image) {
  const bool is_integer = !is_floating(image.dtype());
  const Tensor x = is_integer ? image.to(floats_for(image.dtype())) : image;
  if (image.dim() < 3 || image.size(-3) == 1) return x;
  const auto channel = [&](std::int64_t i) { return narrow(x, -3, i, 1); };
  const Tensor gray = channel(0) * 0.2989 + channel(1) * 0.587 + channel(2) * 0.114;
  return is_integer ? floor(gray) : gray;
}

/// factor * image + (1 - factor) * other, in the image's range and dtype.
Tensor blended(const char* op, const Tensor& image, const Tensor& other, double factor) {
  if (!(factor >= 0) || !std::isfinite(factor))
    throw ValueError(op, "a finite factor of at least 0", number_text(factor), "1 changes nothing");
  const bool is_integer = !is_floating(image.dtype());
  const Tensor x = is_integer ? image.to(floats_for(image.dtype())) : image;
  const Tensor mix = other.defined() ? x * factor + other * (1 - factor) : x * factor;
  const Tensor result = clamp(mix, 0, is_integer ? range_of(image.dtype()).largest : 1);
  return is_integer ? floor(result).to(image.dtype()) : result;
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

Box center_box(ImageSize image, ImageSize size) noexcept {
  // Halves round to even, as Python's do. A smaller image is padded first, with the odd row behind it.
  const auto begin = [](std::int64_t of, std::int64_t part) {
    return of < part ? -((part - of) / 2)
                     : static_cast<std::int64_t>(std::nearbyint(static_cast<double>(of - part) / 2));
  };
  return {begin(image.height, size.height), begin(image.width, size.width), size.height, size.width};
}

Tensor center_crop(const Tensor& image, ImageSize size) {
  return crop(image, center_box(image_size("center_crop", image), size));
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

ImageSize shorter_edge_size(ImageSize image, std::int64_t edge) noexcept {
  const std::int64_t shorter = std::min(image.height, image.width),
                     longer = std::max(image.height, image.width);
  const auto other = static_cast<std::int64_t>(static_cast<double>(edge) * static_cast<double>(longer) /
                                               static_cast<double>(std::max<std::int64_t>(shorter, 1)));
  return image.height <= image.width ? ImageSize(edge, other) : ImageSize(other, edge);
}

Tensor resize_shorter_edge(const Tensor& image, std::int64_t edge, const ResizeOptions& options) {
  return resize(image, shorter_edge_size(image_size("resize", image), edge), options);
}

Tensor rotate(const Tensor& image, double degrees, const RotateOptions& options) {
  if (!std::isfinite(degrees)) throw ValueError("rotate", "a finite angle", number_text(degrees), "");
  return affine(image, {.degrees = -degrees}, options);
}

Tensor affine(const Tensor& image, const Affine& by, const RotateOptions& options) {
  const ImageSize size = image_size("affine", image);
  for (const double number : {by.degrees, by.right, by.down, by.scale, by.shear_x, by.shear_y}) {
    if (!std::isfinite(number)) throw ValueError("affine", "finite numbers", number_text(number), "");
  }
  if (!(by.scale > 0)) throw ValueError("affine", "a positive scale", number_text(by.scale), "");
  return through_floats("affine", image, [&](const Tensor& x) {
    const Tensor grid = affine_grid(size, by, x);
    const Tensor y = grid_sample(x, grid, {.mode = options.mode});
    if (options.fill == 0) return y;
    const Tensor covered = grid_sample(ones_like(narrow(x, 1, 0, 1)), grid, {.mode = options.mode});
    return y + (1 - covered) * options.fill;
  });
}

Tensor transform_image(const Tensor& image, const Geometry& geometry, const ResizeOptions& resizing,
                       const RotateOptions& turning) {
  Tensor x = geometry.crop ? crop(image, *geometry.crop) : image;
  if (geometry.size) x = resize(x, *geometry.size, resizing);
  if (geometry.hflip) x = hflip(x);
  if (geometry.vflip) x = vflip(x);
  return geometry.affine ? affine(x, *geometry.affine, turning) : x;
}

Tensor transform_boxes(const Tensor& boxes, ImageSize image, const Geometry& geometry) {
  if (!boxes.defined() || boxes.dim() != 2 || boxes.size(1) != 4) {
    throw ShapeError("transform_boxes", "boxes [N, 4]: left, top, right, bottom",
                     boxes.defined() ? to_string(boxes.shape()) : "an undefined tensor", "");
  }
  if (!is_floating(boxes.dtype()))
    throw DTypeError("transform_boxes", "floating boxes", to_string(boxes.dtype()), "use to(DType::f32)");
  auto h = static_cast<double>(image.height), w = static_cast<double>(image.width);
  // Edges along one side of the image, [N, 2].
  Tensor x = stack({boxes.select(1, 0), boxes.select(1, 2)}, 1),
         y = stack({boxes.select(1, 1), boxes.select(1, 3)}, 1);
  if (geometry.crop) {
    const Box& box = *geometry.crop;
    h = static_cast<double>(box.height), w = static_cast<double>(box.width);
    x = clamp(x - static_cast<double>(box.left), 0, w);
    y = clamp(y - static_cast<double>(box.top), 0, h);
  }
  if (geometry.size) {
    x = x * (static_cast<double>(geometry.size->width) / w);
    y = y * (static_cast<double>(geometry.size->height) / h);
    h = static_cast<double>(geometry.size->height), w = static_cast<double>(geometry.size->width);
  }
  if (geometry.hflip) x = w - flip(x, {1});
  if (geometry.vflip) y = h - flip(y, {1});
  if (geometry.affine) {
    const Affine& by = *geometry.affine;
    const Turn turn(by);
    // The four corners, [N, 2, 2], and the box around where they go.
    const Tensor across = (x - w / 2).unsqueeze(1) * by.scale, down = (y - h / 2).unsqueeze(2) * by.scale;
    const Tensor to_x = across * turn.a + down * turn.b + (w / 2 + by.right);
    const Tensor to_y = across * turn.c + down * turn.d + (h / 2 + by.down);
    x = clamp(stack({amin(to_x, {1, 2}), amax(to_x, {1, 2})}, 1), 0, w);
    y = clamp(stack({amin(to_y, {1, 2}), amax(to_y, {1, 2})}, 1), 0, h);
  }
  return stack({x.select(1, 0), y.select(1, 0), x.select(1, 1), y.select(1, 1)}, 1);
}

Tensor gaussian_blur(const Tensor& image, ImageSize kernel, double sigma) {
  const ImageSize size = image_size("gaussian_blur", image);
  const bool fits = kernel.height / 2 < size.height && kernel.width / 2 < size.width;
  if (kernel.height < 1 || kernel.width < 1 || kernel.height % 2 == 0 || kernel.width % 2 == 0 || !fits) {
    throw ValueError("gaussian_blur", "an odd kernel whose half is smaller than the image",
                     std::to_string(kernel.height) + " x " + std::to_string(kernel.width), "3 is usual");
  }
  if (!(sigma > 0) || !std::isfinite(sigma))
    throw ValueError("gaussian_blur", "a positive, finite sigma", number_text(sigma), "");
  return through_floats("gaussian_blur", image, [&](const Tensor& x) {
    const auto weights = [&](std::int64_t count) {
      const ValueOptions options{.dtype = DType::f64};
      const Tensor w = exp(square((arange(count, options) - static_cast<double>(count / 2)) / sigma) * -0.5);
      return (w / w.sum()).to(x.dtype()).to(x.device());
    };
    const Tensor rows = x.reshape({-1, 1, size.height, size.width});
    const std::int64_t high = kernel.height / 2, wide = kernel.width / 2;
    const Tensor around = pad(rows, {wide, wide, high, high}, PadMode::reflect);
    const Tensor down = conv2d(around, weights(kernel.height).reshape({1, 1, -1, 1}));
    return conv2d(down, weights(kernel.width).reshape({1, 1, 1, -1})).reshape(x.shape());
  });
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  static_cast<void>(channels_of("adjust_brightness", image));
  return blended("adjust_brightness", image, {}, factor);
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  static_cast<void>(channels_of("adjust_contrast", image));
  const Tensor gray = gray_of(image);
  const Tensor level = mean(gray, image.dim() > 2 ? Dims{-3, -2, -1} : Dims{-2, -1}, true);
  return blended("adjust_contrast", image, level, factor);
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  const bool is_gray = channels_of("adjust_saturation", image) == 1;
  const Tensor changed = blended("adjust_saturation", image, gray_of(image), factor);
  return is_gray ? image : changed;
}

Tensor adjust_hue(const Tensor& image, double factor) {
  if (!(std::abs(factor) <= 0.5))
    throw ValueError("adjust_hue", "a factor from -0.5 to 0.5", number_text(factor), "0 changes nothing");
  if (channels_of("adjust_hue", image) == 1) return image;
  const Tensor x = is_floating(image.dtype()) ? image : to_dtype(image, floats_for(image.dtype()));
  const Tensor red = narrow(x, -3, 0, 1), green = narrow(x, -3, 1, 1), blue = narrow(x, -3, 2, 1);
  const Tensor value = amax(x, {-3}, true), spread = value - amin(x, {-3}, true);
  const Tensor divisor = where(spread.eq(0), 1.0, spread);
  // Sixths of the circle, from red on.
  const Tensor sixths =
      where(value.eq(red), (green - blue) / divisor,
            where(value.eq(green), (blue - red) / divisor + 2, (red - green) / divisor + 4));
  const Tensor hue = sixths + 6 * factor + 12;
  const auto channel = [&](double offset) {
    const Tensor place = fmod(hue + offset, 6.0);
    return value - spread * clamp(minimum(place, 4 - place), 0, 1);
  };
  const Tensor moved = cat({channel(5), channel(3), channel(1)}, -3);
  return is_floating(image.dtype()) ? moved : to_dtype(moved, image.dtype());
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
