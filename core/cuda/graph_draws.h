// Random numbers in a CUDA graph. A captured kernel cannot be told at a replay which blocks of the sequence
// it gets, so it reads where they begin from memory of the graph, which every replay writes anew. That memory
// is not of the graph's pool, whose blocks earlier work of the step may have used.
#pragma once

#include <vector>

#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/random/draw_recorder.h"
#include "mezzo/core/storage.h"

namespace mezzo::cuda {

/// Random blocks that a graph draws in one replay, by generator. A graph that does not draw keeps nothing.
class GraphDraws final : public mezzo::detail::DrawRecorder {
 public:
  explicit GraphDraws(Device device) : device_(device) {}

  /// Counts the blocks; base is a record in memory that nothing else in the graph uses.
  [[nodiscard]] RandomRange record(const Ref<mezzo::detail::Sequence>& sequence, std::uint64_t blocks,
                                   Device device) override;
  void set_state(mezzo::detail::Sequence& sequence, const GeneratorState& state) override;
  /// Reserves what one replay takes of each sequence and writes where it begins, in the order of `stream` and
  /// after the replay before. Throws StateError while `stream` captures.
  void before_replay(const Stream& stream);
  /// To be called after the replay has been put into `stream`.
  void after_replay(const Stream& stream);

 private:
  struct Source {
    Ref<mezzo::detail::Sequence> sequence;
    Ref<Storage> base;         // a GeneratorState
    std::uint64_t blocks = 0;  // of one replay
  };

  Device device_;
  std::vector<Source> sources_;
  Event replayed_;
};

}  // namespace mezzo::cuda
