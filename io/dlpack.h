// Tensors shared with other libraries without a copy, by DLPack's structs: PyTorch, NumPy, JAX, CuPy, TVM.
// The structs are only declared here; what holds them includes its own <dlpack/dlpack.h>.
//   DLManagedTensorVersioned* shared = io::to_dlpack(x);           // x's memory, until the receiver lets go
//   Tensor y = io::from_dlpack(shared);                            // takes it over
#pragma once

#include "mezzo/core/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace mezzo::io {

/// The tensor's memory, shape and strides; whoever receives it calls its `deleter` once it is done. Writes
/// through it are not counted, so no graph may need the values that are overwritten. On a CUDA device all
/// work that is queued on the current stream is waited for.
/// Throws: AutogradError for a tensor that requires grad (detach() it), ValueError for an undefined one.
/// Source: DLPack 1.1; torch.utils.dlpack.to_dlpack.
[[nodiscard]] DLManagedTensorVersioned* to_dlpack(const Tensor& tensor);
/// to_dlpack with the struct from before DLPack 1.0: in Python a capsule named "dltensor", not
/// "dltensor_versioned".
[[nodiscard]] DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

/// A tensor in the memory of another library's, of which it takes ownership: its deleter is called when the
/// last tensor and graph that use the memory have gone, or at once when this throws. The giver's work on a
/// CUDA device must be done, or queued on the current stream.
/// Shapes: any; strides that are absent mean row-major.
/// Dtypes: all of mezzo's, one lane per element.
/// Throws: ValueError for a null pointer, another major version than 1, memory that must not be written or
/// that is not aligned to its elements; DTypeError for a dtype and DeviceError for a device that mezzo has
/// not; ShapeError for more than 8 dims, negative sizes and negative strides.
[[nodiscard]] Tensor from_dlpack(DLManagedTensorVersioned* shared);
[[nodiscard]] Tensor from_dlpack(DLManagedTensor* shared);

}  // namespace mezzo::io
