// The execution of a plan of the emulated cuDNN: every check that the call can make, then the work in the
// stream's order.
#include <algorithm>
#include <cstring>
#include <string>

#include "descriptor.h"
#include "emulated_cuda/control.h"
#include "emulated_cuda/dnn.h"
#include "emulated_cuda/ledger.h"

namespace emulated_cuda::dnn_library {
namespace {

bool on_device(const void* data) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, data) == cudaSuccess &&
         attributes.type == cudaMemoryTypeDevice;
}

double factor(const Value& value) {
  return value.type == CUDNN_TYPE_DOUBLE ? value.as<double>().front() : value.as<float>().front();
}

/// The array that the pack has for a tensor, in `data`.
cudnnStatus_t find_array(const Descriptor& tensor, const Descriptor& pack, void*& data) {
  const auto ids = pack.list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).as<void*>();
  const auto found = std::find(ids.begin(), ids.end(), tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
  if (found == ids.end()) return CUDNN_STATUS_BAD_PARAM;
  data = pointers[static_cast<std::size_t>(found - ids.begin())];
  if (!on_device(data)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const auto alignment =
      static_cast<std::uintptr_t>(tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0 ? CUDNN_STATUS_SUCCESS
                                                                 : CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
}

cudnnStatus_t make_task(const Descriptor& plan, const Descriptor& pack, Task& task) {
  const Descriptor& operation = only_operation(*plan.graph);
  const Operation& o = *operation_of(operation.type);
  const Descriptor& conv = operation.descriptor(o.convolution);
  task.map = operation.type, task.engine = plan.engine;
  const cudnnBackendAttributeName_t names[] = {o.x, o.weight, o.y};
  for (std::size_t i = 0; i < 3; ++i) {
    const Descriptor& tensor = operation.descriptor(names[i]);
    task.sizes[i] = tensor.list(CUDNN_ATTR_TENSOR_DIMENSIONS);
    task.strides[i] = tensor.list(CUDNN_ATTR_TENSOR_STRIDES);
    task.types[i] = tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    const cudnnStatus_t status = find_array(tensor, pack, task.data[i]);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  task.stride = conv.list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  task.dilation = conv.list(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  task.padding = conv.list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  task.alpha = factor(operation.values.at(o.alpha)), task.beta = factor(operation.values.at(o.beta));
  task.workspace_bytes = workspace_of(plan.engine);
  task.workspace = nullptr;
  if (task.workspace_bytes == 0) return CUDNN_STATUS_SUCCESS;
  if (pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
    task.workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  return on_device(task.workspace) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
}

std::uint64_t elements_of(const std::vector<std::int64_t>& sizes) {
  std::uint64_t count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<std::uint64_t>(size);
  return count;
}

std::uint64_t bytes_of(const Task& task, std::size_t array) {
  const cudnnDataType_t type = task.types[array];
  const std::uint64_t size = type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
  return elements_of(task.sizes[array]) * size;
}

Product product_of(const Task& task) {
  enum : std::size_t { kX, kWeight, kY };
  const bool forward = task.map == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool of_input = task.map == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const std::size_t result = forward ? kY : of_input ? kX : kWeight;
  std::uint64_t read = 0;
  for (const std::size_t array : {std::size_t{kX}, std::size_t{kWeight}, std::size_t{kY}})
    if (array != result || task.beta != 0) read += bytes_of(task, array);
  // Each element of y takes as many products as a filter has elements.
  const double operations = 2.0 * static_cast<double>(elements_of(task.sizes[kY])) *
                            static_cast<double>(elements_of(task.sizes[kWeight])) /
                            static_cast<double>(task.sizes[kWeight][0]);
  const std::string name = std::string("convolution") +
                           (forward    ? ""
                            : of_input ? ", gradient of x"
                                       : ", gradient of the weight") +
                           (task.types[kX] != CUDNN_DATA_FLOAT                     ? ", 16 bit"
                            : task.engine == static_cast<int>(Engine::tensor_core) ? ", TF32"
                                                                                   : ", f32");
  return {name,
          operations,
          read,
          bytes_of(task, result),
          [task] { compute(task); },
          [task, result] { std::memset(task.data[result], 0, bytes_of(task, result)); }};
}

}  // namespace
}  // namespace emulated_cuda::dnn_library

using namespace emulated_cuda::dnn_library;  // the function below has cuDNN's name, in no namespace

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Handle known_plan = find(plan), known_pack = find(pack);
  int device = -1;
  if (!is_live(handle) || known_plan == nullptr || known_pack == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (!known_plan->finalized || !known_pack->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (known_plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      known_pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || cudaGetDevice(&device) != cudaSuccess ||
      device != handle->device)
    return CUDNN_STATUS_BAD_PARAM;
  Task task{};
  if (const auto status = make_task(*known_plan, *known_pack, task); status != CUDNN_STATUS_SUCCESS)
    return status;
  emulated_cuda::DnnState& state = emulated_cuda::dnn();
  task.milliseconds = state.slowness[task.engine];
  if (!state.executes ||
      emulated_cuda::enqueue(handle->stream, [task] { run_product(product_of(task)); }) != cudaSuccess)
    return CUDNN_STATUS_EXECUTION_FAILED;
  ++state.maps;
  state.last_engine = task.engine;
  return CUDNN_STATUS_SUCCESS;
}
