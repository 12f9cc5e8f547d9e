// The random choices of transforms.
#include "mezzo/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo::data {

namespace {

void require_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(op, "a probability from 0 to 1", number_text(p), "");
}

void require_alpha(const char* op, double alpha) {
  if (!(alpha > 0) || !std::isfinite(alpha))
    throw ValueError(op, "a positive, finite alpha", number_text(alpha), "");
}

void check_range(const char* op, const char* what, double low, double high) {
  if (low > 0 && low <= high && std::isfinite(high)) return;
  throw ValueError(op, std::string("a ") + what + " from a positive number to one that is no smaller",
                   number_text(low) + " to " + number_text(high), "");
}

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

/// A random box of part `scale` of the area, and of a ratio, whose logarithm is uniform; none when it does
/// not fit in ten attempts. The ratio is of height to width, or of width to height (`is_wide`). Source:
/// torchvision's RandomErasing and RandomResizedCrop.
std::optional<Box> random_box(ImageSize size, double min_scale, double max_scale, double min_ratio,
                              double max_ratio, Random& random, bool is_wide) {
  const double area = static_cast<double>(size.height) * static_cast<double>(size.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * random.uniform(min_scale, max_scale);
    const double ratio = std::exp(random.uniform(std::log(min_ratio), std::log(max_ratio)));
    const auto long_side = rounded(std::sqrt(part * ratio)), short_side = rounded(std::sqrt(part / ratio));
    const std::int64_t height = is_wide ? short_side : long_side, width = is_wide ? long_side : short_side;
    if (height < 1 || width < 1 || height > size.height || width > size.width) continue;
    return Box{random.integer(size.height - height + 1), random.integer(size.width - width + 1), height,
               width};
  }
  return std::nullopt;
}

/// Targets as f32 [N, classes].
Tensor as_shares(const char* op, const Tensor& target, std::int64_t num_classes) {
  if (target.dim() == 2 && target.size(1) == num_classes) return target.to(DType::f32);
  if (target.dim() != 1 || is_floating(target.dtype())) {
    throw ShapeError(op, "integer labels [N], or [N, " + std::to_string(num_classes) + "]",
                     to_string(target.dtype()) + " " + to_string(target.shape()), "");
  }
  try {
    return one_hot(target, num_classes).to(DType::f32);
  } catch (const IndexError& error) {
    throw IndexError(op, "classes in [0, " + std::to_string(num_classes) + "), as it knows no ignore_index",
                     error.got(), "leave samples without a class out of the data set");
  }
}

/// part * x + (1 - part) * (x of the sample before).
Tensor mixed(const Tensor& x, double part) { return x * part + roll(x, 1, 0) * (1 - part); }

void check_batch(const char* op, const Example& batch, std::int64_t least_dims) {
  if (batch.data.dim() >= least_dims && batch.target.dim() >= 1 && batch.data.size(0) == batch.target.size(0))
    return;
  throw ShapeError(op, "a batch with a target for each sample",
                   to_string(batch.data.shape()) + " and " + to_string(batch.target.shape()), "");
}

}  // namespace

Transform Normalize(std::vector<double> mean, std::vector<double> std) {
  return [mean = std::move(mean), std = std::move(std)](const Tensor& image) {
    return normalize(image, mean, std);
  };
}

Transform ToDType(DType dtype, bool scale) {
  return [=](const Tensor& x) { return to_dtype(x, dtype, scale); };
}

Transform OneHot(std::int64_t num_classes) {
  return [=](const Tensor& labels) { return one_hot(labels, num_classes); };
}

Transform Resize(std::int64_t edge, const ResizeOptions& options) {
  return [=](const Tensor& image) { return resize_shorter_edge(image, edge, options); };
}

Transform Resize(ImageSize size, const ResizeOptions& options) {
  return [=](const Tensor& image) { return resize(image, size, options); };
}

Transform CenterCrop(ImageSize size) {
  return [=](const Tensor& image) { return center_crop(image, size); };
}

RandomTransform RandomCrop(ImageSize wanted, const RandomCropOptions& options) {
  return [=](const Tensor& image, Random& random) {
    const ImageSize size = image_size("RandomCrop", image);
    const std::int64_t rows = size.height + 2 * options.padding - wanted.height;
    const std::int64_t columns = size.width + 2 * options.padding - wanted.width;
    if (rows < 0 || columns < 0) {
      throw ValueError("RandomCrop",
                       "an image of at least " + std::to_string(wanted.height) + " x " +
                           std::to_string(wanted.width) + " with its padding",
                       std::to_string(size.height) + " x " + std::to_string(size.width),
                       "resize it, or pad it");
    }
    const std::int64_t top = random.integer(rows + 1) - options.padding;
    return crop(image, {top, random.integer(columns + 1) - options.padding, wanted.height, wanted.width});
  };
}

