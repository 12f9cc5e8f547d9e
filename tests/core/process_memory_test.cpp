// The line in which a training says what memory it took.
#include "mezzo/core/memory/process_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "mezzo/ops/factory.h"

namespace mezzo {
namespace {

TEST(MemoryLine, SaysWhatTensorsTookAndWhatTheProcessHas) {
  const Device cpu = Device::cpu();
  reset_peak_memory_stats(cpu);
  { const Tensor x = zeros({25'000'000}); }
  MemoryStats stats = memory_stats(cpu);
  EXPECT_EQ(stats.cached, stats.reserved - stats.current);
  const std::string line = memory_line(cpu);
  const auto megabytes = [](std::int64_t bytes) {
    return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
  };
  EXPECT_EQ(line.find("cpu: at most " + megabytes(stats.peak) + " in tensors, "), 0U) << line;
  EXPECT_GE(stats.peak, 100'000'000);
  if (process_memory().peak > 0) {
    EXPECT_GE(process_memory().peak, 100'000'000);
    EXPECT_NE(line.find("; process at most "), std::string::npos) << line;
  }
  stats.peak = 3'400'000;
  EXPECT_EQ(memory_line(cpu, stats).find("cpu: at most 3 MB in tensors, "), 0U) << "of given counts";
}

}  // namespace
}  // namespace mezzo
