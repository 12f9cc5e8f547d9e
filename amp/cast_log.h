// The seam between autocast and traces (amp/trace.h): what autocast tells of its casts. A thread without a
// trace pays one comparison per cast.
#pragma once

#include "mezzo/core/scope.h"
#include "mezzo/core/tensor.h"

namespace mezzo::amp {

/// Is told of the casts that autocast makes for ops of this thread, which come before the op they are for.
class CastLog {
 public:
  virtual ~CastLog() = default;
  /// The casts that follow are for another op than those before.
  virtual void begin_op() noexcept = 0;
  /// A cast of `tensor` to `dtype` begins. With `kept` it is a weight's, whose 16-bit copy stays with it:
  /// when that is there already, no op runs until the end.
  virtual void begin_cast(const Tensor& tensor, DType dtype, bool kept) noexcept = 0;
  /// The same cast ends; not told to a log that ended meanwhile.
  virtual void end_cast() noexcept = 0;
};

/// Installs a log on its thread while it lives, with the contract of OpObserverGuard; all that live are told.
class CastLogGuard {
 public:
  explicit CastLogGuard(CastLog& log);
  ~CastLogGuard();
  CastLogGuard(const CastLogGuard&) = delete;
  CastLogGuard& operator=(const CastLogGuard&) = delete;

 private:
  mezzo::detail::OpenScope<CastLog*>* scope_;
};

}  // namespace mezzo::amp
