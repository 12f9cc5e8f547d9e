// Device memory that a call needs for itself. It goes back to the allocator at the end of the call; the
// stream keeps later users of the block behind the kernels that still read it.
#pragma once

#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/scope.h"

namespace mezzo::kernels::cuda {

/// Owns `bytes` of device memory (none for 0). Throws OutOfMemoryError.
class Scratch : mezzo::detail::NoCopy {
 public:
  Scratch(Device device, std::int64_t bytes)
      : device_(device),
        bytes_(static_cast<std::size_t>(bytes)),
        data_(bytes == 0 ? nullptr : mezzo::detail::allocate_bytes(bytes_, device)) {}
  ~Scratch() { mezzo::detail::deallocate_bytes(data_, bytes_, device_); }
  [[nodiscard]] void* data() const { return data_; }

 private:
  Device device_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace mezzo::kernels::cuda
