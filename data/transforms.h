// Transforms of samples and batches: f(tensor), or f(tensor, Random&) where chance decides. Given to
// data::transform, or to a loader as its collate, they draw from the sample's or the batch's own sequence,
// whoever runs them.
//   data::transform(dataset, data::Compose(data::RandomCrop(32, {.padding = 4}),
//   data::RandomHorizontalFlip(),
//                                          data::ToDType(DType::f32), data::Normalize({0.5}, {0.25})))
// Source: torchvision.transforms.v2.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/example.h"
#include "mezzo/data/functional.h"
#include "mezzo/data/random.h"

namespace mezzo::data {

/// One after the other.
template <class... F>
class Compose {
 public:
  explicit Compose(F... transforms) : transforms_(std::move(transforms)...) {}
  [[nodiscard]] Tensor operator()(Tensor x, Random& random) const {
    std::apply([&](const F&... f) { ((x = detail::transformed(f, std::move(x), random)), ...); },
               transforms_);
    return x;
  }

 private:
  std::tuple<F...> transforms_;
};

/// An image and what is marked in it; what is undefined is not there.
struct MarkedImage {
  Tensor image;
  Tensor mask = {};   ///< a class, or whatever belongs to a place, for each place: [.., H, W]
  Tensor boxes = {};  ///< [N, 4]: left, top, right, bottom (transform_boxes)
};

/// A transform that moves places: what it does to an image it does to a mask, whose elements are not mixed
/// (nearest; 0 comes in from outside), and to boxes.
class GeometricTransform {
 public:
  virtual ~GeometricTransform() = default;
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;
  [[nodiscard]] MarkedImage operator()(const MarkedImage& marked, Random& random) const;
  /// The choice for an image of this size.
  [[nodiscard]] virtual Geometry choose(ImageSize size, Random& random) const = 0;

 protected:
  explicit GeometricTransform(const ResizeOptions& resizing = {}, const RotateOptions& turning = {})
      : resizing_(resizing), turning_(turning) {}

 private:
  ResizeOptions resizing_;
  RotateOptions turning_;
};

/// One after the other, for images with masks or boxes: GeometricTransforms change all of a sample alike,
/// other transforms (ToDType, ColorJitter, ...) the image alone. Of an Example the target is the mask.
///   data::transform(pairs, data::Joint(data::RandomCrop(224), data::RandomHorizontalFlip(),
///   data::ColorJitter(...)))
template <class... F>
class Joint {
 public:
  explicit Joint(F... transforms) : transforms_(std::move(transforms)...) {}
  [[nodiscard]] MarkedImage operator()(MarkedImage marked, Random& random) const {
    const auto apply = [&](const auto& f) {
      if constexpr (std::derived_from<std::remove_cvref_t<decltype(f)>, GeometricTransform>)
        marked = f(marked, random);
      else
        marked.image = detail::transformed(f, std::move(marked.image), random);
    };
    std::apply([&](const F&... f) { (apply(f), ...); }, transforms_);
    return marked;
  }
  [[nodiscard]] Example operator()(const Example& sample, Random& random) const {
    MarkedImage marked = (*this)(MarkedImage{sample.data, sample.target}, random);
    return {std::move(marked.image), std::move(marked.mask)};
  }

 private:
  std::tuple<F...> transforms_;
};

// --- of a sample

/// data::normalize.
class Normalize {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std)
      : mean_(std::move(mean)), std_(std::move(std)) {}
  [[nodiscard]] Tensor operator()(const Tensor& image) const { return normalize(image, mean_, std_); }

 private:
  std::vector<double> mean_, std_;
};

/// data::to_dtype: u8 images become floats of 0 ... 1.
class ToDType {
 public:
  explicit ToDType(DType dtype, bool scale = true) : dtype_(dtype), scale_(scale) {}
  [[nodiscard]] Tensor operator()(const Tensor& x) const { return to_dtype(x, dtype_, scale_); }

 private:
  DType dtype_;
  bool scale_;
};

/// mezzo::one_hot. Throws: IndexError for a label outside of [0, num_classes).
class OneHot {
 public:
  explicit OneHot(std::int64_t num_classes) : num_classes_(num_classes) {}
  [[nodiscard]] Tensor operator()(const Tensor& labels) const;

 private:
  std::int64_t num_classes_;
};

/// data::resize to a size, or with one number to that length of the shorter edge.
class Resize : public GeometricTransform {
 public:
  explicit Resize(std::int64_t edge, const ResizeOptions& options = {})
      : GeometricTransform(options), edge_(edge) {}
  explicit Resize(ImageSize size, const ResizeOptions& options = {})
      : GeometricTransform(options), size_(size) {}
  using GeometricTransform::operator();
  [[nodiscard]] Tensor operator()(const Tensor& image) const;
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  std::int64_t edge_ = 0;
  std::optional<ImageSize> size_;
};

