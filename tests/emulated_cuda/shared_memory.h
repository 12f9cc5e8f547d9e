// The dynamic shared memory of the block that runs, with a note for each byte of who wrote and read it last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulated_cuda {

inline constexpr std::size_t kMaxShared = 48 * 1024;

class SharedMemory {
 public:
  /// A block begins that has `bytes`: nothing is written.
  void start_block(std::size_t bytes);
  [[nodiscard]] void* data() { return memory_.data(); }
  /// See check_shared_read and check_shared_write of device.h.
  void read(std::size_t offset, std::size_t bytes, const char* file, int line);
  void write(std::size_t offset, std::size_t bytes, const char* file, int line);

 private:
  static constexpr std::uint16_t kSeveral = 0xffff;
  /// Ticks are the block's: an access is ordered before this thread if its tick is older than the last
  /// barrier of the block, or, within a warp, than the thread's last __syncwarp. So nothing has to be
  /// cleared.
  struct Note {
    std::uint64_t written = 0, read = 0;       ///< ticks of the last write and read
    std::uint16_t writer = 0, bytes_left = 0;  ///< bytes of the write from here on
    std::uint16_t reader = 0;                  ///< thread, or kSeveral
    std::uint16_t reader_warp = 0;             ///< warp, or kSeveral
  };
  void check_range(std::size_t offset, std::size_t bytes, const char* file, int line) const;
  static bool ordered(std::uint64_t tick, unsigned warp);

  alignas(16) std::array<unsigned char, kMaxShared> memory_;
  std::vector<Note> notes_;
  std::size_t bytes_ = 0;
};

SharedMemory& shared_memory();

}  // namespace emulated_cuda
