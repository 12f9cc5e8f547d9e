// Kernel launches. As on a GPU the arguments are converted to the kernel's parameters and copied as bytes
// when the launch is queued; every thread gets copies of its own, but
// for __grid_constant__ ones, of which there is one.
#pragma once

#include <type_traits>
#include <utility>

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

namespace emulated_cuda::detail {

using AnyKernel = void (*)();

/// What is stored for a parameter.
template <class Param>
using Stored = std::remove_cvref_t<Param>;

/// A kernel's parameter when it is launched.
struct Argument {
  const void* data;
  std::size_t bytes, alignment;
};

/// How one thread is run: calls `kernel` with a copy of what `arguments` point to.
using RunThread = void (*)(AnyKernel kernel, void* const* arguments);

/// Queues a launch; the bytes of `arguments` are copied. Returns what cudaLaunchKernel would.
cudaError_t launch(const cudaLaunchConfig_t& config, AnyKernel kernel, RunThread run,
                   const Argument* arguments, std::size_t count);

template <class... Params, std::size_t... I>
void run_thread(AnyKernel kernel, [[maybe_unused]] void* const* arguments, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(Params...)>(kernel)(*static_cast<Stored<Params>*>(arguments[I])...);
}

}  // namespace emulated_cuda::detail

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "as many arguments as the kernel has parameters");
  static_assert(sizeof...(Params) <= 64, "at most 64 parameters");
  static_assert((std::is_trivially_copyable_v<emulated_cuda::detail::Stored<Params>> && ...),
                "kernel parameters are copied as bytes");
  static_assert(((alignof(Params) <= 16) && ...), "no parameter is aligned beyond 16 bytes");
  static_assert((sizeof(Params) + ... + 0) <= 32764, "kernel parameters are at most 32,764 bytes");
  namespace detail = emulated_cuda::detail;
  const detail::RunThread run = [](detail::AnyKernel function, void* const* arguments) {
    detail::run_thread<Params...>(function, arguments, std::index_sequence_for<Params...>{});
  };
  return [&](detail::Stored<Params>... converted) {
    const detail::Argument arguments[sizeof...(Params) + 1] = {
        {&converted, sizeof(converted), alignof(detail::Stored<Params>)}..., {nullptr, 0, 1}};
    return detail::launch(*config, reinterpret_cast<detail::AnyKernel>(kernel), run, arguments,
                          sizeof...(Params));
  }(std::forward<Args>(args)...);
}

#pragma GCC visibility pop
