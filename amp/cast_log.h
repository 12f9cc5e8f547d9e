// The seam between autocast and traces (amp/trace.h): what autocast tells of its casts. A thread without a
// trace pays one comparison per cast.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::amp {

/// Is told of the casts that autocast makes for ops of this thread, which come before the op they are for.
class CastLog {
 public:
  virtual ~CastLog() = default;
  /// A cast of `tensor` to `dtype` begins. With `kept` it is a weight's, whose 16-bit copy stays with it:
  /// when that is there already, no op runs until the end.
  virtual void begin_cast(const Tensor& tensor, DType dtype, bool kept) noexcept = 0;
  virtual void end_cast() noexcept = 0;
};

/// Installs the log of the calling thread (nullptr: none); returns the one before.
CastLog* set_cast_log(CastLog* log) noexcept;

}  // namespace mezzo::amp
