// Kernel launches. As on a GPU the arguments are converted to the kernel's parameters and copied as bytes
// when the launch is queued; every thread gets copies of its own, but
// for __grid_constant__ ones, of which there is one.
#pragma once

#include <initializer_list>
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
                   std::initializer_list<Argument> arguments);

/// The RunThread of kernels with these parameters, numbered by I.
template <class Numbers, class... Params>
struct Runner;
template <std::size_t... I, class... Params>
struct Runner<std::index_sequence<I...>, Params...> {
  static void run(AnyKernel kernel, [[maybe_unused]] void* const* arguments) {
    reinterpret_cast<void (*)(Params...)>(kernel)(*static_cast<Stored<Params>*>(arguments[I])...);
  }
};

/// What is passed for a parameter, converted to it.
template <class Param>
Argument argument_of(const Stored<Param>& value) {
  return {&value, sizeof(value), alignof(Stored<Param>)};
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
  using Runner = detail::Runner<std::index_sequence_for<Params...>, Params...>;
  // What had to be converted lives to the end of this expression.
  return detail::launch(*config, reinterpret_cast<detail::AnyKernel>(kernel), Runner::run,
                        {detail::argument_of<Params>(std::forward<Args>(args))...});
}

#pragma GCC visibility pop
