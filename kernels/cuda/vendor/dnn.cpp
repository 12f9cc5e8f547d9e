// Where cuDNN is looked for, one handle per device, and its descriptors. A missing library is no error:
// dnn() is null then. A failed call throws DnnRefusal, so that a convolution can go another way.
#include "mezzo/kernels/cuda/vendor/dnn.h"

#if MEZZO_HAVE_CUDNN
#include <map>

#include "mezzo/core/error.h"

namespace mezzo::kernels::cuda {

mezzo::cuda::SharedLibrary open_dnn() {
#if defined(MEZZO_CUDA_EMULATED)
  const std::initializer_list<const char*> files{MEZZO_EMULATED_DNN};  // never one that is installed
#else
  const std::initializer_list<const char*> files{"libcudnn.so.9", "libcudnn_graph.so.9"};
#endif
  return {"convolution", "MEZZO_CUDNN", files,
          "install cuDNN 9 or `pip install nvidia-cudnn-cu13` and add its folder to LD_LIBRARY_PATH"};
}

const Dnn* dnn() {
  static const Dnn* const table = []() -> const Dnn* {
    try {
      return new Dnn;  // never closed: handles may be in use to the very end
    } catch (const DeviceError&) {
      return nullptr;
    }
  }();
  return table;
}

void check_dnn(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw DnnRefusal{status};
}

void DnnHandle::make() {
  if (handle == nullptr) check_dnn(dnn()->create(&handle));
}

DnnHandle& dnn_handle(int device_index) {
  static auto* const mutex = new std::mutex;
  static auto* const handles = new std::map<int, DnnHandle>;
  const std::scoped_lock lock(*mutex);
  return (*handles)[device_index];
}

void DnnDescriptor::Destroy::operator()(cudnnBackendDescriptor_t p) const {
  static_cast<void>(dnn()->descriptor_destroy(p));
}

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t raw = nullptr;
  check_dnn(dnn()->descriptor_create(type, &raw));
  owned_.reset(raw);
}

void DnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        std::int64_t count, const void* values) const {
  check_dnn(dnn()->set(get(), name, type, count, values));
}
void DnnDescriptor::set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) const {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void DnnDescriptor::set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) const {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
}
void DnnDescriptor::finalize() const { check_dnn(dnn()->finalize(get())); }

std::int64_t DnnDescriptor::get_int64(cudnnBackendAttributeName_t name) const {
  std::int64_t count = 0, value = 0;
  check_dnn(dnn()->get(get(), name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

void DnnDescriptor::get(cudnnBackendAttributeName_t name, const DnnDescriptor& other) const {
  std::int64_t count = 0;
  cudnnBackendDescriptor_t raw = other.get();
  check_dnn(dnn()->get(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
}

std::vector<DnnDescriptor> DnnDescriptor::get_all(cudnnBackendAttributeName_t name,
                                                  cudnnBackendDescriptorType_t type) const {
  std::int64_t count = 0;
  check_dnn(dnn()->get(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<DnnDescriptor> result;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) raw.push_back(result.emplace_back(type).get());
  if (count > 0) check_dnn(dnn()->get(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  result.erase(result.begin() + count, result.end());
  return result;
}

}  // namespace mezzo::kernels::cuda
#endif
