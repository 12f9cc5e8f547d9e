// The execution of a plan of the emulated cuDNN: every check that the call can make, then the work in the
// stream's order.
#include <algorithm>
#include <cstring>

#include "descriptor.h"
#include "emulated_cuda/control.h"
#include "emulated_cuda/dnn.h"

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
  auto capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(handle->stream, &capture) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  task.captured = capture != cudaStreamCaptureStatusNone, task.plan = known_plan;
  if (!state.executes || emulated_cuda::enqueue(handle->stream, [task] { compute(task); }) != cudaSuccess)
    return CUDNN_STATUS_EXECUTION_FAILED;
  ++state.maps;
  state.last_engine = task.engine;
  return CUDNN_STATUS_SUCCESS;
}
