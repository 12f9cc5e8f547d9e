// Programs that a test runs in a process of their own.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace mezzo::test {

struct Ran {
  int status = -1;   ///< what the program returned; -1 when it did not end by itself
  std::string text;  ///< its stdout and stderr
};

/// Runs a line of the shell and waits for it.
inline Ran run_shell(const std::string& line) {
  Ran ran;
  std::FILE* const pipe = popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  char piece[4096];
  while (const std::size_t got = std::fread(piece, 1, sizeof(piece), pipe)) ran.text.append(piece, got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

/// The program that runs.
inline std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// Runs some of this program's tests with more in the environment ("NAME=value ...").
inline Ran run_tests(const std::string& filter, const std::string& environment = "") {
  // All of them, also where this process has but a part of the program's tests.
  const std::string all = "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX ";
  const char* const emulator = std::getenv("MEZZO_EMULATOR");  // where tools/aarch64.sh runs this program
  const std::string runner = emulator != nullptr ? " '" + std::string(emulator) + "'" : "";
  return run_shell(all + environment + runner + " '" + this_program().string() + "' --gtest_filter='" +
                   filter + "'");
}

}  // namespace mezzo::test
