// Batches of any type: their tensors, and the parts that they are cut into.
#include "mezzo/train/batch.h"

#include "mezzo/core/error.h"
#include "mezzo/ops/shape.h"

namespace mezzo::train {

namespace detail {

void refuse_batch_type(std::string_view op, const std::type_info& wanted, const std::type_info& is) {
  throw ValueError(op, "a batch of type " + nn::detail::type_text(wanted),
                   is == typeid(void) ? std::string("none") : nn::detail::type_text(is),
                   "take the type that the loader gives");
}

}  // namespace detail

void AnyBatch::visit(const data::detail::TensorVisitor& f) const {
  if (defined()) type_->visit(batch_.get(), f);
}

std::optional<std::int64_t> AnyBatch::find_samples() const {
  std::optional<std::int64_t> count;
  visit([&](Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.dim() == 0)
      throw ShapeError("AnyBatch::samples", "tensors with a first dim of samples", "one without dims",
                       "give it a dim of samples");
    if (count && tensor.size(0) != *count)
      throw ShapeError("AnyBatch::samples",
                       "tensors of as many samples as the first, " + std::to_string(*count),
                       std::to_string(tensor.size(0)), "make the first dims of a batch's tensors equal");
    count = tensor.size(0);
  });
  return count;
}

std::int64_t AnyBatch::samples() const {
  const auto count = find_samples();
  if (!count)
    throw ValueError("AnyBatch::samples", "a batch with tensors",
                     defined() ? nn::detail::type_text(type()) : "an empty AnyBatch",
                     "make batches of tensors, Examples, or arrays, pairs and tuples of these");
  return *count;
}

AnyBatch AnyBatch::copy() const {
  if (!defined()) return {};
  return {*type_, type_->copy(batch_.get())};
}

AnyBatch AnyBatch::narrow(std::int64_t begin, std::int64_t length) const {
  const std::int64_t count = samples();
  if (begin < 0 || length < 0 || begin + length > count)
    throw IndexError("AnyBatch::narrow", "samples within 0 ... " + std::to_string(count),
                     std::to_string(begin) + " ... " + std::to_string(begin + length),
                     "name samples of the batch");
  AnyBatch part = copy();
  part.visit([&](Tensor& tensor) {
    if (tensor.defined()) tensor = mezzo::narrow(tensor, 0, begin, length);
  });
  return part;
}

AnyBatch AnyBatch::to(Device device) const {
  bool is_there = true;
  visit([&](Tensor& tensor) { is_there = is_there && (!tensor.defined() || tensor.device() == device); });
  if (is_there) return *this;
  AnyBatch moved = copy();
  moved.visit([&](Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device);
  });
  return moved;
}

std::vector<AnyBatch> microbatches(const AnyBatch& batch, std::int64_t size) {
  if (size < 1)
    throw ValueError("microbatches", "at least 1 sample per part", std::to_string(size),
                     "name a larger size");
  const std::int64_t count = batch.samples();
  if (count <= size) return {batch};
  std::vector<AnyBatch> parts;
  for (std::int64_t begin = 0; begin < count; begin += size)
    parts.push_back(batch.narrow(begin, begin + size < count ? size : count - begin));
  return parts;
}

}  // namespace mezzo::train
