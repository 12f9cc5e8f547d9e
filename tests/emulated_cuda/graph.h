// Captured work: nodes with the nodes that come before them.
#pragma once

#include <cstddef>
#include <vector>

#include "streams.h"

struct CUgraph_st {
  struct Node {
    emulated_cuda::TaskPtr task;
    std::vector<std::size_t> before;
  };
  std::vector<Node> nodes;
};

struct CUgraphExec_st {
  std::vector<emulated_cuda::TaskPtr> tasks;  ///< in the order in which they run
};

namespace emulated_cuda {

/// An order that the edges of the graph allow, and of those the one that runs late nodes early: if an edge is
/// missing, results are wrong.
std::vector<TaskPtr> run_order(const CUgraph_st& graph);

}  // namespace emulated_cuda
