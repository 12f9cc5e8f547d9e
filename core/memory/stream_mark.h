// Order between streams for memory that one thread writes and others read without knowing of each other: a
// cache of the library's (autograd/half_copy.h), not what a program orders by itself.
#pragma once

#include "mezzo/core/cuda.h"
#include "mezzo/core/ref_counted.h"

namespace mezzo::detail {

/// A place in a stream at which something was written. The default stream of a device lives for ever, so its
/// place can be taken when a reader asks: an empty Ref stands for it, and programs that use no other stream
/// pay nothing.
class StreamMark final : public RefCounted {
 public:
  explicit StreamMark(const cuda::Stream& stream) : stream_(stream.id()) { event_.record(stream); }

  /// The current place of this thread's stream; nothing on the CPU.
  [[nodiscard]] static Ref<StreamMark> here(Device device);
  /// Lets this thread's stream wait for the place `mark` in the device's streams, unless it is the same
  /// stream, and keeps `memory`, which is the other stream's, until the reader has done with it.
  static void wait(Ref<StreamMark>& mark, const Tensor& memory);

 private:
  /// The present place of the device's default stream. In core/cuda/stream.cpp and core/no_cuda/.
  [[nodiscard]] static Ref<StreamMark> of_default_stream(Device device);

  std::uint64_t stream_;
  cuda::Event event_;
};

}  // namespace mezzo::detail
