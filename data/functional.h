// Functions of images: the work of transforms once their random choices are made. Images are [..., H, W]; one
// function for single images and batches of them, of any dtype unless it says otherwise, on any device.
// Values of integer images are computed in f32, of 32 and 64 bits in f64, and rounded to nearest.
// Source: torchvision.transforms.v2.functional.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/dims.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/scalar.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/sampling.h"

namespace mezzo::data {

/// Height and width; one number is both.
struct ImageSize {
  std::int64_t height = 0, width = 0;
  constexpr ImageSize(std::int64_t both) : height(both), width(both) {}
  constexpr ImageSize(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};

/// A box of an image: rows top ... top + height - 1.
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Mirrored left to right; upside down.
[[nodiscard]] Tensor hflip(const Tensor& image);
[[nodiscard]] Tensor vflip(const Tensor& image);

/// The box; what of it lies outside of the image is 0. Throws: ValueError for a box of negative size.
[[nodiscard]] Tensor crop(const Tensor& image, const Box& box);
/// The middle; where the image is smaller, it is surrounded by 0.
[[nodiscard]] Tensor center_crop(const Tensor& image, ImageSize size);

struct ResizeOptions {
  InterpolateMode mode = InterpolateMode::bilinear;  ///< nearest, nearest_exact, bilinear or bicubic
  bool antialias = true;                             ///< smooth what is shrunk (bilinear, bicubic)
};
/// The image at another size. Throws: ValueError for a size below 1.
[[nodiscard]] Tensor resize(const Tensor& image, ImageSize size, const ResizeOptions& options = {});
/// The image resized to a shorter edge of `edge` and a longer edge in proportion (rounded down).
[[nodiscard]] Tensor resize_shorter_edge(const Tensor& image, std::int64_t edge,
                                         const ResizeOptions& options = {});

struct RotateOptions {
  GridSampleMode mode = GridSampleMode::nearest;
  double fill = 0;  ///< outside of the image
};
/// Turned around its centre by `degrees`, counter-clockwise, at the same size. (torchvision's bilinear weighs
/// pixels at the edge twice where a fill is given.) Shapes: [C, H, W] or [N, C, H, W].
[[nodiscard]] Tensor rotate(const Tensor& image, double degrees, const RotateOptions& options = {});

/// With `value` in the box. Throws: ValueError for a box that is not in the image.
[[nodiscard]] Tensor erase(const Tensor& image, const Box& box, double value = 0);

/// (image - mean) / std per channel. Shapes: [..., C, H, W], one number per channel or one for all.
/// Dtypes: floating. Throws: ValueError for a std of 0 and other numbers of channels.
[[nodiscard]] Tensor normalize(const Tensor& image, const std::vector<double>& mean,
                               const std::vector<double>& std);

/// The image in another dtype. With `scale` integers of 0 ... their largest value become floats of 0 ... 1,
/// and the other way round (rounded down, so that each integer has as large a share).
[[nodiscard]] Tensor to_dtype(const Tensor& image, DType dtype, bool scale = true);

/// Of images their height and width. Throws: ShapeError, in the name of `op`, for fewer than two dims.
[[nodiscard]] ImageSize image_size(const char* op, const Tensor& image);

}  // namespace mezzo::data
