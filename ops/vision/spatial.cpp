// Checks sizes that are given once or per spatial dim, and brings them to one per dim. Windows always get
// three sizes, as kernels take them.
#include "mezzo/ops/spatial.h"

#include <limits>
#include <string>

namespace mezzo::ops {

Dims per_dim(std::string_view op, std::string_view what, const Dims& sizes, std::size_t spatial,
             std::int64_t least) {
  if (sizes.size() != 1 && sizes.size() != spatial) {
    throw ValueError(op, "1 or " + std::to_string(spatial) + " numbers for " + std::string(what),
                     to_string(sizes), "give one for all spatial dims, or one for each");
  }
  constexpr std::int64_t kMost =
      std::numeric_limits<std::int32_t>::max();  // so that sums of them fit in 64 bits
  for (const std::int64_t size : sizes) {
    if (size >= least && size <= kMost) continue;
    throw ValueError(op,
                     std::string(what) + (size < least ? " of at least " : " of at most ") +
                         std::to_string(size < least ? least : kMost),
                     to_string(sizes), "check the arguments");
  }
  return sizes.size() == spatial ? sizes : Dims(spatial, sizes[0]);
}

kernels::Windows::Sizes window_sizes(const Dims& sizes, std::int64_t missing) {
  kernels::Windows::Sizes result{missing, missing, missing};
  for (std::size_t i = 0; i < sizes.size(); ++i) result[result.size() - sizes.size() + i] = sizes[i];
  return result;
}

}  // namespace mezzo::ops
