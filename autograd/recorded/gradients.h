// `.grad` of leaves around replays of a captured CUDA graph (core/cuda/graph.h): a replay writes gradients
// without the engine, which otherwise sets `.grad`.
#pragma once

#include <vector>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/core/replay/recording.h"

namespace mezzo::autograd {

/// The gradients that one captured graph reads, adds to, sets or drops. After each replay leaves have the
/// `.grad` that they had at the end of the capture. A replay throws when the graph reads or adds to a `.grad`
/// that has other memory than at capture, is gone, or was not there at capture.
class RecordedGradients final : public mezzo::detail::ReplayedState {
 public:
  /// Restores `.grad` after a capture that failed.
  ~RecordedGradients() override;

  /// The capturing thread is about to read `.grad`, or to add to it.
  static void used(AutogradMeta& meta, Device device) { note(meta, device, true); }
  /// The capturing thread is about to replace or drop `.grad` without reading it.
  static void replaced(AutogradMeta& meta, Device device) { note(meta, device, false); }

  void recorded() override;
  void before_replay() override;
  void after_replay() noexcept override;

 private:
  struct Gradient {
    Ref<AutogradMeta> meta;
    bool used = false;
    Tensor before;  ///< undefined: there was none, or it does not matter
    Tensor after;
  };

  static void note(AutogradMeta& meta, Device device, bool used);
  void put_back() noexcept;

  bool recorded_ = false;
  std::vector<Gradient> gradients_;
};

}  // namespace mezzo::autograd
