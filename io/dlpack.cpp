// DLPack's structs as its documents lay them out, filled from tensors and read back.
#include "mezzo/io/dlpack.h"

#include <cstdint>
#include <limits>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"

// DLPack 1.1. The names are its own, and so are the values of the enums below.
struct DLDevice {
  std::int32_t device_type, device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLPackVersion {
  std::uint32_t major, minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

namespace mezzo::io {

namespace {

constexpr DLPackVersion kVersion{1, 1};
constexpr std::uint64_t kReadOnly = 1;
constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;
constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kBool = 6, kFloat8E4M3 = 10,
                       kFloat8E5M2 = 12;

DLDataType shared_dtype(DType dtype) {
  const std::uint8_t code = dtype == DType::bf16      ? kBFloat
                            : dtype == DType::f8_e4m3 ? kFloat8E4M3
                            : dtype == DType::f8_e5m2 ? kFloat8E5M2
                            : is_floating(dtype)      ? kFloat
                            : dtype == DType::boolean ? kBool
                            : dtype == DType::u8      ? kUInt
                                                      : kInt;
  return {code, static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

DType dtype_of_shared(const DLDataType& shared) {
  for (const DType dtype : kAllDTypes) {
    const DLDataType one = shared_dtype(dtype);
    if (one.code == shared.code && one.bits == shared.bits && shared.lanes == 1) return dtype;
  }
  throw DTypeError("from_dlpack", "a dtype that mezzo has",
                   "code " + std::to_string(shared.code) + " of " + std::to_string(shared.bits) +
                       " bits and " + std::to_string(shared.lanes) + " lanes",
                   "convert it where it comes from");
}

Device device_of_shared(const DLDevice& shared) {
  if (shared.device_type == kCpu || shared.device_type == kCudaHost) return Device::cpu();
  if (shared.device_type == kCuda || shared.device_type == kCudaManaged)
    return Device::cuda(shared.device_id);
  throw DeviceError("from_dlpack", "memory of the CPU or of CUDA",
                    "device type " + std::to_string(shared.device_type),
                    "copy it to the CPU where it comes from");
}

// --- out

/// A struct of DLPack's with what it points to.
template <class Managed>
struct Given {
  Managed managed{};
  Tensor keeps;
  Dims shape, strides;
};

template <class Managed>
Managed* given(const Tensor& tensor) {
  if (!tensor.defined()) throw ValueError("to_dlpack", "a tensor", "an undefined one", "leave it out");
  if (tensor.requires_grad()) {
    throw AutogradError("to_dlpack", "a tensor without history", "one that requires grad", "detach() it");
  }
  if (!tensor.device().is_cpu()) synchronize(tensor.device());
  tensor.impl().storage->note_shared();
  auto* const made = new Given<Managed>;
  made->keeps = tensor;
  made->shape = tensor.shape();
  made->strides = tensor.strides();
  made->managed.dl_tensor = {.data = tensor.impl().data(),
                             .device = {tensor.device().is_cpu() ? kCpu : kCuda, tensor.device().index},
                             .ndim = static_cast<std::int32_t>(tensor.dim()),
                             .dtype = shared_dtype(tensor.dtype()),
                             .shape = made->shape.begin(),
                             .strides = made->strides.begin(),
                             .byte_offset = 0};
  made->managed.manager_ctx = made;
  made->managed.deleter = [](Managed* self) { delete static_cast<Given<Managed>*>(self->manager_ctx); };
  return &made->managed;
}

// --- in

/// Gives the memory back with the last storage that uses it.
template <class Managed>
struct Taken final : RefCounted {
  explicit Taken(Managed* managed) : shared(managed) {}
  ~Taken() override {
    if (shared->deleter != nullptr) shared->deleter(shared);
  }
  Managed* shared;
};

Dims listed(const char* what, const std::int64_t* numbers, std::int32_t count) {
  Dims result;
  for (std::int32_t i = 0; i < count; ++i) {
    if (numbers[i] < 0) {
      throw ShapeError("from_dlpack", std::string(what) + " of at least 0", std::to_string(numbers[i]),
                       "make it contiguous where it comes from");
    }
    result.push_back(numbers[i]);
  }
  return result;
}

/// Bytes from the first element to the end of the last one. Throws: ShapeError for more than memory can have.
std::size_t bytes_reached(const Shape& shape, const Dims& strides, DType dtype) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    std::int64_t step = 0;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &step) ||
        __builtin_add_overflow(last, step, &last) || last > std::numeric_limits<std::int64_t>::max() / 16) {
      throw ShapeError("from_dlpack", "strides within memory", to_string(strides),
                       "check where it comes from");
    }
  }
  return static_cast<std::size_t>((last + 1) * size_of(dtype));
}

Tensor taken(const DLTensor& shared, Ref<RefCounted> owner) {
  const DType dtype = dtype_of_shared(shared.dtype);
  const Device device = device_of_shared(shared.device);
  static_cast<void>(backend(device));  // whether it is there
  if (shared.ndim < 0 || shared.ndim > kMaxDims) {
    throw ShapeError("from_dlpack", "at most " + std::to_string(kMaxDims) + " dims",
                     std::to_string(shared.ndim), "reshape it where it comes from");
  }
  const Shape shape = listed("sizes", shared.shape, shared.ndim);
  layout::checked_numel("from_dlpack", shape);
  const Dims strides = shared.strides != nullptr
                           ? listed("strides", shared.strides, shared.ndim)
                           : layout::dense_strides("from_dlpack", shape, MemoryFormat::contiguous);
  auto* const data = static_cast<std::byte*>(shared.data) + shared.byte_offset;
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype)) != 0) {
    throw ValueError("from_dlpack", "memory aligned to its elements", "an odd address",
                     "copy it where it comes from");
  }
  const std::size_t bytes = bytes_reached(shape, strides, dtype);
  return Tensor(make_ref<TensorImpl>(make_ref<Storage>(data, bytes, device, std::move(owner)), 0, shape,
                                     strides, dtype, false));
}

template <class Managed>
void require_given(const Managed* shared) {
  if (shared == nullptr)
    throw ValueError("from_dlpack", "a tensor of DLPack's", "a null pointer", "give it one");
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& tensor) {
  auto* const shared = given<DLManagedTensorVersioned>(tensor);
  shared->version = kVersion;
  return shared;
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor) { return given<DLManagedTensor>(tensor); }

Tensor from_dlpack(DLManagedTensorVersioned* shared) {
  require_given(shared);
  const auto owner = make_ref<Taken<DLManagedTensorVersioned>>(shared);
  if (shared->version.major != kVersion.major) {
    throw ValueError("from_dlpack", "DLPack version 1", std::to_string(shared->version.major),
                     "ask for a version up to 1.1 where it comes from");
  }
  if ((shared->flags & kReadOnly) != 0) {
    throw ValueError("from_dlpack", "memory that may be written", "read-only memory",
                     "copy it where it comes from");
  }
  return taken(shared->dl_tensor, owner);
}

Tensor from_dlpack(DLManagedTensor* shared) {
  require_given(shared);
  return taken(shared->dl_tensor, make_ref<Taken<DLManagedTensor>>(shared));
}

}  // namespace mezzo::io
