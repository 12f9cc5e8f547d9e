// The host's side of a captured CUDA graph (core/cuda/graph.h). A replay runs no host code, so each replay
// repeats what ops noted on the host during capture: which memory was written, and which state of optimizers
// and of 16-bit copies of weights the kernels rely on.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/ref_counted.h"
#include "mezzo/core/scope.h"
#include "mezzo/core/storage.h"

namespace mezzo::detail {

/// Host state that a captured graph depends on or changes. One object for each Recording.
class ReplayedState : public RefCounted {
 public:
  /// The capture has ended: the state as it is now is the state after each replay.
  virtual void recorded() = 0;
  /// Restores, by work in the current stream, the state that the captured kernels rely on. Throws StateError
  /// when it cannot.
  virtual void before_replay() = 0;
  /// The replay is in the stream, and the versions of all tensors it writes are bumped.
  virtual void after_replay() noexcept = 0;
};

/// What the host keeps of one captured graph, as long as the graph lives.
class Recording : NoCopy {
 public:
  explicit Recording(Device device);
  virtual ~Recording();

  /// The Recording of the graph that this thread is capturing on `device`; nullptr: none.
  [[nodiscard]] static Recording* of(Device device) noexcept;

  /// The state of type T that belongs to `key`; made from `args` at the first call.
  template <class T, class... Args>
  T& state(const void* key, Args&&... args) {
    if (ReplayedState* const found = find(key)) return static_cast<T&>(*found);
    states_.emplace_back(key, make_ref<T>(std::forward<Args>(args)...));
    return static_cast<T&>(*states_.back().second);
  }
  [[nodiscard]] ReplayedState* find(const void* key) const noexcept;

  // Each replay bumps the version of every storage that was allocated or written during capture, as long as
  // the storage lives. Storage reports its allocation and writes by itself.
  /// Reports a write that only kernels make, without a version bump on the host.
  void wrote(Storage& storage) { note(storage, false); }
  /// Whether the storage was allocated or written during the capture so far.
  [[nodiscard]] bool has_written(Storage& storage) const;
  /// The graph refers to the memory: it is not freed before the graph. Storages that the work allocates are
  /// the graph's anyway.
  void hold(const Ref<Storage>& storage);
  /// What replays need (a plan of a vendor's library) lives as long as the graph.
  void hold(std::shared_ptr<const void> needed) { needed_.insert(std::move(needed)); }
  /// Memory that is written before each replay, for the work to read; none of it uses the place for anything
  /// else.
  [[nodiscard]] virtual Ref<Storage> new_input(std::size_t bytes) = 0;

  /// To be called when all work is captured.
  void finish();
  [[nodiscard]] bool has_states() const noexcept { return !states_.empty(); }
  void before_replay();
  void after_replay() noexcept;

 private:
  friend class mezzo::Storage;
  static void note_in_thread(Storage& storage, bool made);
  /// The storage is freed: replays no longer bump its version.
  static void forget(Storage& storage) noexcept;
  void note(Storage& storage, bool made);

  Device device_;
  std::vector<std::pair<const void*, Ref<ReplayedState>>> states_;
  std::unordered_map<Storage*, bool> written_;  // and whether the work has made it
  std::vector<Ref<Storage>> held_;
  std::unordered_set<std::shared_ptr<const void>> needed_;
};

/// While it lives, this thread's work on the Recording's device belongs to the Recording.
class RecordingScope : NoCopy {
 public:
  explicit RecordingScope(Recording& recording);
  ~RecordingScope();

 private:
  Scope<Recording*> scope_;
};

/// Throws StateError: a captured step cannot be replayed, as `got` is no longer what it was.
[[noreturn]] void refuse_replay(const char* expected, const char* got);

}  // namespace mezzo::detail
