// The checks of data/iterable.h.
#include "mezzo/data/iterable.h"

#include <string>

#include "mezzo/core/error.h"

namespace mezzo::data::detail {

void require_rank(std::int64_t rank, std::int64_t num_replicas) {
  if (num_replicas >= 1 && rank >= 0 && rank < num_replicas) return;
  throw ValueError("shard", "a rank from 0 to num_replicas - 1",
                   "rank " + std::to_string(rank) + " of " + std::to_string(num_replicas),
                   "count ranks from 0");
}

}  // namespace mezzo::data::detail
