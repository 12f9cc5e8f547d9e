// cuDNN's backend functions (version 9) as a table, from the library that is opened at the first convolution
// on a GPU, and its descriptors as objects. Only where cuDNN's headers are installed; without them, or
// without the library, convolutions go our own ways.
#pragma once

#if __has_include(<cudnn_graph.h>)
#define MEZZO_HAVE_CUDNN true
#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "mezzo/core/cuda/shared_library.h"

namespace mezzo::kernels::cuda {

/// Opens the library. Throws DeviceError when it is not there.
[[nodiscard]] mezzo::cuda::SharedLibrary open_dnn();

/// The functions in use, under their own names without the prefix.
struct Dnn {
  mezzo::cuda::SharedLibrary library = open_dnn();
  decltype(&cudnnCreate) create = library["cudnnCreate"];
  decltype(&cudnnSetStream) set_stream = library["cudnnSetStream"];
  decltype(&cudnnBackendCreateDescriptor) descriptor_create = library["cudnnBackendCreateDescriptor"];
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy = library["cudnnBackendDestroyDescriptor"];
  decltype(&cudnnBackendFinalize) finalize = library["cudnnBackendFinalize"];
  decltype(&cudnnBackendSetAttribute) set = library["cudnnBackendSetAttribute"];
  decltype(&cudnnBackendGetAttribute) get = library["cudnnBackendGetAttribute"];
  decltype(&cudnnBackendExecute) execute = library["cudnnBackendExecute"];
};

/// The table, or nullptr when the library is not there; opens it at the first call.
[[nodiscard]] const Dnn* dnn();

/// cuDNN's status where it is not "success": it has no such convolution, or not on this machine.
struct DnnRefusal {
  cudnnStatus_t status;
};
/// Throws DnnRefusal for all but success.
void check_dnn(cudnnStatus_t status);

/// A device's handle, which may do one thing at a time: its stream is a field of it. Lives to the end of the
/// process.
struct DnnHandle {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  /// Makes it at the first call, for the current device; not in a stream capture. Throws DnnRefusal.
  void make();
};
[[nodiscard]] DnnHandle& dnn_handle(int device_index);

/// A descriptor of cuDNN's backend. All members throw DnnRefusal.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return owned_.get(); }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values) const;
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) const {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) const;
  void set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) const;
  void finalize() const;

  [[nodiscard]] std::int64_t get_int64(cudnnBackendAttributeName_t name) const;
  /// Fills `other`, which is not finalized.
  void get(cudnnBackendAttributeName_t name, const DnnDescriptor& other) const;
  /// All descriptors of an attribute, which are of this type.
  [[nodiscard]] std::vector<DnnDescriptor> get_all(cudnnBackendAttributeName_t name,
                                                   cudnnBackendDescriptorType_t type) const;

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t p) const;
  };
  std::unique_ptr<void, Destroy> owned_;
};

}  // namespace mezzo::kernels::cuda

#else
#define MEZZO_HAVE_CUDNN false
#endif
