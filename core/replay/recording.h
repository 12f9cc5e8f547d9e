// The host's side of work that is recorded once and run many times (core/cuda/graph.h). A replay runs no line
// of the host, so what ops note on the host while they are recorded is noted again at each replay: which
// memory was written, and what optimizers and 16-bit copies of weights take for granted.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/ref_counted.h"
#include "mezzo/core/scope.h"
#include "mezzo/core/storage.h"

namespace mezzo::detail {

/// Something on the host that recorded work depends on or changes. One object for each recording.
class ReplayedState : public RefCounted {
 public:
  /// The recording has ended. What is true now is true after each replay.
  virtual void recorded() = 0;
  /// Makes true again what the recorded work takes for granted, by work in the current stream. Throws
  /// StateError when it cannot.
  virtual void before_replay() = 0;
  /// The replay is in the stream, and versions have counted it.
  virtual void after_replay() noexcept = 0;
};

/// What the host keeps of one recording, as long as the graph.
class Recording {
 public:
  explicit Recording(Device device);
  virtual ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The recording that this thread's work on `device` goes into; nullptr: none.
  [[nodiscard]] static Recording* of(Device device) noexcept;

  /// The state of type T that belongs to `key`; made from `args` at the first call.
  template <class T, class... Args>
  T& state(const void* key, Args&&... args) {
    if (ReplayedState* const found = find(key)) return static_cast<T&>(*found);
    states_.emplace_back(key, make_ref<T>(std::forward<Args>(args)...));
    return static_cast<T&>(*states_.back().second);
  }
  [[nodiscard]] ReplayedState* find(const void* key) const noexcept;

  // What the work makes, and what it writes of memory that was there before, it makes and writes again in
  // each replay: that counts as a write as long as the memory is somebody's. Storage says so by itself.
  /// The same of memory that only kernels of the work write.
  void wrote(Storage& storage) { note(storage, false); }
  /// Whether the work has made or written this memory so far.
  [[nodiscard]] bool has_written(Storage& storage) const;
  /// The graph refers to the memory: it is not freed before the graph. What the work makes is the graph's
  /// anyway.
  void hold(const Ref<Storage>& storage);
  /// Memory that is written before each replay, for the work to read; none of it uses the place for anything
  /// else.
  [[nodiscard]] virtual Ref<Storage> new_input(std::size_t bytes) = 0;

  /// To be called when all work is recorded.
  void finish();
  [[nodiscard]] bool has_states() const noexcept { return !states_.empty(); }
  void before_replay();
  void after_replay() noexcept;

 private:
  friend class mezzo::Storage;
  static void note_in_thread(Storage& storage, bool made);
  /// The memory goes: no replay counts as a write to it any more.
  static void forget(Storage& storage) noexcept;
  void note(Storage& storage, bool made);

  Device device_;
  std::vector<std::pair<const void*, Ref<ReplayedState>>> states_;
  std::unordered_map<Storage*, bool> written_;  // and whether the work has made it
  std::vector<Ref<Storage>> held_;
};

/// While it lives, this thread's work on the recording's device belongs to the recording.
class RecordingScope {
 public:
  explicit RecordingScope(Recording& recording);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Scope<Recording*> scope_;
};

/// Throws StateError: a recorded step cannot be replayed, as `got` is no longer what it was.
[[noreturn]] void refuse_replay(const char* expected, const char* got);

}  // namespace mezzo::detail
