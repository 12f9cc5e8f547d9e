// What a program needs of CUDA beyond Device::cuda(): whether it is available and why not, streams and
// events. No CUDA header is included. All of it compiles and links in a build without CUDA, where no device
// is available and making a Stream throws DeviceError.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/device.h"
#include "mezzo/core/scope.h"

namespace mezzo {
class Tensor;
}

namespace mezzo::cuda {

/// Whether at least one CUDA device can be used in this build on this machine. The first question of this
/// kind looks for the driver; nothing of CUDA happens before.
[[nodiscard]] bool is_available();
/// Number of usable CUDA devices; 0 without driver, device or CUDA build.
[[nodiscard]] int device_count();
/// Empty when CUDA is usable, else one line with cause and cure ("CUDA is not used: ...").
[[nodiscard]] std::string why_unavailable();
/// The memory that a device's allocator holds, as a table: per stream and size class the bytes in use, cached
/// and the largest free block. Works for the CPU too (one line). Throws: DeviceError when it is not there.
[[nodiscard]] std::string memory_summary(Device device);

/// Whether products of f32 matrices may run in TF32 on a CUDA device: f32 range, 11 bits of precision,
/// several times as fast (torch.backends.cuda.matmul.allow_tf32). Off at first. 16-bit and f64 products do
/// not care.
[[nodiscard]] bool allow_tf32();
void set_allow_tf32(bool allow);

/// Whether the first product of its sizes, strides and dtypes is timed with several algorithms of the vendor
/// library and the fastest is kept, instead of the recommended one (torch.backends.cudnn.benchmark). Off at
/// first. That first call waits for the device. Timing is never the same twice, so with this on the bits of a
/// product may differ between processes; within a process they stay. A product that is first met in a stream
/// capture takes the recommended one until it is met outside.
[[nodiscard]] bool benchmark();
void set_benchmark(bool on);

/// The algorithms of cuBLASLt's products and cuDNN's convolutions so far, a line each: device, sizes, dtypes
/// and epilogue, then the algorithm with its tile, stages and split over k, or the engine, the workspace, and
/// whether it was the fastest of several (see benchmark) or is the one recommended by the library.
/// Algorithms, tiles and stages are numbered as in cublasLt.h. Empty before the first, and in a build without
/// CUDA.
[[nodiscard]] std::string plans();

/// How the device shall prefer a stream's work to the work of other streams.
enum class Priority { normal, high };

/// A queue of work on one device: its work runs in order, and in no order with other streams' work unless an
/// Event says so. Owns the CUDA stream (non-blocking: it does not wait for the legacy default stream).
/// Neither copied nor moved, because StreamGuard and memory blocks refer to it.
class Stream : mezzo::detail::NoCopy {
 public:
  /// Throws: DeviceError when the device is not there or is no CUDA device.
  explicit Stream(Device device = Device::cuda(0), Priority priority = Priority::normal);
  /// Waits for the work in it. Memory that was allocated on it goes to the default stream.
  ~Stream();

  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Unique among all streams of the process, also of destroyed streams; the default streams have 0.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// The cudaStream_t (core/cuda/stream.h has `native`).
  [[nodiscard]] void* handle() const noexcept { return handle_; }

  /// Waits until all work in the stream has run. Throws: DeviceError that names the ops launched last when
  /// one of them failed, StateError while the stream captures.
  void synchronize() const;
  /// Whether all work in the stream has run. Throws: as `synchronize`.
  [[nodiscard]] bool query() const;
  /// Whether work goes into a CUDA graph instead of running.
  [[nodiscard]] bool is_capturing() const;

 private:
  friend const Stream& default_stream(int index);
  struct Default {};
  Stream(Device device, Default /*tag*/);

  Device device_;
  std::uint64_t id_;
  void* handle_ = nullptr;
};

/// The stream that this thread's ops on the device run in: the innermost StreamGuard's, else one stream of
/// the library that all threads share. The overload takes the device's index.
[[nodiscard]] const Stream& current_stream(Device device);
[[nodiscard]] const Stream& current_stream(int index = 0);

/// Makes `stream` the current one of its device for this thread while the guard lives; of several the newest
/// that lives counts. The stream must live longer. Guards may end in any order, on another thread and after
/// the thread that made them. When another thread ends one, the thread that made it notices at its next op;
/// the thread that ends it does not change.
class StreamGuard : mezzo::detail::NoCopy {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();

 private:
  mezzo::detail::OpenScope<const Stream*>* scope_;
};

/// Whether an Event remembers when it happened, which costs a little.
enum class Timing { off, on };

/// A mark in a stream's order. An event that was never recorded counts as past.
class Event {
 public:
  explicit Event(Timing timing = Timing::off) noexcept : timing_(timing) {}
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Puts the mark behind all work in the stream so far; an earlier mark is forgotten. Throws: ValueError
  /// when it was recorded on another device before.
  void record(const Stream& stream);
  /// Lets the stream's later work wait for the mark; the host goes on.
  void wait(const Stream& stream) const;
  /// Lets the host wait for the mark. Throws: DeviceError as Stream::synchronize.
  void synchronize() const;
  /// Whether the mark was reached.
  [[nodiscard]] bool query() const;
  /// Milliseconds from `start` to this event; both recorded with Timing::on and reached. Throws: StateError
  /// otherwise.
  [[nodiscard]] float elapsed_ms(const Event& start) const;
  /// The cudaEvent_t; nullptr before the first record.
  [[nodiscard]] void* handle() const noexcept { return handle_; }

 private:
  Timing timing_;
  int index_ = -1;  // device; known from the first record on
  void* handle_ = nullptr;
};

/// Says that work in `stream` uses the tensor's memory, which was allocated on another stream: after the last
/// handle is gone the memory is not used again before that work has run (torch.Tensor.record_stream). Nothing
/// happens for CPU tensors.
void record_stream(const Tensor& tensor, const Stream& stream);

}  // namespace mezzo::cuda
