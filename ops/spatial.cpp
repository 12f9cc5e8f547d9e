#include "mezzo/ops/spatial.h"

#include <string>

namespace mezzo::ops {

Dims per_dim(std::string_view op, std::string_view what, const Dims& sizes, std::size_t spatial,
             std::int64_t least) {
  if (sizes.size() != 1 && sizes.size() != spatial) {
    throw ValueError(op, "1 or " + std::to_string(spatial) + " numbers for " + std::string(what),
                     to_string(sizes), "give one for all spatial dims, or one for each");
  }
  for (const std::int64_t size : sizes) {
    if (size >= least) continue;
    throw ValueError(op, std::string(what) + " of at least " + std::to_string(least), to_string(sizes),
                     "check the arguments");
  }
  return sizes.size() == spatial ? sizes : Dims(spatial, sizes[0]);
}

kernels::Windows::Sizes window_sizes(const Dims& sizes, std::int64_t missing) {
  kernels::Windows::Sizes result{missing, missing, missing};
  for (std::size_t i = 0; i < sizes.size(); ++i) result[result.size() - sizes.size() + i] = sizes[i];
  return result;
}

}  // namespace mezzo::ops
