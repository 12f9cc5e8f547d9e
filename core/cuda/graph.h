// Work that is captured once and replayed many times: a CUDA graph with the memory it uses.
#pragma once

#include <functional>
#include <memory>

#include "mezzo/core/cuda.h"

namespace mezzo::cuda {

/// A CUDA graph captured on one device. What it reads and writes has the addresses it had during capture:
/// inputs change by writing into the same tensors.
class Graph : mezzo::detail::NoCopy {
 public:
  /// Runs `work` with its kernels captured instead of run, on a stream of its own, with memory from a pool
  /// that lives as long as the graph. Throws what `work` throws, StateError for work that cannot be captured
  /// (it reads a value back to the host, or waits for the device), DeviceError otherwise; nothing is captured
  /// then, and the device is as before.
  Graph(Device device, const std::function<void()>& work);
  /// Waits for replays under way.
  ~Graph();

  /// Launches the graph in the current stream of the device. Host state that it relies on is restored first,
  /// and the versions of all tensors it writes or allocates are bumped (core/replay/recording.h). Random
  /// numbers are those that the work would draw if it ran now (core/random.h). Throws: StateError when the
  /// work could not be what it was (parameters in other memory, an optimizer that is gone, ...), and for a
  /// stream that captures, if the work draws or uses optimizers, gradients or 16-bit copies.
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::cuda
