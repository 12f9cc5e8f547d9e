// GoogleTest's main, in a process that has the library of preload.cpp, which lies beside the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "mezzo/tests/faults/faults.h"
#include "mezzo/tests/support/child.h"
#include "mezzo/tests/support/sanitizer.h"

int main(int argc, char** argv) {
  if (mezzo::test::arm_faults() == nullptr && !mezzo::test::under_sanitizer() &&
      std::getenv("MEZZO_FAULTS") == nullptr) {
    const std::string library = (mezzo::test::this_program().parent_path() / "libmezzo_faults.so").string();
    ::setenv("LD_PRELOAD", library.c_str(), 1);
    ::setenv("MEZZO_FAULTS", "preloaded", 1);  // once, should it not work
    ::execv("/proc/self/exe", argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
