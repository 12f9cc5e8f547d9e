// Stacking by copies of bytes where samples lie on the CPU row by row, by the op otherwise.
#include "mezzo/data/collate.h"

#include <cstring>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/shape.h"

namespace mezzo::data {

namespace {

/// Copies of a size that is known where it is compiled: a few instructions, where memcpy is a call.
template <std::size_t N>
void copy_fixed(std::byte* to, std::span<const std::byte* const> from) {
  for (std::size_t i = 0; i < from.size(); ++i) std::memcpy(to + i * N, from[i], N);
}

/// Rows of `bytes` bytes, one behind the other.
void copy_rows(std::byte* to, std::span<const std::byte* const> from, std::size_t bytes) {
  if (bytes == 4) return copy_fixed<4>(to, from);
  if (bytes == 8) return copy_fixed<8>(to, from);
  for (std::size_t i = 0; i < from.size() && bytes > 0; ++i) std::memcpy(to + i * bytes, from[i], bytes);
}

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel() * size_of(tensor.dtype()));
}

void check_alike(const Tensor& first, const Tensor& other, std::size_t i) {
  constexpr const char* kOp = "collate";
  if (!other.defined())
    throw ValueError(kOp, "samples that are tensors", "an undefined one at " + std::to_string(i), "");
  if (other.shape() != first.shape()) {
    throw ShapeError(kOp, "samples of one shape, " + to_string(first.shape()) + " as the first of the batch",
                     to_string(other.shape()) + " at " + std::to_string(i),
                     "bring them to one size, or give the loader a collate of your own");
  }
  if (other.dtype() != first.dtype()) {
    throw DTypeError(kOp, "samples of one dtype, " + to_string(first.dtype()) + " as the first of the batch",
                     to_string(other.dtype()) + " at " + std::to_string(i), "convert them in the data set");
  }
}

Shape batch_shape(std::size_t count, const Shape& sample, std::size_t skipped) {
  Shape shape{static_cast<std::int64_t>(count)};
  for (std::size_t d = skipped; d < sample.size(); ++d) shape.push_back(sample[d]);
  return shape;
}

}  // namespace

Tensor stack_samples(std::span<const Tensor* const> samples) {
  if (samples.empty()) throw ValueError("collate", "at least one sample", "none", "");
  const Tensor& first = *samples.front();
  bool plain = true;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    check_alike(samples[0]->defined() ? first : Tensor(), *samples[i], i);
    plain = plain && samples[i]->device().is_cpu() && samples[i]->is_contiguous();
  }
  if (!plain) {
    const NoGrad no_grad;
    std::vector<Tensor> tensors;
    for (const Tensor* sample : samples) tensors.push_back(*sample);
    return stack(tensors);
  }
  Tensor batch = empty(batch_shape(samples.size(), first.shape(), 0), {.dtype = first.dtype()});
  std::vector<const std::byte*> rows(samples.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<const std::byte*>(samples[i]->impl().data());
  copy_rows(static_cast<std::byte*>(batch.impl().data()), rows, bytes_of(first));
  return batch;
}

Tensor gather_samples(const Tensor& source, std::span<const std::int64_t> indices) {
  const std::int64_t size = source.size(0);
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < size) continue;
    throw IndexError("TensorDataset.get_batch", "indices from 0 to " + std::to_string(size - 1),
                     std::to_string(index), "");
  }
  if (!source.device().is_cpu() || !source.is_contiguous()) {
    const NoGrad no_grad;
    return index_select(source, 0, tensor(std::vector(indices.begin(), indices.end())).to(source.device()));
  }
  Tensor batch = empty(batch_shape(indices.size(), source.shape(), 1), {.dtype = source.dtype()});
  const std::size_t bytes = size == 0 ? 0 : bytes_of(source) / static_cast<std::size_t>(size);
  std::vector<const std::byte*> rows(indices.size());
  const auto* const begin = static_cast<const std::byte*>(source.impl().data());
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = begin + static_cast<std::size_t>(indices[i]) * bytes;
  copy_rows(static_cast<std::byte*>(batch.impl().data()), rows, bytes);
  return batch;
}

Tensor detail::numbers_tensor(const std::vector<std::int64_t>& values, bool are_bools) {
  const Tensor numbers = tensor(values);
  return are_bools ? numbers.to(DType::boolean) : numbers;
}

Tensor detail::numbers_tensor(const std::vector<double>& values, DType dtype) {
  return tensor(values, {.dtype = dtype});
}

void detail::drop_samples(Tensor& tensor) {
  if (!tensor.defined()) return;
  if (tensor.dim() == 0) {
    throw ShapeError("DataLoader", "tensors with a first dim of samples, of which a share may be empty",
                     "one without dims", "give it a dim of samples, or use drop_last");
  }
  tensor = narrow(tensor, 0, 0, 0);
}

}  // namespace mezzo::data
