// Which device a tensor lives on. A Device is a small value; what a device can do is behind core/backend.h.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/host_device.h"

namespace mezzo {

enum class DeviceType : std::uint8_t { cpu, cuda };
inline constexpr int kDeviceTypeCount = 2;

/// A device type and an ordinal. Making a value never touches the device; using one that is not there throws
/// DeviceError.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  [[nodiscard]] static constexpr Device cpu() { return {}; }
  [[nodiscard]] static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, index}; }
  /// cuda:0 when a CUDA device is usable in this build on this machine, else the CPU.
  [[nodiscard]] static Device best();
  /// Parses "cpu", "cuda" or "cuda:N". Throws: ValueError otherwise.
  [[nodiscard]] static Device parse(const std::string& text);
  [[nodiscard]] constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  [[nodiscard]] constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  friend constexpr bool operator==(const Device& a, const Device& b) {
    return a.type == b.type && a.index == b.index;
  }
};

/// "cpu", "cuda:0", ...
[[nodiscard]] std::string to_string(Device device);

}  // namespace mezzo
