// ReduceLROnPlateau: a learning rate that falls when a metric no longer improves. It follows no function of
// the step, so it decides on the host, unlike the schedulers of optim/lr_scheduler.h.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/schedule.h"

namespace mezzo::optim {

/// Whether a better metric is a smaller or a larger one.
enum class PlateauMode { min, max };
/// Whether a metric has to be better by a part of the best one or by an amount.
enum class ThresholdMode { rel, abs };

/// torch.optim.lr_scheduler.ReduceLROnPlateau's options.
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;         ///< in [0, 1)
  std::int64_t patience = 10;  ///< at least 0
  double threshold = 1e-4;     ///< at least 0
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;      ///< at least 0
  PerGroup<double> min_lr = 0.0;  ///< at least 0
  double eps = 1e-8;              ///< at least 0
};

/// A step is good when its metric is below best * (1 - threshold), or best - threshold for ThresholdMode::abs
/// (above best * (1 + threshold), best + threshold for PlateauMode::max), and `best` becomes the metric.
/// After more than `patience` steps in a row that are not good, each group's learning rate becomes max(lr *
/// factor, min_lr) if that is less by more than eps; the next `cooldown` steps then do not count as bad. It
/// takes the rate as it finds it, so others may set it too. The optimizer has to outlive it.
class ReduceLROnPlateau : mezzo::detail::NoCopy {
 public:
  using Options = ReduceLROnPlateauOptions;
  /// Throws: ValueError for bad options.
  ReduceLROnPlateau(Optimizer& optimizer, Options options = {});

  /// With the metric of one epoch, say. Throws: ValueError for NaN, StateError while a graph is captured;
  /// nothing has changed then.
  void step(double metric);
  /// step(metric) with a tensor of one element: one host read. Throws: ValueError when it is undefined,
  /// ShapeError.
  void step(const Tensor& metric);

  [[nodiscard]] std::int64_t last_epoch() const noexcept { return last_epoch_; }
  /// The learning rates of the groups there were at construction, as the optimizer has them.
  [[nodiscard]] std::vector<double> get_last_lr() const;
  [[nodiscard]] double best() const noexcept { return best_; }
  [[nodiscard]] std::int64_t num_bad_epochs() const noexcept { return num_bad_epochs_; }

  /// scheduler, num_groups, best, num_bad_epochs, cooldown_counter, last_epoch. The learning rates are in the
  /// optimizer's state, and options are not saved.
  [[nodiscard]] Value state_dict() const;
  /// Throws: StateError for another scheduler's or another number of groups, ValueError for bad or missing
  /// values; nothing has changed then.
  void load_state_dict(const Value& state);

 private:
  [[nodiscard]] bool is_better(double metric) const;
  void reduce();

  Optimizer& optimizer_;
  Options options_;
  std::size_t num_groups_;
  double best_;
  std::int64_t num_bad_epochs_ = 0, cooldown_counter_ = 0, last_epoch_ = 0;
};

}  // namespace mezzo::optim
