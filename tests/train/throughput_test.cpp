// Rates by a clock of the test's.
#include "mezzo/train/throughput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::train {
namespace {

TEST(Throughput, RatesOfTheWindowAndInTotal) {
  double now = 100;
  Throughput throughput({.window = 2, .clock = [&now] { return now; }});
  EXPECT_TRUE(std::isnan(throughput.steps_per_second()));
  EXPECT_TRUE(std::isnan(throughput.total_samples_per_second()));
  now += 1;
  throughput.update({.samples = 10, .tokens = 1000});
  EXPECT_EQ(throughput.samples_per_second(), 10);
  now += 2;
  throughput.update({.samples = 10, .tokens = 1000});
  now += 2;
  throughput.update({.samples = 30, .tokens = 3000, .steps = 2});
  EXPECT_EQ(throughput.samples_per_second(), 10) << "40 in the last two updates, which took 4 s";
  EXPECT_EQ(throughput.tokens_per_second(), 1000);
  EXPECT_EQ(throughput.steps_per_second(), 0.75);
  EXPECT_EQ(throughput.total_samples_per_second(), 10);
  EXPECT_EQ(throughput.total_tokens_per_second(), 1000);
  EXPECT_EQ(throughput.total_steps_per_second(), 0.8);
  EXPECT_EQ(throughput.total().samples, 50);
  EXPECT_EQ(throughput.seconds(), 5);
}

TEST(Throughput, PausesDoNotCount) {
  double now = 0;
  Throughput throughput({.clock = [&now] { return now; }});
  now = 1;
  throughput.update({.samples = 4});
  throughput.pause();
  throughput.pause();
  now = 50;
  throughput.resume();
  throughput.resume();
  now = 52;
  throughput.update({.samples = 4});
  EXPECT_EQ(throughput.seconds(), 3);
  throughput.pause();
  now = 60;
  throughput.update({.samples = 1});  // ends the pause
  EXPECT_EQ(throughput.seconds(), 3);
  throughput.reset();
  EXPECT_EQ(throughput.total().samples, 0);
  now = 61;
  throughput.update({.samples = 5});
  EXPECT_EQ(throughput.samples_per_second(), 5);
}

TEST(Throughput, RefusesNegativeWorkAndNoWindow) {
  Throughput throughput;
  EXPECT_EQ(
      test::message_of<ValueError>([&] { return throughput.update({.samples = -1}), 0; }),
      "Throughput.update: expected counts of at least 0, got [-1, 0, 1]; give what was done since the last "
      "update");
  EXPECT_EQ(test::message_of<ValueError>([] { return Throughput({.window = 0}), 0; }),
            "Throughput: expected a window of 1 to 1000000 updates, got 0; 100 is usual");
}

TEST(Throughput, MemoryOfTheProcess) {
  const ProcessMemory before = process_memory();
  if (before.resident == 0) GTEST_SKIP() << "no /proc/self/status";
  EXPECT_GE(before.peak, before.resident);
  const std::vector<char> touched(64 << 20, 1);
  const ProcessMemory after = process_memory();
  EXPECT_GE(after.resident - before.resident, 48 << 20) << touched[12345];
  EXPECT_GE(after.peak, after.resident);
}

}  // namespace
}  // namespace mezzo::train
