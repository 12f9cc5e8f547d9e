// `.grad` of leaves and recorded work (core/cuda/graph.h): a replay writes gradients without the engine,
// which is what gives them to their leaves.
#pragma once

#include <vector>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/core/replay/recording.h"

namespace mezzo::autograd {

/// The gradients that one recording reads, adds to, sets or drops. After each replay leaves have the `.grad`
/// that they had when it was recorded. A replay throws when the work reads or adds to a gradient and there is
/// another one than when it was recorded, or none any more, or one where there was none.
class RecordedGradients final : public mezzo::detail::ReplayedState {
 public:
  /// Gives back what a recording that failed has taken.
  ~RecordedGradients() override;

  /// The recording thread is about to use `.grad` as it is: to read it, or to add to it.
  static void used(AutogradMeta& meta, Device device) { note(meta, device, true); }
  /// It is about to be replaced or dropped, whatever it is.
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
