// Files that a resumed run goes on with: logs keep just the lines up to the checkpoint, saved runs are shown.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"
#include "mezzo/train/csv_sink.h"
#include "mezzo/train/html_report.h"
#include "mezzo/train/json_lines_sink.h"
#include "mezzo/train/logging/run_history.h"

namespace mezzo::fuzz {

namespace {

/// A file of this process, in memory where the system has such a folder: a log is renamed while it is edited,
/// which a MemoryFile cannot be.
class LogPath {
 public:
  LogPath() {
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    std::string folder =
        (memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string()) +
        "/mezzo_fuzz_log_XXXXXX";
    require(::mkdtemp(folder.data()) != nullptr, "a folder can be made");
    folder_ = folder;
  }
  ~LogPath() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  LogPath(const LogPath&) = delete;
  LogPath& operator=(const LogPath&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/log"; }

 private:
  std::string folder_;
};

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The lines of a text that have an end.
std::vector<std::string> finished_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

long long csv_step(const std::string& line, std::size_t index) {
  return index == 0 ? 0 : std::strtoll(line.c_str(), nullptr, 10);
}
long long json_step(const std::string& line, std::size_t /*index*/) {
  return nlohmann::json::parse(line).at("step").get<long long>();
}

/// Resumes a log of a text; `step_of` is another reader of its lines.
template <class Sink, class F>
void resume_log(std::string_view text, std::int64_t step, const F& step_of) {
  const LogPath file;
  std::ofstream(file.path(), std::ios::binary) << text;
  try {
    Sink sink(file.path());
    sink.resume(step);
  } catch (const IoError&) {
    require(content_of(file.path()) == text, "a file that is refused stays as it is");
    return;
  }
  std::string expected;
  const std::vector<std::string> lines = finished_lines(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (step_of(lines[i], i) <= step) expected += lines[i] + "\n";
  }
  require(content_of(file.path()) == expected, "the lines up to the step are kept, and no others");
  const std::vector<train::LogScalar> values{{"a", 0.5}, {"b\"", 2}};
  Sink sink(file.path());
  sink.resume(step);
  sink.write({step + 1, 1, values});
  const std::string longer = content_of(file.path());
  sink.resume(step + 1);
  require(content_of(file.path()) == longer, "what was written is read");
}

/// Reads a saved run, saves it again and makes a page of it.
void show_run(std::string_view text, std::int64_t step) {
  try {
    train::detail::RunHistory run = train::detail::RunHistory::parse(text, "read");
    const std::string saved = run.saved().to_string();
    require(train::detail::RunHistory::parse(saved, "read").saved().to_string() == saved,
            "a run comes back as it was saved");
    require(nlohmann::json::parse(saved).at("series").size() == run.series.size(), "others read it too");
    run.drop_after(step);
    for (const train::detail::Series& series : run.series)
      require(series.buckets.empty() || series.buckets.back().end <= step, "later steps are dropped");
    const LogPath file;
    std::ofstream(file.path(), std::ios::binary) << train::detail::kDataBegin << text;
    train::HTMLReport report(file.path());
    report.resume(step);
    const std::string page = report.html();
    const std::size_t begin = page.find(train::detail::kDataBegin) + train::detail::kDataBegin.size();
    const std::size_t end = page.find('<', begin);
    require(page.compare(end, 9, "</script>") == 0, "data ends where its element does");
    const std::string_view data = std::string_view(page).substr(begin, end - begin);
    const std::string shown = train::detail::RunHistory::parse(data, "read").saved().to_string();
    require(shown == run.saved().to_string(), "a page has its run");
  } catch (const IoError&) {
  }
}

}  // namespace

int fuzz_log(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::int64_t step = data[1];
  switch (data[0] % 3) {
    case 0:
      resume_log<train::CSVSink>(text, step, csv_step);
      break;
    case 1:
      resume_log<train::JSONLinesSink>(text, step, json_step);
      break;
    default:
      show_run(text, step);
  }
  return 0;
}

}  // namespace mezzo::fuzz
