// The folder of a CheckpointManager: what is in it, the thread that writes into it, and which files go.
#include "mezzo/train/checkpoint_manager.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <future>
#include <map>
#include <system_error>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel/signals_blocked.h"
#include "mezzo/core/warning.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/ops/cast.h"

namespace mezzo::train {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors", kIndex = ".index.json";
constexpr const char* kMetricKey = "mezzo.metric";

/// The step of "step-000000001200.safetensors", and of the index of its shards; none of any other name.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (name.ends_with(kIndex)) name.remove_suffix(kIndex.size());
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

/// The step of any of its files, shards too: "step-000000001200-00001-of-00002.safetensors".
std::optional<std::int64_t> step_of_file(std::string_view name) {
  const std::size_t shard = name.find('-', kPrefix.size());
  if (!name.starts_with(kPrefix) || shard == std::string_view::npos) return step_of(name);
  return step_of(std::string(name.substr(0, shard)) + std::string(kSuffix));
}

std::string file_name(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits +
         std::string(kSuffix);
}

/// Copies on the host that later steps do not change.
void copy_tensors(io::TensorFile& file) {
  const NoGrad no_grad;
  for (auto& named : file.tensors)
    named.second = named.second.device().is_cpu() ? clone(named.second) : named.second.to(Device::cpu());
}

}  // namespace

