// Blocks of device memory, first fit; page protection; poisoning.
#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "asan.h"

namespace emulated_cuda {
namespace {

constexpr std::size_t kUnit = 512;
/// A large page: with them, opening and closing the range costs a few entries of the page table.
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kTrim = std::size_t{64} << 20;
constexpr std::size_t kQuarantine = std::size_t{64} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void no_memory(const char* what) {
  std::fprintf(stderr, "emulated CUDA: %s failed\n", what);
  std::abort();
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t capacity)
    : capacity_(capacity), reserved_(round_up(capacity * 4 + (std::size_t{256} << 20), kLargePage)) {
  void* const memory =
      mmap(nullptr, reserved_ + kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) no_memory("reserving addresses for device memory");
  mapping_ = static_cast<std::byte*>(memory);
  base_ = mapping_ + (kLargePage - reinterpret_cast<std::uintptr_t>(memory) % kLargePage) % kLargePage;
  madvise(base_, reserved_, MADV_HUGEPAGE);  // only speed depends on it
  end_ = kUnit;                              // a red zone before the first block
}

DeviceMemory::~DeviceMemory() {
  // The addresses may be anybody's next.
  asan::unpoison(base_, highest_);
  munmap(mapping_, reserved_ + kLargePage);
}

bool DeviceMemory::contains(const void* pointer) const {
  const auto* const at = static_cast<const std::byte*>(pointer);
  return at >= base_ && at < base_ + reserved_;
}

bool DeviceMemory::owns(const void* pointer, std::size_t bytes) const {
  if (!contains(pointer)) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_);
  const auto next = live_.upper_bound(offset);
  if (next == live_.begin()) return false;
  const auto& [start, block] = *std::prev(next);
  return offset - start < block.bytes && bytes <= block.bytes - (offset - start);
}

bool DeviceMemory::is_block(const void* pointer) const {
  if (!contains(pointer)) return false;
  return live_.contains(static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_));
}

/// The offset of a free range of `slot` bytes; `reserved_` if there is none.
std::size_t DeviceMemory::find_slot(std::size_t slot) {
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [offset, size] = *at;
    if (size < slot) continue;
    free_.erase(at);
    if (size > slot) free_[offset + slot] = size - slot;
    return offset;
  }
  if (slot > reserved_ - end_) return reserved_;
  const std::size_t offset = end_;
  end_ += slot;
  if (end_ > highest_) highest_ = end_;
  if (depth_ > 0) protect(true);
  return offset;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, kUnit);
  if (rounded < bytes || rounded > capacity_ - used_) return nullptr;
  const std::size_t slot = rounded + kUnit;
  std::size_t offset = find_slot(slot);
  while (offset == reserved_) {
    if (quarantine_.empty()) return nullptr;
    const auto [start, size] = quarantine_.front();
    quarantine_.pop_front();
    quarantined_ -= size;
    give_back(start, size);
    offset = find_slot(slot);
  }
  used_ += rounded;
  live_[offset] = {slot, bytes};
  std::byte* const data = base_ + offset;
  const DeviceAccess access(*this);
  asan::unpoison(data, slot);
  std::memset(data, 0xff, slot);
  asan::poison(data + bytes, slot - bytes);
  // The first block has no neighbour whose red zone lies before it.
  if (offset == kUnit) asan::poison(base_, kUnit);
  return data;
}

bool DeviceMemory::release(void* pointer) {
  if (!is_block(pointer)) return false;
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(pointer) - base_);
  const Block block = live_[offset];
  live_.erase(offset);
  used_ -= block.slot - kUnit;
  if (asan::kActive) {
    asan::poison(pointer, block.slot);
    quarantine_.emplace_back(offset, block.slot);
    quarantined_ += block.slot;
    while (quarantined_ > kQuarantine) {
      const auto [start, size] = quarantine_.front();
      quarantine_.pop_front();
      quarantined_ -= size;
      give_back(start, size);
    }
  } else {
    const DeviceAccess access(*this);
    give_back(offset, block.slot);
    std::memset(pointer, 0xff, block.bytes);
  }
  return true;
}

void DeviceMemory::give_back(std::size_t offset, std::size_t slot) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + slot) {
    slot += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += slot;
      return;
    }
  }
  free_[offset] = slot;
}

/// Forgets free memory at the end: what is in use decides how long opening and closing take.
void DeviceMemory::trim() {
  if (free_.empty()) return;
  const auto last = std::prev(free_.end());
  if (last->first + last->second != end_) return;
  const std::size_t before = round_up(end_, kLargePage);
  end_ = last->first;
  free_.erase(last);
  const std::size_t kept = round_up(end_, kLargePage);
  // Small ranges are soon used again.
  if (before - kept >= kTrim) madvise(base_ + kept, before - kept, MADV_DONTNEED);
}

/// Opens or closes all that was ever given out; what lies beyond is never open.
void DeviceMemory::protect(bool open) {
  const std::size_t wanted = open ? round_up(end_, kLargePage) : 0;
  if (wanted == opened_) return;
  const std::size_t changed = wanted > opened_ ? wanted : opened_;
  if (mprotect(base_, changed, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) no_memory("mprotect");
  opened_ = wanted;
}

DeviceAccess::DeviceAccess(DeviceMemory& memory) : memory_(memory) {
  if (memory_.depth_++ == 0) memory_.protect(true);
}

DeviceAccess::~DeviceAccess() {
  if (--memory_.depth_ > 0) return;
  memory_.protect(false);
  memory_.trim();
}

HostTurn::HostTurn(DeviceMemory& memory) : memory_(memory) { memory_.protect(false); }

HostTurn::~HostTurn() {
  if (memory_.depth_ > 0) memory_.protect(true);
}

}  // namespace emulated_cuda
