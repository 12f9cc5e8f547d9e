// ShardedOptimizer: an optimizer whose state, f32 masters included, is cut among the ranks (ZeRO-1).
//   dist::DataParallel parallel(net);
//   dist::ShardedOptimizer<optim::AdamW> optimizer(parallel, {.lr = 1e-3});
// Each rank gets the reduced gradients of its shard only (a reduce-scatter), updates it, and gathers the
// parameters that the others have updated. The loop stays as it is.
#pragma once

#include <vector>

#include "mezzo/dist/data_parallel.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::dist {

// (to be written)

}  // namespace mezzo::dist
