// A trainer's checkpoints. Over several processes all take part in making and loading one, as states may be
// cut among them; rank 0 writes.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/io/json.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

namespace {

/// Throws: IoError, on all ranks, for a file that one of them cannot read.
void require_readable(const ParallelRun& run, const std::string& path, bool if_it_exists = false) {
  if (run.is_alone()) return;
  run.together([&] {
    if (std::ifstream(path).good() || (if_it_exists && !std::filesystem::exists(path))) return;
    throw IoError("Trainer", "a checkpoint that all ranks can read", "'" + path + "', which one cannot",
                  "keep the folder where all machines see it");
  });
}

/// The result that weights in a file had, if it is one of save_best_weights.
std::optional<double> best_result_in(const std::string& path, const std::string& metric) {
  if (path.empty() || !std::filesystem::exists(path)) return std::nullopt;
  const io::Metadata metadata = io::TensorFile::load(path, Device::cpu(), {.mapped = true}).metadata;
  const auto found = metadata.find(metric);
  if (found == metadata.end()) return std::nullopt;
  return io::parse_json(found->second).as_double();
}

}  // namespace

void TrainerCore::begin_from_checkpoint() {
  event(Event::before_load);
  const TrainerSave& save = options_.save;
  bool is_loaded = false;
  if (saves()) {
    parallel_.together([&] {
      if (!parallel_.is_first()) return;
      checkpoints_ = std::make_unique<CheckpointManager>(
          save.folder, parts_,
          CheckpointManagerOptions{.keep_last = save.keep_last,
                                   .keep_best = save.metric.empty() ? 0 : save.keep_best,
                                   .best = save.best,
                                   .background = save.background,
                                   .gradients = false});
    });
    if (options_.resume) is_loaded = load_latest();
    if (is_loaded) {
      saved_at_ = state_.time.batch;
      parallel_.together([&] {
        if (parallel_.is_first()) best_result_ = best_result_in(save.best_weights, best_metric());
      });
    }
  }
  if (!is_loaded && !options_.load.empty()) load_file(options_.load);
  // Later checkpoints are of another run, or of a time that this run has gone back from, or damaged.
  set_aside_from_ = state_.time.batch > 0 ? state_.time.batch + 1 : 0;
  if (state_.time.batch > 0) logger_->resume(state_.time.batch);
  event(Event::after_load);
}

bool TrainerCore::load_latest() {
  // Rank 0's list, from the newest on, for all.
  std::string list;
  if (checkpoints_ != nullptr) {
    const auto steps = checkpoints_->steps();
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
      list += checkpoints_->path_of(*step) + "\n";
  }
  std::istringstream paths(parallel_.of_first(list));
  std::string damage;
  for (std::string path; std::getline(paths, path);) {
    require_readable(parallel_, path, true);
    try {
      load_parts(path);
      return true;
    } catch (const IoError& error) {  // the same on all ranks
      damage = error.what();
      warn_once("damaged_checkpoint", damage);
    }
  }
  if (damage.empty()) return false;
  throw IoError("Trainer", "a checkpoint that can be read in " + options_.save.folder, "'" + damage + "'",
                "restore a copy, or begin with an empty folder");
}

void TrainerCore::load_file(const std::string& path) {
  require_readable(parallel_, path);
  if (options_.load_weights_only) {
    // A checkpoint has the model's tensors under "model."; a file of weights alone has them as they are.
    const auto report = train::load_checkpoint(path, {{"model", state_.model}}, {.strict = false});
    if (!report.missing.empty()) train::load_checkpoint(path, {{"", state_.model}});
  } else {
    load_parts(path);
  }
  was_stopped_ = false;  // what goes on from a file that the program names is another training
}

void TrainerCore::load_parts(const std::string& path) {
  const auto report = train::load_checkpoint(path, parts_, {.optional = kCallbackParts});
  if (report.is_exact()) return;
  warn_once("trainer_callbacks", "Trainer::load_checkpoint: expected the callbacks of '" + path +
                                     "', got others: " + nn::to_string(report) +
                                     "; what is missing begins anew, what is unexpected is dropped");
}

void TrainerCore::save(const std::string& path) {
  parallel_.together([&] {
    if (parallel_.is_first())
      train::save_checkpoint(path, parts_, {.gradients = false});
    else
      static_cast<void>(detail::checkpoint_of(parts_, {.gradients = false}));
  });
}

void TrainerCore::load(const std::string& path) {
  event(Event::before_load);
  require_readable(parallel_, path);
  load_parts(path);
  was_stopped_ = false;
  if (is_epoch_open_) options_.train_loader->end();
  is_epoch_open_ = is_iteration_started_ = false;
  saved_at_ = -1;
  ++loads_;
  set_aside_from_ = state_.time.batch + 1;
  logger_->resume(state_.time.batch);
  event(Event::after_load);
}

void TrainerCore::save_now() {
  std::optional<double> metric;
  if (!options_.save.metric.empty() && !state_.eval_results.empty() && evaluated_at_ == state_.time.batch) {
    const double result = detail::result_of("Trainer", state_.eval_results, options_.save.metric);
    if (!std::isnan(result)) metric = result;
  }
  wait_for_files();  // what has failed there must not end rank 0 in the middle of a collective
  parallel_.together([&] {
    if (checkpoints_ == nullptr) {
      static_cast<void>(detail::checkpoint_of(parts_, {.gradients = false}));
      return;
    }
    if (set_aside_from_) checkpoints_->set_aside(*set_aside_from_);
    checkpoints_->save(state_.time.batch, metric);
  });
  saved_at_ = state_.time.batch;
  set_aside_from_.reset();
}

std::string TrainerCore::best_metric() const {
  return options_.save.metric.empty() ? "loss" : options_.save.metric;
}

void TrainerCore::save_best_weights() {
  const TrainerSave& save = options_.save;
  if (save.best_weights.empty()) return;
  const double result = detail::result_of("Trainer", state_.eval_results, best_metric());
  // Rank 0 alone knows what is in its file.
  parallel_.together([&] {
    const bool is_better =
        !best_result_ || (save.best == Best::lowest ? result < *best_result_ : result > *best_result_);
    if (!parallel_.is_first() || std::isnan(result) || !is_better) return;
    io::TensorFile{state_.model.state_dict(),
                   {{"format", "pt"},
                    {best_metric(), Value(result).to_string()},
                    {"batch", std::to_string(state_.time.batch)}}}
        .save(save.best_weights);
    best_result_ = result;
  });
}

void TrainerCore::wait_for_files() {
  parallel_.together([&] {
    if (checkpoints_ != nullptr) checkpoints_->wait();
  });
}

}  // namespace mezzo::train
