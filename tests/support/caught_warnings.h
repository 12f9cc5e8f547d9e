// For tests of warnings: what is said while it lives, from a clean start.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/warning.h"

namespace mezzo::test {

/// Catches warnings of all threads, and forgets at its end that they were said.
class CaughtWarnings {
 public:
  CaughtWarnings()
      : before_(set_warning_handler([this](std::string_view name, std::string_view text) {
          const std::scoped_lock lock(mutex_);
          names_.emplace_back(name);
          texts_.emplace_back(text);
        })) {
    reset_warnings();
  }
  ~CaughtWarnings() {
    set_warning_handler(std::move(before_));
    reset_warnings();
  }
  CaughtWarnings(const CaughtWarnings&) = delete;
  CaughtWarnings& operator=(const CaughtWarnings&) = delete;

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Of the warning of this name; empty where it was not said.
  [[nodiscard]] std::string text_of(std::string_view name) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return texts_[i];
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_, texts_;
  WarningHandler before_;
};

}  // namespace mezzo::test
