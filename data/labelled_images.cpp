// Images and labels as two tensors. Rows are copied and not shown as views: a transform that writes in place
// must not change the data set.
#include "mezzo/data/labelled_images.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/dataset.h"
#include "mezzo/ops/cast.h"

namespace mezzo::data {

LabelledImages::LabelledImages(std::string name, const Tensor& images, const Tensor& labels,
                               std::vector<std::string> classes)
    : name_(std::move(name)), classes_(std::move(classes)) {
  if (images.dim() != 4 || labels.dim() != 1 || images.size(0) != labels.size(0)) {
    throw ShapeError(name_, "images [N, C, H, W] and labels [N]",
                     to_string(images.shape()) + " and " + to_string(labels.shape()), "");
  }
  if (images.dtype() != DType::u8 || labels.dtype() != DType::i64) {
    throw DTypeError(
        name_, "images of u8 and labels of i64",
        std::string(info(images.dtype()).name) + " and " + std::string(info(labels.dtype()).name),
        "convert them with to(dtype)");
  }
  if (!images.device().is_cpu() || !labels.device().is_cpu())
    throw DeviceError(name_, "tensors on the CPU", "one elsewhere", "move it with cpu()");
  images_ = images.detach().contiguous();
  labels_ = labels.detach().contiguous();
}

Example LabelledImages::get(std::int64_t index) const {
  detail::require_index(name_, index, size());
  return {clone(images_.select(0, index)), clone(labels_.select(0, index))};
}

Example LabelledImages::get_batch(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) detail::require_index(name_, index, size());
  return {gather_samples(images_, indices), gather_samples(labels_, indices)};
}

}  // namespace mezzo::data
