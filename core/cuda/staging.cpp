// Uploads go through a ring of pinned memory in pieces, each guarded by an event, small ones through a ring
// of their own. Downloads alternate between two halves: the device fills one while the host empties the
// other.
#include "mezzo/core/cuda/staging.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"

namespace mezzo::cuda {

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
}

std::byte* PinnedBuffer::data() {
  if (data_ == nullptr) {
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, size_, cudaHostAllocPortable), "cudaHostAlloc");
    data_ = static_cast<std::byte*>(memory);
  }
  return data_;
}

void UploadRing::forget_oldest() noexcept {
  first_ = (first_ + 1) % kSlots;
  --waiting_;
}

void UploadRing::wait_for_oldest() {
  oldest().done.synchronize();
  forget_oldest();
}

// `bytes` bytes of the ring that no copy uses. Slots lie in the order of the ring, so only the oldest can be
// in the way.
std::byte* UploadRing::claim(std::size_t bytes) {
  if (head_ + bytes > ring_.size()) {
    // The rest of the ring stays unused this time round; what lies there must have run before what follows.
    while (waiting_ > 0 && oldest().begin >= head_) wait_for_oldest();
    head_ = 0;
  }
  const auto in_the_way = [&] {
    return waiting_ == kSlots || (waiting_ > 0 && oldest().begin < head_ + bytes && oldest().end > head_);
  };
  while (in_the_way()) wait_for_oldest();
  while (waiting_ > 0 && oldest().done.query()) forget_oldest();
  return ring_.data() + head_;
}

void UploadRing::upload(void* device, const void* host, std::size_t bytes, const Stream& stream) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(bytes - done, piece_);
    std::byte* const stage = claim(piece);
    std::memcpy(stage, static_cast<const std::byte*>(host) + done, piece);
    check(cudaMemcpyAsync(static_cast<std::byte*>(device) + done, stage, piece, cudaMemcpyHostToDevice,
                          native(stream)),
          "the copy to the device");
    Slot& slot = slots_[(first_ + waiting_) % kSlots];
    slot.begin = head_;
    slot.end = head_ + piece;
    slot.done.record(stream);
    ++waiting_;
    head_ += piece;
    done += piece;
  }
}

void Staging::upload(void* device, const void* host, std::size_t bytes, const Stream& stream) {
  const DeviceGuard guard(index_);
  const RelaxedCapture relaxed;  // events are asked and waited for
  (bytes <= kSmall ? small_ : large_).upload(device, host, bytes, stream);
}

void Staging::download(void* host, const void* device, std::size_t bytes, const Stream& stream) {
  const DeviceGuard guard(index_);
  const RelaxedCapture relaxed;
  const std::scoped_lock lock(down_mutex_);
  const std::size_t pieces = (bytes + kPiece - 1) / kPiece;
  // One half is filled by the device while the host empties the other.
  for (std::size_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      check(
          cudaMemcpyAsync(halves_.data() + i % 2 * kPiece, static_cast<const std::byte*>(device) + i * kPiece,
                          std::min(kPiece, bytes - i * kPiece), cudaMemcpyDeviceToHost, native(stream)),
          "the copy to the host");
      arrived_[i % 2].record(stream);
    }
    if (i > 0) {
      const std::size_t last = i - 1;
      arrived_[last % 2].synchronize();
      std::memcpy(static_cast<std::byte*>(host) + last * kPiece, halves_.data() + last % 2 * kPiece,
                  std::min(kPiece, bytes - last * kPiece));
    }
  }
}

Staging& staging(int index) {
  static constinit std::array<std::atomic<Staging*>, kMaxDevices> made{};
  std::atomic<Staging*>& slot = made.at(static_cast<std::size_t>(index));
  if (Staging* const found = slot.load(std::memory_order_acquire)) return *found;
  auto fresh = std::make_unique<Staging>(index);
  Staging* expected = nullptr;
  if (slot.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *expected;
}

}  // namespace mezzo::cuda
