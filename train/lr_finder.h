// find_lr: the learning-rate range test.
//   train::TrainerOptions options{.model = net, ...};
//   const train::LRFinderResult found = train::find_lr(options);
//   if (found.suggestion) adam.set_lr(*found.suggestion);
//   train::Trainer(options).fit();
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mezzo/train/trainer.h"

namespace mezzo::train {

struct LRFinderOptions {
  double min_lr = 1e-7, max_lr = 10;
  std::int64_t steps = 100;
  double smoothing = 0.98;  ///< of the losses: how much of the mean so far stays, in [0, 1)
  double stop_factor = 4;   ///< ends when the smoothed loss is above the least one times this
  std::int64_t skip_begin = 10, skip_end = 5;  ///< points that the suggestion does not look at
};
struct LRFinderResult {
  std::vector<double> rates, losses;  ///< per step: the first group's rate, and the smoothed loss
  /// Where the loss falls fastest along the logarithm of the rate; none of fewer than 3 points, and where it
  /// falls nowhere.
  std::optional<double> suggestion;
  bool diverged = false;  ///< ended before max_lr
};
/// Trains with rates that grow exponentially from min_lr to max_lr, and records the loss of each step (one
/// host read each), until it diverges or is not finite. It runs the trainer of these options with their
/// algorithms, without schedule, callbacks, sinks, evaluation and checkpoints. The rates of several groups
/// keep their ratios to the first one's.
///
/// Afterwards model (values, mode, requires_grad), optimizer, default generator, and the place of a
/// data::DataLoader are what they were, also after an exception; gradients are gone. Layers that an algorithm
/// has put into the model (norms in low precision) stay.
/// Throws: ValueError unless 0 < min_lr < max_lr, steps >= 2, smoothing in [0, 1), stop_factor > 1, skips >=
/// 0, and for LBFGS, which searches its step itself; what the Trainer throws.
/// Source: Smith, arXiv:1506.01186; fastai's Learner.lr_find; lightning.pytorch.tuner.Tuner.lr_find.
[[nodiscard]] LRFinderResult find_lr(TrainerOptions options, const LRFinderOptions& finder = {});

}  // namespace mezzo::train
