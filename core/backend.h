// The interface of a device: everything the library asks of it apart from running kernels. The CPU registers
// itself; a CUDA build adds one object of this interface in files of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mezzo/core/activity.h"
#include "mezzo/core/device.h"

namespace mezzo {

class DeviceAllocator;

/// Memory, copies and ordering of one device type. All sizes are bytes.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Number of usable devices of this type.
  [[nodiscard]] virtual int device_count() const = 0;
  /// One line that says what the device is or, when none is usable, why.
  [[nodiscard]] virtual std::string description() const = 0;
  /// Uncached memory, aligned to at least 64. Returns nullptr when there is none left.
  [[nodiscard]] virtual void* allocate(std::size_t bytes, int index) = 0;
  virtual void deallocate(void* memory, std::size_t bytes, int index) noexcept = 0;
  /// Nobody needs the content of this part of a block any more: the system may have its pages until they are
  /// written to again.
  virtual void discard(void* /*memory*/, std::size_t /*bytes*/, int /*index*/) noexcept {}
  /// The allocator that tensors on the device get their memory from, or nullptr: core/memory/allocator.cpp
  /// then caches what `allocate` gives.
  [[nodiscard]] virtual DeviceAllocator* allocator(int /*index*/) { return nullptr; }
  /// May return before the copy has run, but not before `host` may be changed.
  virtual void copy_from_host(void* device, const void* host, std::size_t bytes, int index) = 0;
  /// Waits for the work that comes before in the same stream, and for the copy.
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes, int index) = 0;
  /// Between two pieces of memory that do not overlap; `from` may be on another device of this type.
  virtual void copy_within(void* to, const void* from, std::size_t bytes, int index) = 0;
  virtual void set_zero(void* memory, std::size_t bytes, int index) = 0;
  /// Waits for everything that was started on the device.
  virtual void synchronize(int index) = 0;
};

/// The backend of a device. Throws: DeviceError that names the cause when there is none.
[[nodiscard]] Backend& backend(Device device);

/// The backend of a device type, or nullptr when this build has none. A backend may have no usable device.
[[nodiscard]] Backend* find_backend(DeviceType type) noexcept;

/// Makes a backend known; called once per type by a static object in the backend's own files.
void register_backend(DeviceType type, Backend& backend);

/// Waits for all work on the device.
void synchronize(Device device);

/// Number of times a value was read back to the host (`item`, `data`, printing, copies to the CPU), on every
/// device, in this process. A training step adds 0; on a GPU each such read waits for the device.
[[nodiscard]] std::uint64_t host_reads() noexcept;
/// Counts a read of a value back to the host, and marks it while it lives.
class HostRead : Activity {
 public:
  /// `call`: "item", say; of static storage.
  explicit HostRead(std::string_view call) noexcept;
};

}  // namespace mezzo
