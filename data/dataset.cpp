// The checks of data sets, and how random_split divides one.
#include "mezzo/data/dataset.h"

#include <cmath>
#include <cstdint>

#include "mezzo/core/error.h"
#include "mezzo/data/sampler.h"

namespace mezzo::data::detail {

void require_index(std::string_view op, std::int64_t index, std::int64_t size, std::string_view fix) {
  if (index >= 0 && index < size) return;
  throw IndexError(op, size == 0 ? "samples" : "an index from 0 to " + std::to_string(size - 1),
                   size == 0 ? "an empty data set" : std::to_string(index), fix);
}

void check_tensors(std::span<const Tensor> tensors) {
  constexpr const char* kOp = "TensorDataset";
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) throw ValueError(kOp, "defined tensors", "an undefined one", "");
    if (tensor.dim() == 0)
      throw ValueError(kOp, "tensors whose first dim counts samples", "one of shape []", "reshape it");
    if (tensor.size(0) != tensors[0].size(0)) {
      throw ValueError(kOp, "as many samples in each tensor, " + std::to_string(tensors[0].size(0)),
                       std::to_string(tensor.size(0)), "cut the longer one");
    }
  }
}

std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, std::span<const double> lengths,
                                                     std::uint64_t seed) {
  constexpr const char* kOp = "random_split";
  double sum = 0;
  for (const double length : lengths) {
    if (!(length >= 0)) throw ValueError(kOp, "lengths of at least 0", number_text(length), "");
    sum += length;
  }
  std::vector<std::int64_t> counts;
  std::int64_t used = 0;
  const bool are_shares = std::abs(sum - 1) < 1e-6 && (size != 1 || lengths.size() > 1);
  for (const double length : lengths) {
    counts.push_back(
        static_cast<std::int64_t>(are_shares ? std::floor(length * static_cast<double>(size)) : length));
    used += counts.back();
  }
  for (std::size_t i = 0; are_shares && used < size; i = (i + 1) % counts.size(), ++used) ++counts[i];
  if (used != size || (!are_shares && sum != static_cast<double>(size))) {
    throw ValueError(kOp, "lengths that add up to " + std::to_string(size) + ", or shares that add up to 1",
                     number_text(sum), "");
  }
  const Order order = RandomSampler(size, {.seed = seed}).order(0);
  std::vector<std::vector<std::int64_t>> parts;
  std::int64_t position = 0;
  for (const std::int64_t count : counts) {
    std::vector<std::int64_t>& part = parts.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) part.push_back(order[position++]);
  }
  return parts;
}

}  // namespace mezzo::data::detail
