// Starts GoogleTest in each of the processes that mpirun has started. A test runs in all of them at once and
// makes the same collectives in each; one that fails in any process fails.
#include <gtest/gtest.h>

#include <chrono>

#include "mezzo/dist/init.h"

int main(int argc, char** argv) {
  const auto session = mezzo::dist::init({.timeout = std::chrono::seconds(60)});
  // The others say only what went wrong.
  if (mezzo::dist::rank() > 0) ::testing::GTEST_FLAG(brief) = true;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
