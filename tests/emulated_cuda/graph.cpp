// Executable graphs: instantiation, launch, destruction.
#include "graph.h"

#include <queue>

#include "capture.h"
#include "runtime.h"

namespace emulated_cuda {

std::vector<TaskPtr> run_order(const CUgraph_st& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::size_t> missing(count);
  std::vector<std::vector<std::size_t>> after(count);
  std::priority_queue<std::size_t> ready;
  for (std::size_t i = 0; i < count; ++i) {
    missing[i] = graph.nodes[i].before.size();
    for (const std::size_t node : graph.nodes[i].before) after[node].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<TaskPtr> tasks;
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    tasks.push_back(graph.nodes[node].task);
    for (const std::size_t next : after[node]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  return tasks;
}

}  // namespace emulated_cuda

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call([&] {
    if (nodes != nullptr) return cudaErrorNotSupported;
    if (count == nullptr || !(runtime().graphs.contains(graph) || is_captured(graph)))
      return cudaErrorInvalidValue;
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return call([&] {
    if (flags != 0) return cudaErrorNotSupported;
    if (executable == nullptr || !runtime().graphs.contains(graph)) return cudaErrorInvalidValue;
    auto made = std::make_unique<CUgraphExec_st>();
    made->tasks = run_order(*graph);
    *executable = made.get();
    runtime().executables.emplace(made.get(), std::move(made));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    if (!runtime().executables.contains(executable)) return cudaErrorInvalidValue;
    if (target->capture != nullptr) return cudaErrorNotSupported;
    for (const TaskPtr& task : executable->tasks) {
      if (const cudaError_t error = submit(target, task); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] { return runtime().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call(
      [&] { return runtime().executables.erase(executable) == 1 ? cudaSuccess : cudaErrorInvalidValue; });
}
