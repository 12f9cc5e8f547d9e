// Work that is recorded once and run many times: a CUDA graph with the memory it uses.
#pragma once

#include <functional>
#include <memory>

#include "mezzo/core/cuda.h"

namespace mezzo::cuda {

/// A recorded piece of work on one device. What it reads and writes has the addresses it had while recording:
/// inputs change by writing into the same tensors.
class Graph {
 public:
  /// Runs `work` with its kernels recorded instead of run, on a stream of its own, with memory from a pool
  /// that lives as long as the graph. Throws what `work` throws, StateError for work that cannot be recorded
  /// (it reads a value back to the host, or waits for the device), DeviceError otherwise; nothing is recorded
  /// then, and the device is as before.
  Graph(Device device, const std::function<void()>& work);
  /// Waits for replays under way.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Puts the recorded work into the current stream of the device. What it takes for granted of the host is
  /// made true first, and versions count a write to all that it writes or makes (core/replay/recording.h).
  /// Random numbers are those that the work would draw if it ran now (core/random.h). Throws: StateError when
  /// the work could not be what it was (parameters in other memory, an optimizer that is gone, ...), and for
  /// a stream that captures, if the work draws or uses optimizers, gradients or 16-bit copies.
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::cuda
