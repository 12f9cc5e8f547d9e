// Random draws on a thread whose work is captured into a CUDA graph, or may have to be repeated: a recorder
// receives them in place of the generator (core/cuda/graph.cpp, autograd/region.h).
#pragma once

#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/random/random_range.h"
#include "mezzo/core/ref_counted.h"
#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// The sequence of a Generator. Reference-counted, because a graph may draw from it after the generator has
/// ended.
class Sequence final : public RefCounted {
 public:
  explicit Sequence(const GeneratorState& start);

  [[nodiscard]] GeneratorState state() const;
  void set_state(const GeneratorState& state);
  /// Reserves `blocks` blocks and returns the state before.
  [[nodiscard]] GeneratorState advance(std::uint64_t blocks);
  /// Sequences are numbered in the order in which they are made.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  GeneratorState state_;  // behind one lock for all sequences: a draw takes it for a few additions
  const std::uint64_t number_;
};

/// Receives the draws of a thread.
class DrawRecorder {
 public:
  virtual ~DrawRecorder() = default;
  /// The blocks of one draw. Throws StateError for a device other than the one whose work is captured.
  [[nodiscard]] virtual RandomRange record(const Ref<Sequence>& sequence, std::uint64_t blocks,
                                           Device device) = 0;
  /// Generator::set_state. Throws StateError where replays would not seed again.
  virtual void set_state(Sequence& sequence, const GeneratorState& state) = 0;
};

/// Sends this thread's draws from all sequences made before it to `recorder` while it lives.
class DrawRecorderScope : NoCopy {
 public:
  explicit DrawRecorderScope(DrawRecorder& recorder);
  ~DrawRecorderScope();

  /// The recorder that receives this thread's draws from `sequence`, or nullptr.
  [[nodiscard]] static DrawRecorder* recorder_of(const Sequence& sequence) noexcept;
  /// The recorder that would receive the draws without this scope, which is open on this thread; or nullptr.
  [[nodiscard]] DrawRecorder* outer_recorder_of(const Sequence& sequence) const noexcept;

 private:
  /// A recorder, and the number of the last sequence made before its scope.
  struct Entry {
    DrawRecorder* recorder = nullptr;
    std::uint64_t last_number = 0;
  };
  friend struct DrawRecorders;
  Scope<Entry> scope_;
};

}  // namespace mezzo::detail
