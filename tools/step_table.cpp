// step_table [FILE|--check]
// Writes the predicted training steps to FILE, or to docs/cuda_steps.md of the tree it was built from; "-"
// prints them. --check compares with that page: status 1 where it is stale.
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

#include "step_table/table.h"

namespace {

/// Whether the page at `path` is `now`; says where not.
bool is_current(const std::string& path, const std::string& now) {
  std::ifstream file(path);
  std::istringstream new_lines(now);
  std::string old_line, new_line;
  for (int line = 1;; ++line) {
    const bool has_old = static_cast<bool>(std::getline(file, old_line));
    const bool has_new = static_cast<bool>(std::getline(new_lines, new_line));
    if (!has_old && !has_new) return true;
    if (has_old && has_new && old_line == new_line) continue;
    std::cerr << path << " is stale, line " << line << ":\n- " << (has_old ? old_line : "") << "\n+ "
              << (has_new ? new_line : "") << "\nrenew it: " << mezzo::step_table::kRenew << "\n";
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argc > 2 || argument == "--help") {
    std::cerr << "usage: step_table [FILE|--check]\n";
    return 2;
  }
#if !defined(__x86_64__)
  std::cerr << "step_table: writes are told from reads on x86-64 only\n";
  return 77;
#endif
  const std::string multiprocessors = std::to_string(mezzo::step_table::Rates{}.multiprocessors);
  setenv("MEZZO_EMULATED_MULTIPROCESSORS", multiprocessors.c_str(), 1);
  try {
    const std::string page = MEZZO_TEST_DATA "/../docs/cuda_steps.md";
    const std::string path = argument.empty() || argument == "--check" ? page : argument;
    const std::string text = mezzo::step_table::to_markdown(mezzo::step_table::run_steps());
    if (argument == "--check") return is_current(page, text) ? 0 : 1;
    if (path == "-") {
      std::cout << text;
      return 0;
    }
    std::ofstream file(path);
    file << text;
    file.close();
    if (file) return 0;
    std::cerr << "step_table: cannot write " << path << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
