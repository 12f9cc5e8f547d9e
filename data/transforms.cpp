// The random choices of transforms.
#include "mezzo/data/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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

/// What is chosen between -most and most, or up to it. Throws: ValueError for a negative one, or above
/// `limit`.
double checked_most(const char* op, const char* what, double most,
                    double limit = std::numeric_limits<double>::max()) {
  if (most >= 0 && most <= limit) return most;
  throw ValueError(
      op, std::string(what) + " of at least 0" + (limit < 1e300 ? " and at most " + number_text(limit) : ""),
      number_text(most), "");
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

Tensor GeometricTransform::operator()(const Tensor& image, Random& random) const {
  return transform_image(image, choose(image_size("transform_image", image), random), resizing_, turning_);
}

MarkedImage GeometricTransform::operator()(const MarkedImage& marked, Random& random) const {
  const ImageSize size = image_size("Joint", marked.image);
  const Geometry geometry = choose(size, random);
  MarkedImage result{transform_image(marked.image, geometry, resizing_, turning_)};
  if (marked.mask.defined()) {
    const ImageSize of_mask = image_size("Joint", marked.mask);
    if (of_mask.height != size.height || of_mask.width != size.width) {
      throw ShapeError(
          "Joint",
          "a mask of the image's " + std::to_string(size.height) + " x " + std::to_string(size.width),
          to_string(marked.mask.shape()), "labels of whole images take Compose");
    }
    result.mask = transform_image(marked.mask, geometry, {.mode = InterpolateMode::nearest});
  }
  if (marked.boxes.defined()) result.boxes = transform_boxes(marked.boxes, size, geometry);
  return result;
}

Tensor Resize::operator()(const Tensor& image) const {
  Random none;
  return (*this)(image, none);
}
Geometry Resize::choose(ImageSize size, Random& /*random*/) const {
  return {.size = size_ ? *size_ : shorter_edge_size(size, edge_)};
}

Geometry CenterCrop::choose(ImageSize size, Random& /*random*/) const {
  return {.crop = center_box(size, size_)};
}

Geometry RandomCrop::choose(ImageSize size, Random& random) const {
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
  const std::int64_t left = random.integer(columns + 1) - options_.padding;
  return {.crop = Box{top, left, size_.height, size_.width}};
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options)
    : GeometricTransform(options.resize), size_(size), options_(options) {
  check_range("RandomResizedCrop", "scale", options.min_scale, options.max_scale);
  check_range("RandomResizedCrop", "ratio", options.min_ratio, options.max_ratio);
}

Geometry RandomResizedCrop::choose(ImageSize size, Random& random) const {
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
  return {.crop = box, .size = size_};
}

template <bool Geometry::*kMirror>
RandomFlip<kMirror>::RandomFlip(double p)
    : p_(checked_probability(kMirror == &Geometry::hflip ? "RandomHorizontalFlip" : "RandomVerticalFlip",
                             p)) {}
template <bool Geometry::*kMirror>
Geometry RandomFlip<kMirror>::choose(ImageSize /*size*/, Random& random) const {
  Geometry geometry;
  geometry.*kMirror = random.bernoulli(p_);
  return geometry;
}
template class RandomFlip<&Geometry::hflip>;
template class RandomFlip<&Geometry::vflip>;

RandomRotation::RandomRotation(double degrees, const RotateOptions& options)
    : GeometricTransform({}, options), degrees_(checked_most("RandomRotation", "degrees", degrees)) {}
Geometry RandomRotation::choose(ImageSize /*size*/, Random& random) const {
  return {.affine = Affine{.degrees = -random.uniform(-degrees_, degrees_)}};
}

RandomAffine::RandomAffine(double degrees, const RandomAffineOptions& options)
    : GeometricTransform({}, options.rotate),
      degrees_(checked_most("RandomAffine", "degrees", degrees)),
      options_(options) {
  check_range("RandomAffine", "scale", options.min_scale, options.max_scale);
  for (const double part : {options.translate_x, options.translate_y})
    static_cast<void>(checked_most("RandomAffine", "translate", part, 1));
  for (const double shear : {options.shear_x, options.shear_y})
    static_cast<void>(checked_most("RandomAffine", "shear", shear, 89));
}
Geometry RandomAffine::choose(ImageSize size, Random& random) const {
  const auto within = [&](double most) { return random.uniform(-most, most); };
  const auto pixels = [&](double part, std::int64_t length) {
    return std::nearbyint(within(part * static_cast<double>(length)));
  };
  Affine by{.degrees = within(degrees_)};
  by.right = pixels(options_.translate_x, size.width);
  by.down = pixels(options_.translate_y, size.height);
  by.scale = random.uniform(options_.min_scale, options_.max_scale);
  by.shear_x = within(options_.shear_x);
  by.shear_y = within(options_.shear_y);
  return {.affine = by};
}

ColorJitter::ColorJitter(const ColorJitterOptions& options) : options_(options) {
  for (const double most : {options.brightness, options.contrast, options.saturation})
    static_cast<void>(checked_most("ColorJitter", "brightness, contrast and saturation", most));
  static_cast<void>(checked_most("ColorJitter", "hue", options.hue, 0.5));
}
Tensor ColorJitter::operator()(const Tensor& image, Random& random) const {
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::int64_t left = 4; left > 1; --left)
    std::swap(order[static_cast<std::size_t>(left - 1)],
              order[static_cast<std::size_t>(random.integer(left))]);
  const std::array<double, 4> most{options_.brightness, options_.contrast, options_.saturation, options_.hue};
  constexpr std::array kAdjust{adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue};
  Tensor x = image;
  for (const int i : order) {
    const auto which = static_cast<std::size_t>(i);
    if (most[which] == 0) continue;
    const double middle = i == 3 ? 0 : 1, least = i == 3 ? -0.5 : 0;
    x = kAdjust[which](x, random.uniform(std::max(least, middle - most[which]), middle + most[which]));
  }
  return x;
}

GaussianBlur::GaussianBlur(ImageSize kernel, double min_sigma, double max_sigma)
    : kernel_(kernel), min_sigma_(min_sigma), max_sigma_(max_sigma) {
  check_range("GaussianBlur", "sigma", min_sigma, max_sigma);
}
Tensor GaussianBlur::operator()(const Tensor& image, Random& random) const {
  return gaussian_blur(image, kernel_, random.uniform(min_sigma_, max_sigma_));
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
