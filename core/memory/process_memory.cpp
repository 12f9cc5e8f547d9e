// The process's figures from /proc.
#include "mezzo/core/memory/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

namespace mezzo {

namespace {

/// The number of kB behind `name` in the text of /proc/self/status, in bytes; 0 without one.
std::int64_t status_bytes(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + name.size());
  const std::size_t digit = text.find_first_not_of(" \t");
  if (digit == std::string_view::npos) return 0;
  text.remove_prefix(digit);
  std::int64_t kilobytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace

ProcessMemory process_memory() {
  const int descriptor = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  std::array<char, 8192> text{};
  std::size_t size = 0;
  ssize_t count = 0;
  while ((count = ::read(descriptor, text.data() + size, text.size() - size)) > 0)
    size += static_cast<std::size_t>(count);
  ::close(descriptor);
  const std::string_view status(text.data(), size);
  return {.resident = status_bytes(status, "\nVmRSS:"), .peak = status_bytes(status, "\nVmHWM:")};
}

std::string memory_line(Device device, const MemoryStats& stats) {
  const auto megabytes = [](std::int64_t bytes) {
    return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
  };
  const ProcessMemory process = process_memory();
  return to_string(device) + ": at most " + megabytes(stats.peak) + " in tensors, " +
         megabytes(stats.cached) + " cached now" +
         (process.peak > 0 ? "; process at most " + megabytes(process.peak) : "");
}

}  // namespace mezzo
