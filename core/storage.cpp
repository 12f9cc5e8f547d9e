// Gets a storage's buffer from the allocator of its device (core/memory/allocator.h) and returns it there;
// reports allocations and writes to the Recording of the thread, if there is one.
#include "mezzo/core/storage.h"

#include "mezzo/core/inference_mode.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo {

Storage::Storage(std::size_t bytes, Device device)
    : inference_(inference_mode_enabled()),
      data_(detail::allocate_bytes(bytes, device)),
      bytes_(bytes),
      device_(device) {
  if (!device.is_cpu()) note_made();
}

Storage::~Storage() {
  if (recorded_) note_freed();
  if (!borrowed_) detail::deallocate_bytes(data_, bytes_, device_);
}

}  // namespace mezzo
