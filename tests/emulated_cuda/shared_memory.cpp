// Checks of every access to dynamic shared memory: range, written before read, and a barrier between threads.
#include "shared_memory.h"

#include <cstring>

#include "block.h"
#include "emulated_cuda/device.h"

namespace emulated_cuda {

SharedMemory& shared_memory() {
  static SharedMemory instance;
  return instance;
}

void* dynamic_shared() { return block().active() ? shared_memory().data() : nullptr; }

void check_shared_read(std::size_t offset, std::size_t bytes, const char* file, int line) {
  shared_memory().read(offset, bytes, file, line);
}

void check_shared_write(std::size_t offset, std::size_t bytes, const char* file, int line) {
  shared_memory().write(offset, bytes, file, line);
}

void shared_out_of_range(std::size_t index, std::size_t count, const char* file, int line) {
  fail("shared memory: index %zu of an array of %zu at %s:%d", index, count, file, line);
}

void SharedMemory::start_block(std::size_t bytes) {
  bytes_ = bytes;
  if (bytes == 0) return;
  if (notes_.size() < bytes) notes_.resize(bytes);
  std::memset(memory_.data(), 0xff, bytes);
}

void SharedMemory::check_range(std::size_t offset, std::size_t bytes, const char* file, int line) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return;
  fail("shared memory: bytes %zu to %zu are used at %s:%d, but the launch gave %zu", offset, offset + bytes,
       file, line, bytes_);
}

bool SharedMemory::ordered(std::uint64_t tick, unsigned warp) {
  Block& all = block();
  if (tick < all.barrier_tick()) return true;
  return warp == all.current_number() / kLanes && tick < all.current().warp_tick;
}

void SharedMemory::read(std::size_t offset, std::size_t bytes, const char* file, int line) {
  check_range(offset, bytes, file, line);
  Block& all = block();
  const unsigned own = all.current_number();
  for (std::size_t done = 0; done < bytes;) {
    Note& note = notes_[offset + done];
    if (note.written < all.start_tick()) {
      fail("shared memory: byte %zu is read at %s:%d, and no thread of the block has written it",
           offset + done, file, line);
    }
    if (note.writer != own && !ordered(note.written, note.writer / kLanes)) {
      fail("shared memory: byte %zu is read at %s:%d without a barrier since thread number %u wrote it",
           offset + done, file, line, note.writer);
    }
    const bool others_before = note.read < all.start_tick() || ordered(note.read, note.reader_warp);
    const auto warp = static_cast<std::uint16_t>(own / kLanes);
    if (others_before) {
      note.reader = static_cast<std::uint16_t>(own);
      note.reader_warp = warp;
    } else {
      if (note.reader != own) note.reader = kSeveral;
      if (note.reader_warp != warp) note.reader_warp = kSeveral;
    }
    note.read = all.tick();
    done += note.bytes_left;
  }
}

void SharedMemory::write(std::size_t offset, std::size_t bytes, const char* file, int line) {
  check_range(offset, bytes, file, line);
  Block& all = block();
  const unsigned own = all.current_number();
  for (std::size_t i = 0; i < bytes; ++i) {
    Note& note = notes_[offset + i];
    if (note.written >= all.start_tick() && note.writer != own &&
        !ordered(note.written, note.writer / kLanes)) {
      fail("shared memory: byte %zu is written at %s:%d without a barrier since thread number %u wrote it",
           offset + i, file, line, note.writer);
    }
    if (note.read >= all.start_tick() && note.reader != own && !ordered(note.read, note.reader_warp)) {
      fail("shared memory: byte %zu is written at %s:%d without a barrier since another thread read it",
           offset + i, file, line);
    }
    note.written = all.tick();
    note.writer = static_cast<std::uint16_t>(own);
    note.bytes_left = static_cast<std::uint16_t>(bytes - i);
  }
}

}  // namespace emulated_cuda
