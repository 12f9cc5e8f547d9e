// A folder of checkpoints: the last and the best of a training, written beside it.
//   train::CheckpointManager checkpoints("run", parts, {.keep_last = 3});
//   checkpoints.load_latest();                      // goes on, if there is one
//   for (...) { ...; if (step % 1000 == 0) checkpoints.save(step); }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/train/checkpoint.h"

namespace mezzo::train {

/// Which metric is the best.
enum class Best { lowest, highest };

struct CheckpointManagerOptions {
  std::int64_t keep_last = 3;  ///< the newest; 0: all
  std::int64_t keep_best = 1;  ///< besides, the best by metric; of equal metrics the newer
  Best best = Best::lowest;
  bool background = true;  ///< write on a thread, from a copy in memory: a step waits for the copy only
  bool gradients = true;   ///< as SaveCheckpointOptions
  std::optional<std::uint64_t> max_shard_size = {};  ///< as SaveCheckpointOptions
};

/// Files "step-000000001200.safetensors" (or their shards and index) in one folder, with links
/// "latest.safetensors" and "best.safetensors". A file appears complete or not at all, links are changed
/// after it, and old files go last: so at any moment a run that is killed leaves a whole checkpoint, the
/// newest but one at the worst. One process writes into a folder.
class CheckpointManager : mezzo::detail::NoCopy {
 public:
  /// Makes the folder if need be. The parts must outlive the manager. Throws: IoError for a folder that
  /// cannot be made, ValueError for options below 0.
  CheckpointManager(std::string folder, Parts parts, const CheckpointManagerOptions& options = {});
  /// Waits for the file that is being written. A failure there is a warning.
  ~CheckpointManager();

  /// Writes a checkpoint of this step; of several of one step the last stays. Waits for the previous save.
  /// Returns the file's path. Throws: ValueError for a step below 0 and a metric that is NaN; IoError, also
  /// of the save before this one, which failed in the background.
  std::string save(std::int64_t step, std::optional<double> metric = std::nullopt);
  /// Waits until what was saved is on the disk. Throws: IoError when that failed.
  void wait();

  /// Moves the checkpoints of this step and later ones into a folder in this one, "old-1" or what number is
  /// free: checkpoints of another run, say, or of steps that a training has gone back from. Throws: IoError
  /// when that fails.
  void set_aside(std::int64_t first_step);

  /// Restores the newest checkpoint, and returns its step; nothing happens where there is none. A damaged
  /// file is passed over with a warning, for the checkpoint before it. Throws: IoError when all are damaged,
  /// and what load_checkpoint throws for a whole file.
  std::optional<std::int64_t> load_latest(const LoadCheckpointOptions& options = {});
  /// Restores the checkpoint with the best metric, and returns its step; without one nothing happens.
  std::optional<std::int64_t> load_best(const LoadCheckpointOptions& options = {});

  /// Steps of the checkpoints that there are, in order.
  [[nodiscard]] std::vector<std::int64_t> steps();
  [[nodiscard]] std::string path_of(std::int64_t step) const;
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

 private:
  class Writer;

  std::string folder_;
  Parts parts_;
  CheckpointManagerOptions options_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace mezzo::train
