// Functions of images: the work of transforms once their random choices are made. Images are [..., H, W]; one
// function for single images and batches of them, of any dtype unless it says otherwise, on any device.
// Values of integer images are computed in f32, of 32 and 64 bits in f64, and rounded to nearest.
// Source: torchvision.transforms.v2.functional.
#pragma once

#include <cstdint>
#include <optional>
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
/// The box of this size in the middle of an image.
[[nodiscard]] Box center_box(ImageSize image, ImageSize size) noexcept;
/// The middle; where the image is smaller, it is surrounded by 0.
[[nodiscard]] Tensor center_crop(const Tensor& image, ImageSize size);

struct ResizeOptions {
  InterpolateMode mode = InterpolateMode::bilinear;  ///< nearest, nearest_exact, bilinear or bicubic
  bool antialias = true;                             ///< smooth what is shrunk (bilinear, bicubic)
};
/// The image at another size. Throws: ValueError for a size below 1.
[[nodiscard]] Tensor resize(const Tensor& image, ImageSize size, const ResizeOptions& options = {});
/// The size of an image with a shorter edge of `edge` and a longer edge in proportion (rounded down).
[[nodiscard]] ImageSize shorter_edge_size(ImageSize image, std::int64_t edge) noexcept;
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

/// What affine() does to an image, in this order: shears, scales and turns it around its centre, and moves
/// it.
struct Affine {
  double degrees = 0;          ///< clockwise
  double right = 0, down = 0;  ///< in pixels
  double scale = 1;
  double shear_x = 0, shear_y = 0;  ///< degrees
};
/// The image at the same size. Shapes: [C, H, W] or [N, C, H, W]. Throws: ValueError for numbers that are not
/// finite and a scale that is not positive. Source: torchvision's affine, with its centre.
[[nodiscard]] Tensor affine(const Tensor& image, const Affine& by, const RotateOptions& options = {});

/// What becomes of the places of an image, and of the masks and boxes that belong to it: these changes, in
/// this order.
struct Geometry {
  std::optional<Box> crop = {};
  std::optional<ImageSize> size = {};  ///< resized to it
  bool hflip = false, vflip = false;
  std::optional<Affine> affine = {};
};
[[nodiscard]] Tensor transform_image(const Tensor& image, const Geometry& geometry,
                                     const ResizeOptions& resizing = {}, const RotateOptions& turning = {});
/// Boxes of an image of this size, cut off at the edges; what has left the image has an area of 0. Shapes:
/// [N, 4]: left, top, right and bottom edge in pixels. Dtypes: floating (DTypeError).
[[nodiscard]] Tensor transform_boxes(const Tensor& boxes, ImageSize image, const Geometry& geometry);

/// The weighted mean of each place's neighbours, `kernel` high and wide, with weights of a normal
/// distribution; at the edges the image is reflected. Shapes: [..., H, W]. Throws: ValueError for sizes that
/// are not odd or reach beyond the image, and a sigma that is not positive.
[[nodiscard]] Tensor gaussian_blur(const Tensor& image, ImageSize kernel, double sigma);

// Colours. Images [..., C, H, W] of floats from 0 to 1, or of integers from 0 to their largest value, of one
// channel or of red, green and blue (ShapeError). Results are cut off at both ends; integers are rounded
// down.
/// The image times `factor`.
[[nodiscard]] Tensor adjust_brightness(const Tensor& image, double factor);
/// factor * image + (1 - factor) * its mean gray; or its gray, for saturation. Throws: ValueError for a
/// negative factor, as adjust_brightness.
[[nodiscard]] Tensor adjust_contrast(const Tensor& image, double factor);
[[nodiscard]] Tensor adjust_saturation(const Tensor& image, double factor);
/// Hues moved by `factor` of the circle. Throws: ValueError for a factor outside of [-0.5, 0.5].
[[nodiscard]] Tensor adjust_hue(const Tensor& image, double factor);

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
