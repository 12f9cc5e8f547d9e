// Selection of cases by substring or glob, counts per file, and the exit status: 1 if a case failed, if
// none passed or, with `strict`, if one is not supported.
#include "golden/report.h"

#include <fnmatch.h>

#include <algorithm>
#include <iostream>

#include "golden/case_file.h"

namespace mezzo::golden {

namespace {
bool matches(const std::string& pattern, const std::string& text) {
  if (text.find(pattern) != std::string::npos) return true;
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}
}  // namespace

bool Report::selected(const std::string& case_name) const {
  return options_.only.empty() || matches(options_.only, file_) ||
         matches(options_.only, file_ + ":" + case_name);
}

void Report::begin_file(const std::string& name) {
  file_ = name;
  counts_ = {};
  lines_.clear();
  notes_.clear();
  reasons_.clear();
}

void Report::run(const std::string& case_name, const std::function<void()>& check) {
  if (!selected(case_name)) return;
  const std::string name = file_ + ":" + case_name;
  try {
    check();
    ++counts_.passed;
    if (options_.verbose) lines_.push_back("    passed " + name);
  } catch (const NotSupported& reason) {
    ++counts_.unsupported;
    if (options_.verbose) lines_.push_back("    not supported " + name + ": " + reason.what());
    if (std::find(reasons_.begin(), reasons_.end(), reason.what()) == reasons_.end())
      reasons_.emplace_back(reason.what());
  } catch (const std::exception& error) {
    ++counts_.failed;
    lines_.push_back("    FAILED " + name + ": " + error.what());
  }
}

void Report::end_file() {
  if (counts_.all() == 0) return;
  totals_.passed += counts_.passed;
  totals_.failed += counts_.failed;
  totals_.unsupported += counts_.unsupported;
  std::cout << file_ << ": " << counts_.passed << " passed";
  if (counts_.failed != 0) std::cout << ", " << counts_.failed << " FAILED";
  if (counts_.unsupported != 0) std::cout << ", " << counts_.unsupported << " not supported";
  std::cout << "\n";
  for (const std::string& line : lines_) std::cout << line << "\n";
  for (const std::string& note : notes_) std::cout << "    note: " << note << "\n";
  std::cout << std::flush;
  if (counts_.unsupported == 0) return;
  std::string line =
      file_ + " (" + std::to_string(counts_.unsupported) + " of " + std::to_string(counts_.all()) + "): ";
  constexpr std::size_t kShown = 6;
  for (std::size_t i = 0; i < std::min(reasons_.size(), kShown); ++i)
    line.append(i == 0 ? "" : "; ").append(reasons_[i]);
  if (reasons_.size() > kShown) line += "; and " + std::to_string(reasons_.size() - kShown) + " more";
  unsupported_files_.push_back(line);
}

int Report::finish() const {
  if (!unsupported_files_.empty()) std::cout << "\nnot supported:\n";
  for (const std::string& line : unsupported_files_) std::cout << "    " << line << "\n";
  std::cout << "\ngolden: " << totals_.passed << " passed, " << totals_.failed << " failed, "
            << totals_.unsupported << " not supported" << std::endl;
  if (totals_.passed == 0) {
    std::cout << "golden: no case has run; name a directory with golden files" << std::endl;
    return 1;
  }
  return totals_.failed != 0 || (options_.strict && totals_.unsupported != 0) ? 1 : 0;
}

}  // namespace mezzo::golden
