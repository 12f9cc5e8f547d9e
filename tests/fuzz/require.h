// What a target says when a promise does not hold: it ends the program, which libFuzzer and GoogleTest
// report.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mezzo::fuzz {

inline void require(bool good, const std::string& promise) {
  if (good) return;
  std::fprintf(stderr, "fuzz: broken promise: %s\n", promise.c_str());
  std::abort();
}

}  // namespace mezzo::fuzz
