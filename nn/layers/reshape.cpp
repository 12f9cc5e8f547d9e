// Flatten and Unflatten. A size of -1 in Unflatten is worked out from the input of each call.
#include "mezzo/nn/reshape.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/ops/shape.h"

namespace mezzo::nn {

Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_dim_, end_dim_); }

std::string Flatten::extra_repr() const {
  return "start_dim=" + std::to_string(start_dim_) + ", end_dim=" + std::to_string(end_dim_);
}

Unflatten::Unflatten(std::int64_t dim, const Shape& unflattened_size) : dim_(dim), sizes_(unflattened_size) {
  const bool negative =
      std::any_of(sizes_.begin(), sizes_.end(), [](std::int64_t size) { return size < -1; });
  if (!sizes_.empty() && !negative && std::count(sizes_.begin(), sizes_.end(), -1) <= 1) return;
  throw ValueError("Unflatten", "at least one size, none negative but for one -1", to_string(sizes_),
                   "-1 stands for what the others leave");
}

Tensor Unflatten::forward(const Tensor& x) {
  if (!x.defined()) return reshape(x, sizes_);  // which refuses it
  Shape shape = x.shape();
  const auto at = static_cast<std::size_t>(layout::wrap_dim(described(), dim_, shape.size()));
  const Shape parts = layout::resolve_reshape(described(), x.dim() == 0 ? 1 : shape[at], sizes_);
  if (!shape.empty()) shape.erase(at);
  for (std::size_t i = 0; i < parts.size(); ++i) shape.insert(at + i, parts[i]);
  return reshape(x, shape);
}

std::string Unflatten::extra_repr() const {
  return "dim=" + std::to_string(dim_) + ", unflattened_size=" + to_string(sizes_);
}

}  // namespace mezzo::nn
