// The registry of backends, the CPU's own backend, and the Device functions that need them.
#include "mezzo/core/backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/blocks.h"

namespace mezzo {

namespace {

constexpr std::size_t kAlignment = 64;  // one cache line, and the widest vector load

void* mapped(std::size_t bytes) noexcept {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

std::size_t rounded_up(std::size_t bytes, std::size_t step) noexcept {
  return (bytes + step - 1) / step * step;
}

/// The addresses of the first whole page in a block, and behind the last one.
std::pair<std::uintptr_t, std::uintptr_t> whole_pages(void* memory, std::size_t bytes,
                                                      std::size_t page) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return {(address + page - 1) / page * page, (address + bytes) / page * page};
}

/// Asks for large pages where they fit into a new block: a pass over many large arrays, as an optimizer's
/// step is, otherwise spends a tenth of its time on finding pages. A hint; nothing depends on it.
void ask_for_large_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_HUGEPAGE)
  const auto [begin, end] = whole_pages(memory, bytes, std::size_t{2} << 20U);
  if (memory != nullptr && begin < end)
    static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));
#endif
}

class CpuBackend final : public Backend {
 public:
  [[nodiscard]] int device_count() const override { return 1; }
  [[nodiscard]] std::string description() const override { return "cpu"; }
  [[nodiscard]] void* allocate(std::size_t bytes, int /*index*/) override {
    void* const memory = detail::is_large_block(bytes)
                             ? mapped(bytes)
                             : std::aligned_alloc(kAlignment, rounded_up(bytes, kAlignment));
    ask_for_large_pages(memory, bytes);
    return memory;
  }
  void deallocate(void* memory, std::size_t bytes, int /*index*/) noexcept override {
    if (memory != nullptr && detail::is_large_block(bytes))
      ::munmap(memory, bytes);
    else
      std::free(memory);
  }
  void discard(void* memory, std::size_t bytes, int /*index*/) noexcept override {
    const auto [begin, end] = whole_pages(memory, bytes, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
    if (begin < end) static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
  }
  void copy_from_host(void* device, const void* host, std::size_t bytes, int /*index*/) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes, int /*index*/) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void copy_within(void* to, const void* from, std::size_t bytes, int /*index*/) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void set_zero(void* memory, std::size_t bytes, int /*index*/) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  void synchronize(int /*index*/) override {}
};

std::array<Backend*, kDeviceTypeCount>& table() {
  // Never destroyed: tensors in static objects may be freed after it would be.
  static auto* const cpu = new CpuBackend;
  static std::array<Backend*, kDeviceTypeCount> backends{cpu, nullptr};
  return backends;
}

std::atomic<std::uint64_t> host_read_count{0};

}  // namespace

void register_backend(DeviceType type, Backend& backend) {
  table()[static_cast<std::size_t>(type)] = &backend;
}

Backend* find_backend(DeviceType type) noexcept { return table()[static_cast<std::size_t>(type)]; }

Backend& backend(Device device) {
  Backend* const found = find_backend(device.type);
  if (found == nullptr) {
    throw DeviceError("device", "a device of this build", to_string(device),
                      "mezzo was built without CUDA: use Device::cpu() or Device::best()");
  }
  const int count = found->device_count();
  if (count == 0) throw DeviceError("device", "a usable device", to_string(device), found->description());
  if (device.index < 0 || device.index >= count) {
    throw DeviceError("device", "an index from 0 to " + std::to_string(count - 1), to_string(device),
                      "the devices are: " + found->description());
  }
  return *found;
}

void synchronize(Device device) {
  const Activity wait(ActivityKind::host_wait, "synchronize");
  backend(device).synchronize(device.index);
}

std::uint64_t host_reads() noexcept { return host_read_count.load(std::memory_order_relaxed); }
HostRead::HostRead(std::string_view call) noexcept : Activity(ActivityKind::host_wait, call) {
  host_read_count.fetch_add(1, std::memory_order_relaxed);
}

Device Device::best() {
  const Backend* cuda = find_backend(DeviceType::cuda);
  return cuda != nullptr && cuda->device_count() > 0 ? Device::cuda(0) : Device::cpu();
}

Device Device::parse(const std::string& text) {
  if (text == "cpu") return Device::cpu();
  if (text == "cuda") return Device::cuda(0);
  const bool numbered = text.rfind("cuda:", 0) == 0 && text.size() > 5 && text.size() < 10 &&
                        text.find_first_not_of("0123456789", 5) == std::string::npos;
  if (!numbered)
    throw ValueError("Device::parse", "cpu, cuda or cuda:N", "\"" + text + "\"", "name one of these");
  return Device::cuda(std::stoi(text.substr(5)));
}

std::string to_string(Device device) {
  return device.is_cpu() ? std::string("cpu") : "cuda:" + std::to_string(device.index);
}

}  // namespace mezzo
