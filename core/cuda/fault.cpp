// One fault record per device, and a copy of it in pinned memory. The copy is queued before the host waits
// for a stream and read afterwards; a fault becomes an IndexError.
#include "mezzo/core/cuda/fault.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <string>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

namespace {

/// A device's record and the host's copy of it, in pinned memory. Never freed: kernels may run to the end of
/// the program.
struct Records {
  Fault* on_device = nullptr;
  Fault* on_host = nullptr;
};

std::mutex& mutex() {
  static auto* const one = new std::mutex;
  return *one;
}
std::map<int, Records>& table() {
  static auto* const all = new std::map<int, Records>;
  return *all;
}

Records make_records(int index) {
  const DeviceGuard guard(index);
  const RelaxedCapture relaxed;
  Records records;
  check(cudaMalloc(reinterpret_cast<void**>(&records.on_device), sizeof(Fault)), "cudaMalloc");
  check(cudaMallocHost(reinterpret_cast<void**>(&records.on_host), sizeof(Fault)), "cudaMallocHost");
  *records.on_host = Fault{};
  check(cudaMemcpy(records.on_device, records.on_host, sizeof(Fault), cudaMemcpyHostToDevice), "cudaMemcpy");
  return records;
}

Records find_records(int index) {
  const std::scoped_lock lock(mutex());
  const auto found = table().find(index);
  return found == table().end() ? Records{} : found->second;
}

}  // namespace

Fault* fault_record(Device device) {
  const std::scoped_lock lock(mutex());
  Records& records = table()[device.index];
  if (records.on_device == nullptr) records = make_records(device.index);
  return records.on_device;
}

void fetch_fault(const Stream& stream) {
  const Records records = find_records(stream.device().index);
  if (records.on_device == nullptr) return;
  const DeviceGuard guard(stream.device().index);
  check(cudaMemcpyAsync(records.on_host, records.on_device, sizeof(Fault), cudaMemcpyDeviceToHost,
                        native(stream)),
        "the copy of the fault record");
}

void throw_fault(const Stream& stream) {
  const Records records = find_records(stream.device().index);
  if (records.on_host == nullptr) return;
  Fault fault;
  {
    const std::scoped_lock lock(mutex());  // one copy for all threads
    fault = *records.on_host;
    // Without an op it is one that another thread's copy has written in part: the next wait sees all of it.
    if (fault.flag == 0 || fault.op == nullptr) return;
    *records.on_host = Fault{};
  }
  const DeviceGuard guard(stream.device().index);
  check(cudaMemsetAsync(records.on_device, 0, sizeof(Fault), native(stream)), "cudaMemsetAsync");
  throw IndexError(fault.op, "indices in [0, " + std::to_string(fault.limit) + ")",
                   std::to_string(fault.value) + " at position " + std::to_string(fault.position),
                   "check the indices; optimizer steps since were skipped, so the parameters are intact");
}

}  // namespace mezzo::cuda
