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
class Resize {
 public:
  explicit Resize(std::int64_t edge, const ResizeOptions& options = {}) : edge_(edge), options_(options) {}
  explicit Resize(ImageSize size, const ResizeOptions& options = {}) : size_(size), options_(options) {}
  [[nodiscard]] Tensor operator()(const Tensor& image) const;

 private:
  std::int64_t edge_ = 0;
  std::optional<ImageSize> size_;
  ResizeOptions options_;
};

class CenterCrop {
 public:
  explicit CenterCrop(ImageSize size) : size_(size) {}
  [[nodiscard]] Tensor operator()(const Tensor& image) const { return center_crop(image, size_); }

 private:
  ImageSize size_;
};

struct RandomCropOptions {
  std::int64_t padding = 0;  ///< zeros around the image before
};
/// A box of this size at a random place. Throws: ValueError for an image that is smaller.
class RandomCrop {
 public:
  explicit RandomCrop(ImageSize size, const RandomCropOptions& options = {})
      : size_(size), options_(options) {}
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;

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
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options = {});
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

/// Mirrored with probability p. Throws: ValueError for one outside of [0, 1].
template <Tensor (*kMirror)(const Tensor&)>
class RandomFlip {
 public:
  explicit RandomFlip(double p = 0.5);
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const {
    return random.bernoulli(p_) ? kMirror(image) : image;
  }

 private:
  double p_;
};
using RandomHorizontalFlip = RandomFlip<hflip>;
using RandomVerticalFlip = RandomFlip<vflip>;

/// Turned by an angle from -degrees to degrees. Throws: ValueError for a negative or infinite one.
class RandomRotation {
 public:
  explicit RandomRotation(double degrees, const RotateOptions& options = {});
  [[nodiscard]] Tensor operator()(const Tensor& image, Random& random) const;

 private:
  double degrees_;
  RotateOptions options_;
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
