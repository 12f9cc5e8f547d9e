// The memory behind tensors: an owned buffer on one device, shared by views, with the version counter by
// which a graph notices that a value it saved was overwritten. Whether all writes are counted is known here
// too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mezzo/core/atomic_count.h"
#include "mezzo/core/device.h"
#include "mezzo/core/ref_counted.h"

namespace mezzo {

namespace detail {
class Recording;
}

/// A buffer of bytes on a device. Freed when the last tensor or saved value that uses it goes.
class Storage final : public RefCounted {
 public:
  /// Uninitialised memory. Throws: OutOfMemoryError, or DeviceError for a device that is not there.
  Storage(std::size_t bytes, Device device);
  /// Memory of the CPU's that somebody else owns and keeps as long as the storage.
  Storage(void* data, std::size_t bytes) noexcept : borrowed_(true), shared_(1), data_(data), bytes_(bytes) {}
  /// Memory that `owner` keeps, which goes with the storage.
  Storage(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner) noexcept
      : borrowed_(true), shared_(1), data_(data), bytes_(bytes), device_(device), owner_(std::move(owner)) {}
  ~Storage() override;

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Counts in-place writes through any tensor that shares this storage.
  [[nodiscard]] std::uint32_t version() const noexcept { return version_.load_acquire(); }
  void bump_version() { advance_version(1); }
  /// Whether the program can write here past the library: it lent the memory, or was given a pointer by which
  /// it may be written. Such writes count no version, so no copy of the values is valid for longer than
  /// PyTorch's would be.
  [[nodiscard]] bool may_change_unseen() const noexcept { return shared_.load_relaxed() != 0; }
  /// A pointer for writing leaves the library.
  void note_shared() noexcept { shared_.store_relaxed(1); }
  /// Whether it was made in an InferenceMode: its writes are not counted.
  [[nodiscard]] bool is_inference() const noexcept { return inference_; }
  /// Counts `writes` writes at once. During a graph capture: each replay will count one more write.
  void advance_version(std::uint32_t writes) {
    if (inference_) return;
    version_.add_acq_rel(writes);
    if (!device_.is_cpu()) note_write();
  }
  /// Number of live tensors that are views of another tensor on this storage (see Tensor::add_).
  [[nodiscard]] std::int32_t live_views() const noexcept { return live_views_.load_acquire(); }
  void count_view(std::int32_t change) noexcept { live_views_.add_acq_rel(change); }

 private:
  friend class detail::Recording;
  // For the Recording of the thread, if there is one; in core/replay/recording.cpp.
  void note_made();
  void note_write();
  void note_freed() noexcept;

  bool borrowed_ = false;  ///< not to be freed
  bool recorded_ = false;  ///< replays of a captured graph count as writes to it
  bool inference_ = false;
  AtomicCount<std::uint8_t> shared_{0};  ///< 0 or 1, and then 1 for ever: the pointer may be kept
  void* data_;
  std::size_t bytes_;
  Device device_ = {};
  AtomicCount<std::uint32_t> version_{0};
  AtomicCount<std::int32_t> live_views_{0};
  Ref<RefCounted> owner_;  ///< of borrowed memory; may be empty
};

}  // namespace mezzo
