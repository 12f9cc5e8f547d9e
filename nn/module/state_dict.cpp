// The report of a load in words.
#include "mezzo/nn/state_dict.h"

namespace mezzo::nn {

namespace {

void add_group(std::string& text, const std::vector<std::string>& names, const char* what,
               const char* separator) {
  if (names.empty()) return;
  if (!text.empty()) text += ", ";
  text += std::to_string(names.size()) + " " + what + " (";
  constexpr std::size_t kMostNamed = 5;
  for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i)
    text += (i > 0 ? separator : "") + names[i];
  if (names.size() > kMostNamed) text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  text += ")";
}

}  // namespace

bool LoadReport::is_exact() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }

std::string to_string(const LoadReport& report) {
  std::string text;
  add_group(text, report.missing, "missing", ", ");
  add_group(text, report.unexpected, "unexpected", ", ");
  add_group(text, report.mismatched, "mismatched", "; ");
  return text.empty() ? "nothing" : text;
}

}  // namespace mezzo::nn
