// Pinned host memory through which copies between host and device go. A copy from pinned memory runs on its
// own while the host goes on; one from ordinary memory makes the driver wait.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "mezzo/core/cuda/stream.h"

namespace mezzo::cuda {

/// A buffer that the device can read and write by itself, made at first use. Freed with the object.
class PinnedBuffer : mezzo::detail::NoCopy {
 public:
  explicit PinnedBuffer(std::size_t bytes) : size_(bytes) {}
  ~PinnedBuffer();
  /// Its memory. Throws OutOfMemoryError.
  [[nodiscard]] std::byte* data();
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_;
  std::byte* data_ = nullptr;
};

/// A ring of pinned memory that copies to one device go through, in pieces of an eighth of it. Thread-safe.
class UploadRing {
 public:
  explicit UploadRing(std::size_t bytes) : ring_(bytes), piece_(bytes / 8) {}
  /// See Staging::upload. The device is selected, its capture mode relaxed.
  void upload(void* device, const void* host, std::size_t bytes, const Stream& stream);

 private:
  // A copy from ring_[begin, end) that may still run. As many as this may wait; their events serve again.
  static constexpr std::size_t kSlots = 256;
  struct Slot {
    std::size_t begin = 0, end = 0;
    Event done;
  };
  [[nodiscard]] std::byte* claim(std::size_t bytes);
  void wait_for_oldest();
  void forget_oldest() noexcept;
  [[nodiscard]] Slot& oldest() noexcept { return slots_[first_]; }

  std::mutex mutex_;
  PinnedBuffer ring_;
  std::size_t piece_, head_ = 0;
  std::array<Slot, kSlots> slots_;  // a ring too
  std::size_t first_ = 0, waiting_ = 0;
};

/// The staging buffers of one device. Thread-safe. Throws DeviceError as cuda::check.
class Staging {
 public:
  explicit Staging(int index) : index_(index) {}

  /// Takes the bytes and returns; they arrive in the stream's order. Waits only while a ring is full of
  /// copies that have not run: a scalar does not wait behind a batch that another thread uploads.
  void upload(void* device, const void* host, std::size_t bytes, const Stream& stream);
  /// Returns when the bytes have come, after all earlier work in the stream. Other streams are not waited
  /// for.
  void download(void* host, const void* device, std::size_t bytes, const Stream& stream);

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20, kSmall = std::size_t{16} << 10;

  int index_;
  UploadRing large_{8 * kPiece}, small_{8 * kSmall};
  std::mutex down_mutex_;
  PinnedBuffer halves_{2 * kPiece};
  std::array<Event, 2> arrived_;  // of the halves
};

/// The staging buffers of a device, made at the first call and never destroyed.
[[nodiscard]] Staging& staging(int index);

}  // namespace mezzo::cuda
