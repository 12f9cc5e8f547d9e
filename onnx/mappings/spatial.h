// What ops over spatial dims share: one value for all dims, samples without a batch.
#pragma once

#include "mezzo/onnx/mappings/common.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/spatial.h"

namespace mezzo::onnx {

/// The numbers of an attribute, one per spatial dim; a single number is for all.
[[nodiscard]] inline std::vector<std::int64_t> per_dim(const Call& c, std::string_view name,
                                                       std::size_t spatial) {
  const std::vector<std::int64_t> given = c.integers(name);
  const Dims sizes = ops::per_dim(kExport, name, Dims(std::span<const std::int64_t>(given)), spatial, 0);
  return {sizes.begin(), sizes.end()};
}
/// All begins, then all ends.
[[nodiscard]] inline std::vector<std::int64_t> both_sides(std::vector<std::int64_t> pads) {
  const std::vector<std::int64_t> once = pads;
  pads.insert(pads.end(), once.begin(), once.end());
  return pads;
}
[[nodiscard]] inline bool is_sample(const Call& c, std::size_t spatial) {
  return c.in(0).dim() == static_cast<std::int64_t>(spatial) + 1;
}
/// Input 0 [N, C, spatial..]; a single sample as a batch of one.
[[nodiscard]] inline std::string batched(Call& c, std::size_t spatial) {
  const std::string x = operand(c, 0);
  return is_sample(c, spatial) ? c.node("Unsqueeze", {x, c.list(std::vector<std::int64_t>{0})}) : x;
}
/// Sets an output, for a single sample without the batch of one.
inline void set_unbatched(Call& c, std::size_t output, const std::string& y, std::size_t spatial) {
  const bool one = is_sample(c, spatial);
  c.set(output, one ? c.node("Squeeze", {y, c.list(std::vector<std::int64_t>{0})}) : y);
}

}  // namespace mezzo::onnx