RandomTransform RandomResizedCrop(ImageSize wanted, const RandomResizedCropOptions& options) {
  check_range("RandomResizedCrop", "scale", options.min_scale, options.max_scale);
  check_range("RandomResizedCrop", "ratio", options.min_ratio, options.max_ratio);
  return [=](const Tensor& image, Random& random) {
    const ImageSize size = image_size("RandomResizedCrop", image);
    std::optional<Box> box = random_box(size, options.min_scale, options.max_scale, options.min_ratio,
                                        options.max_ratio, random, true);
    if (!box) {  // the largest in the middle with a ratio that is allowed
      const double ratio = std::clamp(static_cast<double>(size.width) / static_cast<double>(size.height),
                                      options.min_ratio, options.max_ratio);
      const std::int64_t height = std::min(size.height, rounded(static_cast<double>(size.width) / ratio));
      const std::int64_t width = std::min(size.width, rounded(static_cast<double>(size.height) * ratio));
      box = Box{(size.height - height) / 2, (size.width - width) / 2, height, width};
    }
    return resize(crop(image, *box), wanted, options.resize);
  };
}

RandomTransform RandomHorizontalFlip(double p) {
  require_probability("RandomHorizontalFlip", p);
  return [=](const Tensor& image, Random& random) { return random.bernoulli(p) ? hflip(image) : image; };
}

RandomTransform RandomVerticalFlip(double p) {
  require_probability("RandomVerticalFlip", p);
  return [=](const Tensor& image, Random& random) { return random.bernoulli(p) ? vflip(image) : image; };
}

RandomTransform RandomRotation(double degrees, const RotateOptions& options) {
  if (!(degrees >= 0) || !std::isfinite(degrees))
    throw ValueError("RandomRotation", "degrees of at least 0", number_text(degrees), "");
  return [=](const Tensor& image, Random& random) {
    return rotate(image, random.uniform(-degrees, degrees), options);
  };
}

RandomTransform RandomErasing(const RandomErasingOptions& options) {
  require_probability("RandomErasing", options.p);
  check_range("RandomErasing", "scale", options.min_scale, options.max_scale);
  check_range("RandomErasing", "ratio", options.min_ratio, options.max_ratio);
  return [=](const Tensor& image, Random& random) {
    const ImageSize size = image_size("RandomErasing", image);
    if (!random.bernoulli(options.p)) return image;
    const std::optional<Box> box = random_box(size, options.min_scale, options.max_scale, options.min_ratio,
                                              options.max_ratio, random, false);
    return box ? erase(image, *box, options.value) : image;
  };
}

BatchTransform MixUp(std::int64_t num_classes, double alpha) {
  require_alpha("MixUp", alpha);
  return [=](const Example& batch, Random& random) {
    check_batch("MixUp", batch, 1);
    const double part = random.beta(alpha, alpha);
    const Tensor target = as_shares("MixUp", batch.target, num_classes);
    if (!is_floating(batch.data.dtype()))
      throw DTypeError("MixUp", "floating data", to_string(batch.data.dtype()),
                       "convert it by ToDType first");
    return Example{mixed(batch.data, part), mixed(target, part)};
  };
}

BatchTransform CutMix(std::int64_t num_classes, double alpha) {
  require_alpha("CutMix", alpha);
  return [=](const Example& batch, Random& random) {
    check_batch("CutMix", batch, 3);
    const ImageSize size = image_size("CutMix", batch.data);
    const double root = 0.5 * std::sqrt(1 - random.beta(alpha, alpha));
    // Around a random centre; what lies outside of the image is cut off.
    const auto span = [&](std::int64_t length) {
      const std::int64_t centre = random.integer(length);
      const auto half = static_cast<std::int64_t>(root * static_cast<double>(length));
      return std::pair(std::max<std::int64_t>(centre - half, 0), std::min(centre + half, length));
    };
    const auto [left, right] = span(size.width);
    const auto [top, bottom] = span(size.height);
    Tensor data = batch.data.clone();
    const auto box_of = [y = top, x = left, rows = bottom - top, columns = right - left](const Tensor& of) {
      return narrow(narrow(of, -2, y, rows), -1, x, columns);
    };
    box_of(data).copy_(box_of(roll(batch.data, 1, 0)));
    const double part = 1 - static_cast<double>((bottom - top) * (right - left)) /
                                static_cast<double>(size.height * size.width);
    return Example{data, mixed(as_shares("CutMix", batch.target, num_classes), part)};
  };
}

}  // namespace mezzo::data