/// The work on the folder. All but `start` and `wait` may run on the thread.
class CheckpointManager::Writer : mezzo::detail::NoCopy {
 public:
  Writer(const std::string& folder, const CheckpointManagerOptions& options)
      : folder_(folder), options_(options) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error && !fs::is_directory(folder)) {
      throw IoError("CheckpointManager '" + folder + "'", "a folder that can be made", error.message(),
                    "check the path and its permissions");
    }
    for (const fs::path& path : files()) {
      const std::string name = path.filename().string();
      // Of a process that was killed while it saved.
      if (const std::size_t mark = name.find(".tmp-"); mark != std::string::npos && name.starts_with(kPrefix))
        io::remove_orphans((path.parent_path() / name.substr(0, mark)).string());
      if (const auto step = step_of(name)) metrics_[*step] = metric_of(path);
    }
    for (const char* link : {"latest", "best"}) fs::remove(temporary_link(link), error);
  }

  void start(std::int64_t step, std::optional<double> metric, io::TensorFile file) {
    if (!options_.background) return write(step, metric, file);
    const mezzo::detail::SignalsBlocked blocked;
    writing_ = std::async(std::launch::async, [this, step, metric, file = std::move(file)]() mutable {
      const io::TensorFile written = std::move(file);  // which goes when it is written
      write(step, metric, written);
    });
  }
  void wait() {
    if (writing_.valid()) writing_.get();
  }
  /// wait() in a destructor: warns instead of throwing.
  void finish() noexcept {
    try {
      wait();
    } catch (const std::exception& error) {
      warn("checkpoint_not_written", error.what());
    }
  }

  /// Steps with their metrics. Not while the thread writes.
  [[nodiscard]] const std::map<std::int64_t, std::optional<double>>& metrics() const noexcept {
    return metrics_;
  }
  /// Steps from the best metric on; those without one are left out.
  [[nodiscard]] std::vector<std::int64_t> by_metric() const {
    std::vector<std::pair<double, std::int64_t>> ranked;  // ascending: better first, then newer first
    for (const auto& [step, metric] : metrics_) {
      if (metric) ranked.emplace_back(options_.best == Best::lowest ? *metric : -*metric, -step);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::int64_t> steps;
    for (const auto& [metric, negative] : ranked) steps.push_back(-negative);
    return steps;
  }
  void set_aside(std::int64_t first_step) {
    const auto first = metrics_.lower_bound(first_step);
    if (first == metrics_.end()) return;
    std::error_code error;
    fs::path old;
    for (int number = 1; old.empty() || fs::exists(old, error); ++number)
      old = fs::path(folder_) / ("old-" + std::to_string(number));
    fs::create_directory(old, error);
    for (const fs::path& path : files()) {
      const std::string name = path.filename().string();
      const auto step = step_of_file(name);
      if (!error && step && *step >= first_step) fs::rename(path, old / name, error);
    }
    if (error) {
      throw IoError("CheckpointManager '" + folder_ + "'", "checkpoints that can be moved to " + old.string(),
                    error.message(), "check the folder's permissions");
    }
    metrics_.erase(first, metrics_.end());
    for (const char* link : {"latest", "best"}) remove_links(link);
  }
  static void warn(const char* name, const std::string& text) noexcept {
    try {
      warn_once(name, text);
    } catch (...) {  // a handler's affair
    }
  }

 private:
  [[nodiscard]] fs::path path_of(std::int64_t step) const { return fs::path(folder_) / file_name(step); }
  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
      paths.push_back(it->path());
    return paths;
  }
  /// The metric that a file was saved with. A file that cannot be read has none.
  static std::optional<double> metric_of(const fs::path& path) {
    try {
      const io::Metadata metadata =
          io::TensorFile::load(path.string(), Device::cpu(), {.mapped = true}).metadata;
      const auto found = metadata.find(kMetricKey);
      double metric = 0;
      if (found == metadata.end()) return std::nullopt;
      const std::string& text = found->second;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), metric);
      if (error == std::errc() && end == text.data() + text.size()) return metric;
    } catch (const Error&) {  // load_latest will say so
    }
    return std::nullopt;
  }

  void write(std::int64_t step, std::optional<double> metric, const io::TensorFile& file) {
    file.save(path_of(step).string(), {.max_shard_size = options_.max_shard_size});
    metrics_[step] = metric;
    point_to(step, "latest");
    const std::vector<std::int64_t> best = by_metric();
    const bool keeps_best = options_.keep_best > 0 || options_.keep_last == 0;
    if (keeps_best && !best.empty()) point_to(best.front(), "best");
    if (!keeps_best) remove_links("best");
    remove_old(step, best);
    io::sync_folder(folder_);
  }
  /// Points a link to a step's file, in place of the link before it. It is for people and other programs:
  /// nothing here reads it, so a file system without links does no harm.
  void point_to(std::int64_t step, const std::string& name) const {
    std::error_code error;
    const bool is_index = !fs::exists(path_of(step), error);
    const std::string end = is_index ? std::string(kIndex) : "", other = is_index ? "" : std::string(kIndex);
    const fs::path link = fs::path(folder_) / (name + std::string(kSuffix));
    const fs::path temporary = temporary_link(name);
    fs::remove(temporary, error);  // of a process that was killed
    fs::create_symlink(file_name(step) + end, temporary, error);
    if (!error) fs::rename(temporary, link.string() + end, error);
    if (!error) fs::remove(link.string() + other, error);
  }
  /// One process writes into a folder, so one name will do.
  [[nodiscard]] fs::path temporary_link(const std::string& name) const {
    return fs::path(folder_) / (name + std::string(kSuffix) + ".tmp");
  }
  void remove_links(const std::string& name) const {
    std::error_code error;
    for (const std::string& end : {std::string(), std::string(kIndex)})
      fs::remove(fs::path(folder_) / (name + std::string(kSuffix) + end), error);
  }
  /// The file, or its index first, so that nobody finds an index without its shards.
  [[nodiscard]] bool remove_step(std::int64_t step) const {
    std::error_code error;
    fs::remove(path_of(step).string() + std::string(kIndex), error);
    if (!error) fs::remove(path_of(step), error);
    const std::string shards = file_name(step).substr(0, file_name(step).size() - kSuffix.size()) + "-";
    for (const fs::path& path : files()) {
      const std::string name = path.filename().string();
      if (!error && name.starts_with(shards) && name.ends_with(kSuffix)) fs::remove(path, error);
    }
    return !error;
  }
  void remove_old(std::int64_t step, const std::vector<std::int64_t>& best) {
    if (options_.keep_last == 0) return;
    const auto is_kept = [&](std::int64_t candidate) {
      const auto newer = std::distance(metrics_.upper_bound(candidate), metrics_.end());
      const auto place = std::find(best.begin(), best.end(), candidate) - best.begin();
      return candidate == step || newer < options_.keep_last ||
             (place < static_cast<std::int64_t>(best.size()) && place < options_.keep_best);
    };
    for (auto it = metrics_.begin(); it != metrics_.end();) {
      // Steps that are erased here are older than all that `is_kept` still counts.
      it = !is_kept(it->first) && remove_step(it->first) ? metrics_.erase(it) : std::next(it);
    }
  }

  const std::string& folder_;
  const CheckpointManagerOptions& options_;
  std::map<std::int64_t, std::optional<double>> metrics_;
  std::future<void> writing_;  // its end waits for the thread
};

