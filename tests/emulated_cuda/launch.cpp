// Kernel launches: checks of the configuration, and the copy of the arguments.
#include "emulated_cuda/launch.h"

#include <cstring>
#include <memory>

#include "block.h"
#include "capture.h"
#include "runtime.h"
#include "shared_memory.h"

namespace emulated_cuda::detail {
namespace {

bool valid(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const auto within = [](unsigned value, unsigned most) { return value >= 1 && value <= most; };
  return within(grid.x, 0x7fffffff) && within(grid.y, 65535) && within(grid.z, 65535) &&
         within(block.x, kMaxThreads) && within(block.y, kMaxThreads) && within(block.z, 64) &&
         within(block.x * block.y * block.z, kMaxThreads) && config.dynamicSmemBytes <= kMaxShared;
}

KernelCall copy_call(const cudaLaunchConfig_t& config, AnyKernel kernel, RunThread run,
                     std::initializer_list<Argument> arguments) {
  KernelCall result{kernel, run, config.gridDim, config.blockDim, config.dynamicSmemBytes, {}, {}};
  std::size_t bytes = 0;
  for (const Argument& argument : arguments) {
    bytes = (bytes + argument.alignment - 1) / argument.alignment * argument.alignment;
    result.offsets.push_back(bytes);
    bytes += argument.bytes;
  }
  result.bytes.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  auto* const memory = reinterpret_cast<std::byte*>(result.bytes.data());
  auto offset = result.offsets.begin();
  for (const Argument& argument : arguments) std::memcpy(memory + *offset++, argument.data, argument.bytes);
  return result;
}

/// Loads a kernel that is launched for the first time, where that is emulated.
cudaError_t load(AnyKernel kernel) {
  auto& loaded = runtime().loaded;
  if (!loaded || loaded->contains(kernel)) return cudaSuccess;
  if (const cudaError_t error = forbid_unsafe(); error != cudaSuccess) return error;
  loaded->insert(kernel);
  return cudaSuccess;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, AnyKernel kernel, RunThread run,
                   std::initializer_list<Argument> arguments) {
  return call([&] {
    const cudaStream_t stream = find_stream(config.stream);
    if (stream == nullptr || stream->device != current_device()) return cudaErrorInvalidResourceHandle;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (config.numAttrs != 0) return cudaErrorNotSupported;
    if (!valid(config)) return cudaErrorInvalidConfiguration;
    if (const cudaError_t error = load(kernel); error != cudaSuccess) return error;
    auto work = [kernel_call = copy_call(config, kernel, run, arguments)] {
      ++runtime().counts.launches;
      block().run(kernel_call);
    };
    return submit(stream, std::make_shared<Task>(Task{std::move(work)}));
  });
}

}  // namespace emulated_cuda::detail

void emulated_cuda::load_kernels_at_first_launch(bool on) {
  const std::lock_guard lock(runtime_mutex());
  runtime().loaded.reset();
  if (on) runtime().loaded.emplace();
}
