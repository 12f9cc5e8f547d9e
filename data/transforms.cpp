// The random choices of transforms.
#include "mezzo/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo::data {

namespace {

double checked_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(op, "a probability from 0 to 1", number_text(p), "");
  return p;
}

double checked_alpha(const char* op, double alpha) {
  if (!(alpha > 0) || !std::isfinite(alpha))
    throw ValueError(op, "a positive, finite alpha", number_text(alpha), "");
  return alpha;
}

void check_range(const char* op, const char* what, double low, double high) {
  if (low > 0 && low <= high && std::isfinite(high)) return;
  throw ValueError(op, std::string("a ") + what + " from a positive number to one that is no smaller",
                   number_text(low) + " to " + number_text(high), "");
}

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

/// A random box of part `scale` of the area, and of a ratio, whose logarithm is uniform; none when it does
/// not fit in ten attempts. Source: torchvision's RandomErasing and RandomResizedCrop.
template <class Sides>
std::optional<Box> random_box(ImageSize size, double min_scale, double max_scale, double min_ratio,
                              double max_ratio, Random& random, Sides sides) {
  const double area = static_cast<double>(size.height) * static_cast<double>(size.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * random.uniform(min_scale, max_scale);
    const double ratio = std::exp(random.uniform(std::log(min_ratio), std::log(max_ratio)));
    const auto long_side = rounded(std::sqrt(part * ratio)), short_side = rounded(std::sqrt(part / ratio));
    const auto [height, width] = sides(long_side, short_side);
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

Tensor OneHot::operator()(const Tensor& labels) const { return one_hot(labels, num_classes_); }

Tensor Resize::operator()(const Tensor& image) const {
  return size_ ? resize(image, *size_, options_) : resize_shorter_edge(image, edge_, options_);
}

Tensor RandomCrop::operator()(const Tensor& image, Random& random) const {
  const ImageSize size = image_size("RandomCrop", image);
  const std::int64_t rows = size.height + 2 * options_.padding - size_.height;
  const std::int64_t columns = size.width + 2 * options_.padding - size_.width;
  if (rows < 0 || columns < 0) {
    throw ValueError("RandomCrop",
                     "an image of at least " + std::to_string(size_.height) + " x " +
                         std::to_string(size_.width) + " with its padding",
                     std::to_string(size.height) + " x " + std::to_string(size.width),
                     "resize it, or pad it");
  }
  const std::int64_t top = random.integer(rows + 1) - options_.padding;
  return crop(image, {top, random.integer(columns + 1) - options_.padding, size_.height, size_.width});
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options)
    : size_(size), options_(options) {
  check_range("RandomResizedCrop", "scale", options.min_scale, options.max_scale);
  check_range("RandomResizedCrop", "ratio", options.min_ratio, options.max_ratio);
}

Tensor RandomResizedCrop::operator()(const Tensor& image, Random& random) const {
  const ImageSize size = image_size("RandomResizedCrop", image);
  const auto sides = [](auto wide, auto high) { return std::pair<std::int64_t, std::int64_t>(high, wide); };
  std::optional<Box> box = random_box(size, options_.min_scale, options_.max_scale, options_.min_ratio,
                                      options_.max_ratio, random, sides);
  if (!box) {  // the largest in the middle with a ratio that is allowed
    const double ratio = std::clamp(static_cast<double>(size.width) / static_cast<double>(size.height),
                                    options_.min_ratio, options_.max_ratio);
    const std::int64_t height = std::min(size.height, rounded(static_cast<double>(size.width) / ratio));
    const std::int64_t width = std::min(size.width, rounded(static_cast<double>(size.height) * ratio));
    box = Box{(size.height - height) / 2, (size.width - width) / 2, height, width};
  }
  return resize(crop(image, *box), size_, options_.resize);
}

template <Tensor (*kMirror)(const Tensor&)>
RandomFlip<kMirror>::RandomFlip(double p)
    : p_(checked_probability(kMirror == hflip ? "RandomHorizontalFlip" : "RandomVerticalFlip", p)) {}
template class RandomFlip<hflip>;
template class RandomFlip<vflip>;

RandomRotation::RandomRotation(double degrees, const RotateOptions& options)
    : degrees_(degrees), options_(options) {
  if (!(degrees >= 0) || !std::isfinite(degrees))
    throw ValueError("RandomRotation", "degrees of at least 0", number_text(degrees), "");
}
Tensor RandomRotation::operator()(const Tensor& image, Random& random) const {
  return rotate(image, random.uniform(-degrees_, degrees_), options_);
}

RandomErasing::RandomErasing(const RandomErasingOptions& options) : options_(options) {
  static_cast<void>(checked_probability("RandomErasing", options.p));
  check_range("RandomErasing", "scale", options.min_scale, options.max_scale);
  check_range("RandomErasing", "ratio", options.min_ratio, options.max_ratio);
}
Tensor RandomErasing::operator()(const Tensor& image, Random& random) const {
  const ImageSize size = image_size("RandomErasing", image);
  if (!random.bernoulli(options_.p)) return image;
  const auto sides = [](auto high, auto wide) { return std::pair<std::int64_t, std::int64_t>(high, wide); };
  const std::optional<Box> box = random_box(size, options_.min_scale, options_.max_scale, options_.min_ratio,
                                            options_.max_ratio, random, sides);
  return box ? erase(image, *box, options_.value) : image;
}

MixUp::MixUp(std::int64_t num_classes, double alpha)
    : num_classes_(num_classes), alpha_(checked_alpha("MixUp", alpha)) {}
Example MixUp::operator()(const Example& batch, Random& random) const {
  check_batch("MixUp", batch, 1);
  const double part = random.beta(alpha_, alpha_);
  const Tensor target = as_shares("MixUp", batch.target, num_classes_);
  if (!is_floating(batch.data.dtype()))
    throw DTypeError("MixUp", "floating data", to_string(batch.data.dtype()), "convert it by ToDType first");
  return {mixed(batch.data, part), mixed(target, part)};
}

CutMix::CutMix(std::int64_t num_classes, double alpha)
    : num_classes_(num_classes), alpha_(checked_alpha("CutMix", alpha)) {}
Example CutMix::operator()(const Example& batch, Random& random) const {
  check_batch("CutMix", batch, 3);
  const ImageSize size = image_size("CutMix", batch.data);
  const double root = 0.5 * std::sqrt(1 - random.beta(alpha_, alpha_));
  // Around a random centre; what lies outside of the image is cut off.
  const auto span = [&](std::int64_t length) {
    const std::int64_t centre = random.integer(length);
    const auto half = static_cast<std::int64_t>(root * static_cast<double>(length));
    return std::pair(std::max<std::int64_t>(centre - half, 0), std::min(centre + half, length));
  };
  const auto [left, right] = span(size.width);
  const auto [top, bottom] = span(size.height);
  Tensor data = batch.data.clone();
  const auto box_of = [&, y = top, x = left, rows = bottom - top, columns = right - left](const Tensor& of) {
    return narrow(narrow(of, -2, y, rows), -1, x, columns);
  };
  box_of(data).copy_(box_of(roll(batch.data, 1, 0)));
  const double part = 1 - static_cast<double>((bottom - top) * (right - left)) /
                              static_cast<double>(size.height * size.width);
  return {data, mixed(as_shares("CutMix", batch.target, num_classes_), part)};
}

}  // namespace mezzo::data