CheckpointManager::CheckpointManager(std::string folder, Parts parts, const CheckpointManagerOptions& options)
    : folder_(std::move(folder)), parts_(std::move(parts)), options_(options) {
  for (const std::int64_t count : {options.keep_last, options.keep_best}) {
    if (count < 0)
      throw ValueError("CheckpointManager", "numbers of files of at least 0", std::to_string(count), "");
  }
  writer_ = std::make_unique<Writer>(folder_, options_);
}

CheckpointManager::~CheckpointManager() { writer_->finish(); }

std::string CheckpointManager::path_of(std::int64_t step) const {
  return (fs::path(folder_) / file_name(step)).string();
}

std::string CheckpointManager::save(std::int64_t step, std::optional<double> metric) {
  const Phase phase("checkpoint");
  if (step < 0 || (metric && std::isnan(*metric))) {
    throw ValueError("CheckpointManager.save", "a step of at least 0, and a metric that is a number",
                     "step " + std::to_string(step) + (metric ? ", metric " + number_text(*metric) : ""), "");
  }
  writer_->wait();
  SaveCheckpointOptions options{.gradients = options_.gradients};
  if (metric) options.metadata[kMetricKey] = number_text(*metric);
  io::TensorFile file = detail::checkpoint_of(parts_, options);
  if (options_.background) copy_tensors(file);
  writer_->start(step, metric, std::move(file));
  return path_of(step);
}

void CheckpointManager::wait() { writer_->wait(); }

void CheckpointManager::set_aside(std::int64_t first_step) {
  writer_->wait();
  writer_->set_aside(first_step);
}

std::vector<std::int64_t> CheckpointManager::steps() {
  writer_->wait();
  std::vector<std::int64_t> steps;
  for (const auto& [step, metric] : writer_->metrics()) steps.push_back(step);
  return steps;
}

std::optional<std::int64_t> CheckpointManager::load_latest(const LoadCheckpointOptions& options) {
  std::vector<std::int64_t> left = steps();
  std::string damage;
  while (!left.empty()) {
    const std::int64_t step = left.back();
    left.pop_back();
    try {
      load_checkpoint(path_of(step), parts_, options);
      return step;
    } catch (const IoError& error) {
      damage = error.what();
      Writer::warn("damaged_checkpoint",
                   damage + (left.empty() ? "" : "; the checkpoint before it is taken"));
    }
  }
  if (damage.empty()) return std::nullopt;
  throw IoError("CheckpointManager.load_latest '" + folder_ + "'", "a checkpoint that can be read",
                "'" + damage + "'", "restore a copy, or begin with an empty folder");
}

std::optional<std::int64_t> CheckpointManager::load_best(const LoadCheckpointOptions& options) {
  writer_->wait();
  const std::vector<std::int64_t> best = writer_->by_metric();
  if (best.empty()) return std::nullopt;
  load_checkpoint(path_of(best.front()), parts_, options);
  return best.front();
}

}  // namespace mezzo::train
