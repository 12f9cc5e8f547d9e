// How the emulated cuDNN's descriptors are made, filled and read.
#include "descriptor.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

namespace emulated_cuda::dnn_library {
namespace {

/// What callers hold. Never destroyed: mezzo keeps handles and plans to the end of the process.
struct Live {
  std::mutex mutex;
  std::map<cudnnBackendDescriptor_t, Handle> descriptors;
  std::set<cudnnHandle_t> handles;
};
Live& live() {
  static auto* const all = new Live;
  return *all;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

/// cuDNN takes a convolution's factors as float or double.
bool takes(const Rule& rule, cudnnBackendAttributeType_t type) {
  return type == rule.type || (rule.type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
}

cudnnStatus_t assign(Descriptor& descriptor, const Rule& rule, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  if (!takes(rule, type) || count <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (count > rule.most) return CUDNN_STATUS_NOT_SUPPORTED;
  Value value{type, count, {}, {}};
  const auto* const bytes = static_cast<const std::byte*>(values);
  value.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (const cudnnBackendDescriptor_t raw : value.as<cudnnBackendDescriptor_t>()) {
      const Handle other = find(raw);
      if (other == nullptr) return CUDNN_STATUS_BAD_PARAM;
      if (!other->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      value.descriptors.push_back(other);
    }
  }
  if (type == CUDNN_TYPE_HANDLE && !is_live(value.as<cudnnHandle_t>().front()))
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  descriptor.values.insert_or_assign(rule.name, std::move(value));
  return CUDNN_STATUS_SUCCESS;
}

/// Fills the caller's descriptor with an engine of the same graph.
cudnnStatus_t fill(cudnnBackendDescriptor_t raw, cudnnBackendDescriptorType_t type, int engine,
                   const Handle& graph) {
  const Handle target = find(raw);
  if (target == nullptr || target->type != type || target->finalized) return CUDNN_STATUS_BAD_PARAM;
  target->engine = engine, target->graph = graph, target->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_configs(const Descriptor& heuristic, std::int64_t wanted, std::int64_t* count,
                          void* values) {
  const std::vector<int> engines = engines_of(heuristic);
  const auto all = static_cast<std::int64_t>(engines.size());
  *count = values == nullptr ? all : std::min(wanted, all);
  for (std::int64_t i = 0; values != nullptr && i < *count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Handle& graph = heuristic.values.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).descriptors.front();
    const cudnnStatus_t status = fill(static_cast<cudnnBackendDescriptor_t*>(values)[at],
                                      CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, engines[at], graph);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_notes(const Descriptor& engine, std::int64_t wanted, std::int64_t* count, void* values) {
  const std::vector<cudnnBackendNumericalNote_t> notes = notes_of(engine.engine);
  *count = std::min(wanted, static_cast<std::int64_t>(notes.size()));
  if (values != nullptr)
    std::copy_n(notes.begin(), *count, static_cast<cudnnBackendNumericalNote_t*>(values));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

Handle find(cudnnBackendDescriptor_t raw) {
  const std::scoped_lock lock(live().mutex);
  const auto found = live().descriptors.find(raw);
  return found == live().descriptors.end() ? nullptr : found->second;
}
bool is_live(cudnnHandle_t handle) {
  const std::scoped_lock lock(live().mutex);
  return live().handles.contains(handle);
}

}  // namespace emulated_cuda::dnn_library

using namespace emulated_cuda::dnn_library;  // the functions below have cuDNN's names, in no namespace

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  // The real one takes memory of the device, which a capture forbids.
  void* memory = nullptr;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaMalloc(&memory, 1) != cudaSuccess)
    return CUDNN_STATUS_NOT_INITIALIZED;
  static_cast<void>(cudaFree(memory));
  *handle = new cudnnContext{device};
  const std::scoped_lock lock(live().mutex);
  live().handles.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!is_live(handle)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const auto made = std::make_shared<Descriptor>(Descriptor{type});
  *descriptor = made.get();
  const std::scoped_lock lock(live().mutex);
  live().descriptors.emplace(*descriptor, made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::scoped_lock lock(live().mutex);
  return live().descriptors.erase(descriptor) == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const Handle found = find(descriptor);
  if (found == nullptr || found->finalized) return CUDNN_STATUS_BAD_PARAM;
  const auto known = rules(found->type);
  if (known.empty()) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool complete = std::all_of(
      known.begin(), known.end(), [&](const Rule& rule) { return !rule.required || found->has(rule.name); });
  if (!complete) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = judge(*found);
  found->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  const Handle found = find(descriptor);
  if (found == nullptr || found->finalized) return CUDNN_STATUS_BAD_PARAM;
  if (values == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  for (const Rule& rule : rules(found->type))
    if (rule.name == name) return assign(*found, rule, type, count, values);
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t wanted,
                                       std::int64_t* count, void* values) {
  const Handle found = find(descriptor);
  if (found == nullptr || count == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (!found->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const auto is = [&](cudnnBackendDescriptorType_t of, cudnnBackendAttributeName_t attribute,
                      cudnnBackendAttributeType_t as) {
    return found->type == of && name == attribute && type == as;
  };
  if (is(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR))
    return get_configs(*found, wanted, count, values);
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE))
    return get_notes(*found, wanted, count, values);
  if (values == nullptr || wanted < 1) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  *count = 1;
  if (is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR))
    return fill(*static_cast<cudnnBackendDescriptor_t*>(values), CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                found->engine, found->graph);
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64)) {
    *static_cast<std::int64_t*>(values) = found->engine;
    return CUDNN_STATUS_SUCCESS;
  }
  if (!is(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
          CUDNN_TYPE_INT64))
    return CUDNN_STATUS_BAD_PARAM;
  *static_cast<std::int64_t*>(values) = workspace_of(found->engine);
  return CUDNN_STATUS_SUCCESS;
}
