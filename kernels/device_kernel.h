// Kernels that each device defines for itself, declared once: MEZZO_KERNEL(name, signature).
#pragma once

#include <utility>

#include "mezzo/core/device.h"

namespace mezzo::kernels {

/// Throws: DeviceError, as this library was built without the kernels of `device`.
[[noreturn]] void refuse_device(Device device);

template <class Kernel, class Signature>
class DeviceKernel;

/// A kernel of all devices, called with the device before its arguments: `max_pool(device, pooling, y,
/// indices, x)`. `Kernel` names its definitions as on_cpu() and on_cuda().
template <class Kernel, class Result, class... Args>
class DeviceKernel<Kernel, Result(Args...)> {
 public:
  /// Throws: DeviceError when this library was built without the kernels of `device`.
  [[nodiscard]] Result operator()(Device device, Args... args) const {
    if (device.is_cpu()) return Kernel::on_cpu()(std::forward<Args>(args)...);
    if (Kernel::on_cuda() == nullptr) refuse_device(device);
    return Kernel::on_cuda()(device, std::forward<Args>(args)...);
  }
};

namespace detail {

template <class Signature>
struct Signatures;
template <class Result, class... Args>
struct Signatures<Result(Args...)> {
  using OnCpu = Result(Args...);
  using OnCuda = Result(Device, Args...);
};

}  // namespace detail

}  // namespace mezzo::kernels

/// Declares the kernel `name` in namespace mezzo::kernels. Its family defines cpu::name(args...) in a
/// `cpu*.cpp` and cuda::name(device, args...) in a `cuda*.cu`. The latter is a weak symbol: a library that
/// was built without CUDA has none, and its address is null.
#define MEZZO_KERNEL(name, ...)                                                               \
  namespace cpu {                                                                             \
  kernels::detail::Signatures<__VA_ARGS__>::OnCpu name;                                       \
  }                                                                                           \
  namespace cuda {                                                                            \
  __attribute__((weak)) kernels::detail::Signatures<__VA_ARGS__>::OnCuda name;                \
  }                                                                                           \
  struct name##_kernel : DeviceKernel<name##_kernel, __VA_ARGS__> {                           \
    static kernels::detail::Signatures<__VA_ARGS__>::OnCpu* on_cpu() { return cpu::name; }    \
    static kernels::detail::Signatures<__VA_ARGS__>::OnCuda* on_cuda() { return cuda::name; } \
  };                                                                                          \
  inline constexpr name##_kernel name {}
