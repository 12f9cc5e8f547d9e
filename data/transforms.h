// Functions that make transforms of samples and batches: f(tensor), or f(tensor, Random&) where chance
// decides. Given to data::transform, or to a loader as its collate, they draw from the sample's or the
// batch's own sequence, whoever runs them.
//   data::transform(dataset, data::Compose(data::RandomCrop(32, {.padding = 4}),
//   data::RandomHorizontalFlip(),
//                                          data::ToDType(DType::f32), data::Normalize({0.5}, {0.25})))
// Source: torchvision.transforms.v2.
#pragma once

#include <cstdint>
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

/// What the functions below make.
using Transform = detail::Function<Tensor(const Tensor& x)>;
using RandomTransform = detail::Function<Tensor(const Tensor& x, Random& random)>;
using BatchTransform = detail::Function<Example(const Example& batch, Random& random)>;

// --- of a sample

/// data::normalize.
[[nodiscard]] Transform Normalize(std::vector<double> mean, std::vector<double> std);

/// data::to_dtype: u8 images become floats of 0 ... 1.
[[nodiscard]] Transform ToDType(DType dtype, bool scale = true);

/// mezzo::one_hot. Throws: IndexError for a label outside of [0, num_classes).
[[nodiscard]] Transform OneHot(std::int64_t num_classes);

/// data::resize to a size, or with one number to that length of the shorter edge.
[[nodiscard]] Transform Resize(std::int64_t edge, const ResizeOptions& options = {});
[[nodiscard]] Transform Resize(ImageSize size, const ResizeOptions& options = {});

/// data::center_crop.
[[nodiscard]] Transform CenterCrop(ImageSize size);

struct RandomCropOptions {
  std::int64_t padding = 0;  ///< zeros around the image before
};
/// A box of this size at a random place. Throws: ValueError for an image that is smaller.
[[nodiscard]] RandomTransform RandomCrop(ImageSize size, const RandomCropOptions& options = {});

struct RandomResizedCropOptions {
  double min_scale = 0.08, max_scale = 1;           ///< part of the area
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;  ///< width / height
  ResizeOptions resize = {};
};
/// A random box, resized to this size. Throws: ValueError for ranges that make no sense.
[[nodiscard]] RandomTransform RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options = {});

/// Mirrored with probability p. Throws: ValueError for one outside of [0, 1].
[[nodiscard]] RandomTransform RandomHorizontalFlip(double p = 0.5);
[[nodiscard]] RandomTransform RandomVerticalFlip(double p = 0.5);

/// Turned by an angle from -degrees to degrees. Throws: ValueError for a negative or infinite one.
[[nodiscard]] RandomTransform RandomRotation(double degrees, const RotateOptions& options = {});

struct RandomErasingOptions {
  double p = 0.5;
  double min_scale = 0.02, max_scale = 0.33;  ///< part of the area
  double min_ratio = 0.3, max_ratio = 3.3;    ///< height / width
  double value = 0;
};
/// With probability p a random box is overwritten. Throws: ValueError for ranges that make no sense.
[[nodiscard]] RandomTransform RandomErasing(const RandomErasingOptions& options = {});

// --- of a batch of an Example: data [N, ...], labels [N] of integers, or one-hot [N, classes]

/// Each sample mixed with the previous sample: lambda x + (1 - lambda) x', targets likewise, with one lambda
/// of Beta(alpha, alpha) per batch. Targets become f32 [N, classes]. Throws: ValueError for an alpha that is
/// not positive. Source: torchvision.transforms.v2.MixUp; Zhang et al., arXiv:1710.09412.
[[nodiscard]] BatchTransform MixUp(std::int64_t num_classes, double alpha = 1);

/// A box of each image comes from the image before it, and targets are mixed by its area.
/// Shapes: data [N, ..., H, W]. Source: torchvision.transforms.v2.CutMix; Yun et al., arXiv:1905.04899.
[[nodiscard]] BatchTransform CutMix(std::int64_t num_classes, double alpha = 1);

}  // namespace mezzo::data
