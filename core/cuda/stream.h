// Streams and events for sources that include CUDA's header: core/cuda.h plus the native handles.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "mezzo/core/cuda.h"

namespace mezzo::cuda {

[[nodiscard]] inline cudaStream_t native(const Stream& stream) noexcept {
  return static_cast<cudaStream_t>(stream.handle());
}
[[nodiscard]] inline cudaEvent_t native(const Event& event) noexcept {
  return static_cast<cudaEvent_t>(event.handle());
}

/// The library's own stream of a device; made at the first call, never destroyed.
[[nodiscard]] const Stream& default_stream(int index);

/// Throws StateError when the stream captures. `what` says in a few words what is asked for. To be called
/// before CUDA calls that would make the capture invalid, so that the process can go on.
void refuse_in_capture(const Stream& stream, std::string_view what);

}  // namespace mezzo::cuda
