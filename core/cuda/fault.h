// Invalid data that a kernel met: an index out of range. The kernel must neither use it nor stop the process,
// so it writes down what it saw; optimizer kernels obey it like an overflow, and the next time the host waits
// for the device it throws.
#pragma once

#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/host_device.h"

namespace mezzo::cuda {

class Stream;

/// One record per device, in its memory.
struct Fault {
  std::uint32_t flag = 0;     ///< 1 from the first report until the host has thrown it
  const char* op = nullptr;   ///< host memory that lives forever; a kernel only passes it on
  std::int64_t position = 0;  ///< row-major, of the wrong index
  std::int64_t value = 0;     ///< the wrong index
  std::int64_t limit = 0;     ///< it should have been in [0, limit)

  /// To be called by one thread of a kernel. Later reports are dropped.
  MEZZO_HD void report(const char* by, std::int64_t at, std::int64_t wrong, std::int64_t end) {
    if (flag != 0) return;
    op = by;
    position = at;
    value = wrong;
    limit = end;
#if defined(__CUDA_ARCH__)
    __threadfence();  // who sees the flag sees the rest
#endif
    flag = 1;
  }
};

/// The record of a device. Throws DeviceError when the device is not there.
[[nodiscard]] Fault* fault_record(Device device);

/// Puts a copy of the record behind the work in `stream`, for throw_fault after the host has waited for it.
/// Does nothing on a device that has had no record yet.
void fetch_fault(const Stream& stream);
/// Throws IndexError when the copy holds a fault, which is then forgotten.
void throw_fault(const Stream& stream);

}  // namespace mezzo::cuda
