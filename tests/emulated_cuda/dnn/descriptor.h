// Descriptors of the emulated cuDNN: attributes as they were set, and what finalizing made of them.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "emulated_cuda/dnn.h"

struct cudnnContext {
  int device;
  cudaStream_t stream = nullptr;
};

namespace emulated_cuda::dnn_library {

struct Descriptor;
using Handle = std::shared_ptr<Descriptor>;

/// Values of an attribute: their bytes, or the descriptors that they were.
struct Value {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<std::byte> bytes;
  std::vector<Handle> descriptors;

  template <class T>
  [[nodiscard]] std::vector<T> as() const {
    const T* const first = reinterpret_cast<const T*>(bytes.data());
    return {first, first + count};
  }
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Value> values = {};
  int engine = -1;         ///< of engines, their configurations and plans
  Handle graph = nullptr;  ///< of the same

  [[nodiscard]] bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  template <class T>
  [[nodiscard]] T one(cudnnBackendAttributeName_t name) const {
    return values.at(name).as<T>().front();
  }
  [[nodiscard]] std::vector<std::int64_t> list(cudnnBackendAttributeName_t name) const {
    return values.at(name).as<std::int64_t>();
  }
  [[nodiscard]] const Descriptor& descriptor(cudnnBackendAttributeName_t name) const {
    return *values.at(name).descriptors.front();
  }
};

/// The descriptor behind what a caller holds; null unless it was made and not destroyed.
[[nodiscard]] Handle find(cudnnBackendDescriptor_t raw);
[[nodiscard]] bool is_live(cudnnHandle_t handle);

/// What attributes a descriptor can be given.
struct Rule {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t most;  ///< values
  bool required;
};
[[nodiscard]] std::span<const Rule> rules(cudnnBackendDescriptorType_t type);

/// Whether the values of a descriptor that has all it needs go together.
[[nodiscard]] cudnnStatus_t judge(Descriptor& descriptor);

/// An operation's attributes, whatever map it is.
struct Operation {
  cudnnBackendAttributeName_t convolution, x, weight, y, alpha, beta;
};
[[nodiscard]] const Operation* operation_of(cudnnBackendDescriptorType_t type);
/// The operation of a graph.
[[nodiscard]] inline const Descriptor& only_operation(const Descriptor& graph) {
  return graph.descriptor(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

[[nodiscard]] std::vector<cudnnBackendNumericalNote_t> notes_of(int engine);
[[nodiscard]] std::int64_t workspace_of(int engine);
/// The engines that a finalized heuristic has, best first.
[[nodiscard]] std::vector<int> engines_of(const Descriptor& heuristic);

/// A map in device memory: what a task needs.
struct Task {
  cudnnBackendDescriptorType_t map;
  int engine;
  int milliseconds;  ///< to wait
  /// Of x, weight and y.
  std::vector<std::int64_t> sizes[3], strides[3];
  cudnnDataType_t types[3];
  void* data[3];
  std::vector<std::int64_t> stride, dilation, padding;
  double alpha, beta;
  void* workspace;
  std::int64_t workspace_bytes;
  bool captured = false;
  std::weak_ptr<const Descriptor> plan = {};
};
/// Computes it, on the host's stack, in device memory.
void compute(const Task& task);

}  // namespace emulated_cuda::dnn_library
