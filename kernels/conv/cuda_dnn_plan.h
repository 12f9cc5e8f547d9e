// An operation graph of one convolution in cuDNN, and the plans that cuDNN has for it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "mezzo/kernels/conv/conv.h"
#include "mezzo/kernels/cuda/vendor/dnn.h"

#if MEZZO_HAVE_CUDNN

namespace mezzo::kernels::cuda {

/// A map as cuDNN is told of it: all that decides a plan on a device.
struct DnnProblem {
  ConvMap map;
  DType operands, result;
  std::int64_t batch, in_channels, out_channels, groups;
  bool channels_last;  ///< then the weight lies so too: output channels, kernel positions, input channels
  Windows windows;
  /// Divisors of the addresses of x, weight and y.
  std::array<std::int64_t, 3> alignment;
  bool accumulate;  ///< the result is added to what is there
  bool tf32;
};

/// Descriptors of the graph; they live as long as plans made of it.
class DnnGraph {
 public:
  /// Throws DnnRefusal.
  DnnGraph(const DnnProblem& problem, cudnnHandle_t handle);
  [[nodiscard]] const DnnDescriptor& get() const { return graph_; }

 private:
  DnnDescriptor x_, weight_, y_, convolution_, operation_, graph_;
};

/// The ids of x, weight and y in a graph.
inline constexpr std::int64_t kDnnIds[] = {1, 2, 3};

/// A plan that can run.
struct DnnPlan {
  DnnDescriptor config, plan;
  std::int64_t workspace;  ///< bytes
};

/// Up to `wanted` plans for the graph, best first as cuDNN's heuristics has them: those with the bits of
/// every run and the error bound of kernels/conv/conv.h, and with a workspace within the limit. Throws
/// DnnRefusal.
[[nodiscard]] std::vector<DnnPlan> dnn_plans(const DnnProblem& problem, const DnnGraph& graph,
                                             cudnnHandle_t handle, std::size_t wanted);

/// Number of the plan's engine in cuDNN, "?" where it does not say.
[[nodiscard]] std::string engine_of(const DnnPlan& plan);

/// Bytes of workspace that a plan may take; 1 GiB at first. For tests.
[[nodiscard]] std::int64_t dnn_workspace_limit();
void set_dnn_workspace_limit(std::int64_t bytes);

}  // namespace mezzo::kernels::cuda
#endif
