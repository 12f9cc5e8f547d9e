#include "mezzo/kernels/indexing/indexing.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/indexing/cpu.h"
#include "mezzo/kernels/indexing/cuda.h"

namespace mezzo::kernels {

std::int64_t first_wrong_index(Device device, [[maybe_unused]] const char* op, const std::int64_t* indices,
                               std::int64_t n, std::int64_t low, std::int64_t limit) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) {
    cuda::check_indices(device, op, indices, n, low, limit);
    return -1;
  }
#endif
  require_host_kernel(device);
  return cpu::first_wrong_index(indices, n, low, limit);
}

void take(Device device, const View& out, const Places& places) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::take(device, out, places);
#endif
  require_host_kernel(device);
  cpu::take(out, places);
}

void put(Device device, const Places& places, const View& source, const Dims& walked) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::put(device, places, source, walked);
#endif
  require_host_kernel(device);
  cpu::put(places, source, walked);
}

void put_add(Device device, const Places& places, const View& source, const Dims& walked) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::put_add(device, places, source, walked);
#endif
  require_host_kernel(device);
  cpu::put_add(places, source, walked);
}

void put_combined(Device device, const Places& places, const View& source, const Dims& walked, Combine how) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::put_combined(device, places, source, walked, how);
#endif
  require_host_kernel(device);
  cpu::put_combined(places, source, walked, how);
}

void find_index_runs(Device device, const std::int64_t* index, const IndexRuns& runs, std::int64_t skip) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::find_index_runs(device, index, runs, skip);
#endif
  require_host_kernel(device);
  cpu::find_index_runs(index, runs, skip);
}

void sorting_order(Device device, const View& indices, const View& in, std::size_t dim, bool descending) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::sorting_order(device, indices, in, dim, descending);
#endif
  require_host_kernel(device);
  cpu::sorting_order(indices, in, dim, descending);
}

}  // namespace mezzo::kernels
