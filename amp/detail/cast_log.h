// The interface between autocast and traces (amp/trace.h): autocast reports its casts. A thread without a
// trace pays one comparison per cast.
#pragma once

#include "mezzo/core/scope.h"
#include "mezzo/core/tensor.h"

namespace mezzo::amp {

/// Is called for the casts that autocast makes on this thread. They come before the op that they are made
/// for.
class CastLog {
 public:
  virtual ~CastLog() = default;
  /// The casts that follow are made for a new op.
  virtual void begin_op() noexcept = 0;
  /// A cast of `tensor` to `dtype` begins. `kept`: the tensor is a weight whose 16-bit copy is cached; if the
  /// cache has it already, no op runs before the end.
  virtual void begin_cast(const Tensor& tensor, DType dtype, bool kept) noexcept = 0;
  /// The cast of the last begin_cast ends. Not called on a log that ended meanwhile.
  virtual void end_cast() noexcept = 0;
};

/// Installs a log on its thread while it lives, with the contract of OpObserverGuard; but all logs that live
/// are called.
class CastLogGuard : mezzo::detail::NoCopy {
 public:
  explicit CastLogGuard(CastLog& log);
  ~CastLogGuard();

 private:
  mezzo::detail::OpenScope<CastLog*>* scope_;
};

}  // namespace mezzo::amp
