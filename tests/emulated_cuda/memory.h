// The memory of one emulated device: a reserved range of addresses that can be touched only while work of the
// device runs.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

namespace emulated_cuda {

class DeviceMemory {
 public:
  /// Reserves addresses for `capacity` bytes and for what fragmentation takes.
  explicit DeviceMemory(std::size_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// `bytes` > 0 filled with 0xFF, aligned to 512; null if the capacity does not suffice.
  void* allocate(std::size_t bytes);
  /// Frees what allocate gave; false for any other pointer.
  bool release(void* pointer);
  /// Whether `pointer` is an address of this device. Safe in a signal handler.
  [[nodiscard]] bool contains(const void* pointer) const;
  /// Whether all of `bytes` (0 as 1) at `pointer` are in one block that is not freed.
  [[nodiscard]] bool owns(const void* pointer, std::size_t bytes) const;
  /// Whether allocate gave exactly this pointer, and it is not freed.
  [[nodiscard]] bool is_block(const void* pointer) const;
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  friend class DeviceAccess;
  friend class HostTurn;
  struct Block {
    std::size_t slot, bytes;  ///< slot: the block, its rest up to 512 and the red zone behind
  };
  void protect(bool open);
  void trim();
  std::size_t find_slot(std::size_t slot);
  void give_back(std::size_t offset, std::size_t slot);

  std::size_t capacity_, reserved_, used_ = 0;
  std::byte* mapping_ = nullptr;  ///< what mmap gave
  std::byte* base_ = nullptr;
  std::size_t end_ = 0;      ///< bytes from base_ that were ever given out
  std::size_t highest_ = 0;  ///< the most that end_ ever was
  std::size_t opened_ = 0;   ///< bytes from base_ that can be touched now
  int depth_ = 0;            ///< of DeviceAccess
  std::map<std::size_t, Block> live_;
  std::map<std::size_t, std::size_t> free_;                     ///< offset and size of slots below end_
  std::deque<std::pair<std::size_t, std::size_t>> quarantine_;  ///< freed, and kept poisoned for a while
  std::size_t quarantined_ = 0;
};

/// While one lives, the device's memory can be touched. They nest.
class DeviceAccess {
 public:
  explicit DeviceAccess(DeviceMemory& memory);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  DeviceMemory& memory_;
};

/// While one lives, the device's memory cannot be touched, whatever DeviceAccess there is: for host functions
/// in a stream.
class HostTurn {
 public:
  explicit HostTurn(DeviceMemory& memory);
  ~HostTurn();
  HostTurn(const HostTurn&) = delete;
  HostTurn& operator=(const HostTurn&) = delete;

 private:
  DeviceMemory& memory_;
};

}  // namespace emulated_cuda
