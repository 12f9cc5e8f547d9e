// What a test may ask of the emulated cuDNN. It is a library of its own (libcudnn_emulated.so), opened like
// the real one at the first convolution; this part is in libmezzo.
//
// How it differs from cuDNN, on purpose:
// * It has the descriptors and attributes that mezzo uses, and no other. Whatever cuDNN leaves undefined has
//   a status: destroyed descriptors, descriptors of the wrong kind (cuDNN 9.19 crashes), arrays less aligned
//   than they were said to be, a missing workspace. A replay of a captured map whose plan was destroyed gives
//   NaN.
// * Six engines (enum Engine). Those that want a workspace overwrite all of it. What they compute is right,
//   apart from those whose notes say that mezzo must not take them, which give NaN.
#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)

namespace emulated_cuda {

/// In the order of heuristic mode A; the last is the fallback's.
enum class Engine : int {
  refusing,          ///< has a configuration, but no plan
  nondeterministic,  ///< notes: NONDETERMINISTIC
  winograd,          ///< notes: WINOGRAD
  tensor_core,       ///< arrays aligned to 16 bytes, workspace 64 KiB; rounds f32 to TF32; notes: TENSOR_CORE
  general,           ///< workspace 256 bytes
  fallback,          ///< no workspace
};
inline constexpr int kEngines = 6;

struct DnnState {
  std::atomic<std::uint64_t> heuristics = 0;  ///< questions to the heuristics
  std::atomic<std::uint64_t> maps = 0;        ///< executions that succeeded
  std::atomic<int> last_engine = -1;          ///< of the last execution
  bool mode_a = true;                         ///< whether heuristic mode A has engines
  bool fallback = true;                       ///< whether mode FALLBACK has one
  bool executes = true;                       ///< or executions fail
  /// Milliseconds that a map takes with each engine, on top of its arithmetic.
  int slowness[kEngines] = {};
};

/// Its counters and settings. A test changes the settings while no map is under way.
DnnState& dnn();

}  // namespace emulated_cuda

#pragma GCC visibility pop