class CenterCrop : public GeometricTransform {
 public:
  explicit CenterCrop(ImageSize size) : size_(size) {}
  using GeometricTransform::operator();
  [[nodiscard]] Tensor operator()(const Tensor& image) const { return center_crop(image, size_); }
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  ImageSize size_;
};

struct RandomCropOptions {
  std::int64_t padding = 0;  ///< zeros around the image before
};
/// A box of this size at a random place. Throws: ValueError for an image that is smaller.
class RandomCrop : public GeometricTransform {
 public:
  explicit RandomCrop(ImageSize size, const RandomCropOptions& options = {})
      : size_(size), options_(options) {}
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

struct RandomResizedCropOptions {
  double min_scale = 0.08, max_scale = 1;           ///< part of the area
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;  ///< width / height
  ResizeOptions resize = {};
};
/// A random box, resized to this size. Throws: ValueError for ranges that make no sense.
class RandomResizedCrop : public GeometricTransform {
 public:
  explicit RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options = {});
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

/// Mirrored with probability p. Throws: ValueError for one outside of [0, 1].
template <bool Geometry::*kMirror>
class RandomFlip final : public GeometricTransform {
 public:
  explicit RandomFlip(double p = 0.5);
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  double p_;
};
using RandomHorizontalFlip = RandomFlip<&Geometry::hflip>;
using RandomVerticalFlip = RandomFlip<&Geometry::vflip>;

/// Turned by an angle from -degrees to degrees. Throws: ValueError for a negative or infinite one.
class RandomRotation : public GeometricTransform {
 public:
  explicit RandomRotation(double degrees, const RotateOptions& options = {});
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  double degrees_;
};

struct RandomAffineOptions {
  double translate_x = 0, translate_y = 0;  ///< at most, as part of the width and the height
  double min_scale = 1, max_scale = 1;
  double shear_x = 0, shear_y = 0;  ///< degrees at most
  RotateOptions rotate = {};
};
/// data::affine by a random angle from -degrees to degrees, and what the options say. Throws: ValueError for
/// numbers that make no sense.
class RandomAffine : public GeometricTransform {
 public:
  explicit RandomAffine(double degrees, const RandomAffineOptions& options = {});
  [[nodiscard]] Geometry choose(ImageSize size, Random& random) const override;

 private:
  double degrees_;
  RandomAffineOptions options_;
};

struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0;  ///< factors from max(0, 1 - this) to 1 + this
  double hue = 0;                                       ///< from -hue to hue, at most 0.5
};
/// adjust_brightness, adjust_contrast, adjust_saturation and adjust_hue by random factors, in a random order;
/// those of 0 are left out. Throws: ValueError for numbers that make no sense.
class ColorJitter {
 public:
  explicit ColorJitter(const ColorJitterOptions& options);
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;

 private:
  ColorJitterOptions options_;
};

/// data::gaussian_blur with a random sigma. Throws: ValueError for sigmas that are not positive; its call
/// what gaussian_blur throws.
class GaussianBlur {
 public:
  explicit GaussianBlur(ImageSize kernel, double min_sigma = 0.1, double max_sigma = 2);
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;

 private:
  ImageSize kernel_;
  double min_sigma_, max_sigma_;
};

struct RandomErasingOptions {
  double p = 0.5;
  double min_scale = 0.02, max_scale = 0.33;  ///< part of the area
  double min_ratio = 0.3, max_ratio = 3.3;    ///< height / width
  double value = 0;
};
/// With probability p a random box is overwritten. Throws: ValueError for ranges that make no sense.
class RandomErasing {
 public:
  explicit RandomErasing(const RandomErasingOptions& options = {});
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;

 private:
  RandomErasingOptions options_;
};

// --- of a batch of an Example: data [N, ...], labels [N] of integers, or one-hot [N, classes]

/// Each sample mixed with the previous sample: lambda x + (1 - lambda) x', targets likewise, with one lambda
/// of Beta(alpha, alpha) per batch. Targets become f32 [N, classes]. Throws: ValueError for an alpha that is
/// not positive. Source: torchvision.transforms.v2.MixUp; Zhang et al., arXiv:1710.09412.
class MixUp {
 public:
  explicit MixUp(std::int64_t num_classes, double alpha = 1);
  [[nodiscard]] Example operator()(const Example& batch, Random& random) const;

 private:
  std::int64_t num_classes_;
  double alpha_;
};

/// A box of each image comes from the image before it, and targets are mixed by its area.
/// Shapes: data [N, ..., H, W]. Source: torchvision.transforms.v2.CutMix; Yun et al., arXiv:1905.04899.
class CutMix {
 public:
  explicit CutMix(std::int64_t num_classes, double alpha = 1);
  [[nodiscard]] Example operator()(const Example& batch, Random& random) const;

 private:
  std::int64_t num_classes_;
  double alpha_;
};

}  // namespace mezzo::data
