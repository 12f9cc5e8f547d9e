// Gets a storage's buffer from the allocator of its device (core/memory/allocator.h) and returns it there.
#include "mezzo/core/storage.h"

#include "mezzo/core/memory/allocator.h"

namespace mezzo {

Storage::Storage(std::size_t bytes, Device device)
    : data_(detail::allocate_bytes(bytes, device)), bytes_(bytes), device_(device) {}

Storage::~Storage() { detail::deallocate_bytes(data_, bytes_, device_); }

}  // namespace mezzo
