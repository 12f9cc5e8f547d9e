// Documents that are made by the library: what stands in the file against what would be written today.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace mezzo::docs {

inline std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Fails at the first line that differs, and says what renews the text.
inline void expect_current(const std::string& name, const std::string& written, const std::string& now,
                           const std::string& how) {
  if (written == now) return;
  std::istringstream old_lines(written), new_lines(now);
  std::string before, after;
  for (int line = 1; before == after && (old_lines || new_lines); ++line) {
    before.clear();
    after.clear();
    std::getline(old_lines, before);
    std::getline(new_lines, after);
    if (before != after)
      ADD_FAILURE() << name << " is stale, line " << line << ":\n- " << before << "\n+ " << after << "\n"
                    << how;
  }
  if (before == after) ADD_FAILURE() << name << " is stale at its end\n" << how;
}

}  // namespace mezzo::docs
