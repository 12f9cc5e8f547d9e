// Marks in streams, and who has to wait for them.
#include "mezzo/core/memory/stream_mark.h"

#include "mezzo/core/tensor.h"

namespace mezzo::detail {

Ref<StreamMark> StreamMark::here(Device device) {
  if (device.is_cpu()) return {};
  const cuda::Stream& stream = cuda::current_stream(device);
  return stream.id() == 0 ? Ref<StreamMark>() : make_ref<StreamMark>(stream);
}

void StreamMark::wait(Ref<StreamMark>& mark, const Tensor& memory) {
  const Device device = memory.device();
  if (device.is_cpu()) return;
  const cuda::Stream& reader = cuda::current_stream(device);
  if (reader.id() == (mark ? mark->stream_ : 0)) return;
  if (!mark) mark = of_default_stream(device);
  mark->event_.wait(reader);
  cuda::record_stream(memory, reader);
}

}  // namespace mezzo::detail
