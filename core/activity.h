// What each thread does, for a profiler: its ops, modules, phases of a step, waits. The library says it by
// marks; who wants to know listens. One listener for the process, so that every thread is seen.
#pragma once

#include <cstdint>
#include <string_view>

#include "mezzo/core/scope.h"

namespace mezzo {

enum class ActivityKind : std::uint8_t {
  op,           ///< an op's forward. Subject: its OpInfo (autograd/op.h)
  gradient,     ///< one node of a backward. Subject: the autograd::Node
  module_call,  ///< a call of a module. Subject: the nn::Module
  phase,        ///< a part of a training step: "backward", "step", "loader", ...
  host_wait,    ///< the host reads a value of a device, or waits for one
  worker,       ///< a thread of the library at work: a helper of the thread pool, a worker of a loader
};

/// Told of activities on all threads, in pairs that nest on each thread. An `end` may come for a `begin` of
/// before it listened. Must outlive every activity, as an object of static storage does.
class ActivityListener {
 public:
  /// `name`: of static storage, may be empty for a module. `subject`: nullptr or as ActivityKind says, valid
  /// until the end.
  virtual void begin(ActivityKind kind, std::string_view name, const void* subject) noexcept = 0;
  virtual void end() noexcept = 0;
  /// Whether a captured step (amp/captured_step.h) is to run its ops now in place of a replay, so that they
  /// are seen: true once, for whoever asks first.
  [[nodiscard]] virtual bool takes_eager_step() noexcept { return false; }

 protected:
  ~ActivityListener() = default;
};

namespace detail {
inline constinit ActivityListener* listener_of_process = nullptr;  // read and written by the two below
}

/// The listener; nullptr: none.
[[nodiscard]] inline ActivityListener* activity_listener() noexcept {
  return __atomic_load_n(&detail::listener_of_process, __ATOMIC_ACQUIRE);
}
inline void set_activity_listener(ActivityListener* listener) noexcept {
  __atomic_store_n(&detail::listener_of_process, listener, __ATOMIC_RELEASE);
}

/// Marks an activity of this thread while it lives. Without a listener that is one load.
class Activity : detail::NoCopy {
 public:
  explicit Activity(ActivityKind kind, std::string_view name, const void* subject = nullptr) noexcept
      : listener_(activity_listener()) {
    if (listener_ != nullptr) [[unlikely]]
      listener_->begin(kind, name, subject);
  }
  ~Activity() {
    if (listener_ != nullptr) [[unlikely]]
      listener_->end();
  }

 private:
  ActivityListener* listener_;
};

/// A phase of a training step while it lives.
class Phase : Activity {
 public:
  explicit Phase(std::string_view name) noexcept : Activity(ActivityKind::phase, name) {}
};

}  // namespace mezzo
