// How much memory the groups of a process grant it.
#include "mezzo/core/memory/memory_limit.h"

#include <gtest/gtest.h>

#include "support/system_root.h"

namespace mezzo::detail {
namespace {

std::int64_t limit(const test::SystemRoot& root) { return memory_of_cgroups(root.path()).granted; }

TEST(MemoryLimit, OfACgroupOfVersion2IsMemoryAndTheSwapThatIsThere) {
  test::SystemRoot root;
  root.write("/proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(limit(root), 0) << "no files";
  root.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(limit(root), 0);
  root.write("/sys/fs/cgroup/a/b/memory.max", "8000000000\n");
  EXPECT_EQ(limit(root), 8000000000);
  root.write("/proc/meminfo", "MemTotal: 7 kB\nSwapTotal:        1000 kB\nSwapFree: 5 kB\n");
  EXPECT_EQ(limit(root), 8001024000) << "nothing limits swap";
  root.write("/sys/fs/cgroup/a/b/memory.swap.max", "4096\n");
  EXPECT_EQ(limit(root), 8000004096);
  root.write("/sys/fs/cgroup/a/b/memory.swap.max", "0\n");
  EXPECT_EQ(limit(root), 8000000000);
  root.write("/sys/fs/cgroup/memory.max", "1000000\n").write("/sys/fs/cgroup/memory.swap.max", "max\n");
  EXPECT_EQ(limit(root), 2024000) << "the limit of a group above";
}

TEST(MemoryLimit, OfACgroupOfVersion1) {
  test::SystemRoot root;
  root.write("/proc/self/cgroup", "5:memory:/m\n3:cpu,cpuacct:/x\n0::/\n");
  root.write("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(root), 0) << "version 1's way to say none";
  root.write("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "5000000\n");
  EXPECT_EQ(limit(root), 5000000);
  root.write("/proc/meminfo", "SwapTotal: 1000 kB\n");
  EXPECT_EQ(limit(root), 6024000);
  root.write("/sys/fs/cgroup/memory/m/memory.memsw.limit_in_bytes", "5500000\n");
  EXPECT_EQ(limit(root), 5500000) << "memory and swap together";
}

TEST(MemoryLimit, NonsenseInFilesIsNoLimit) {
  for (const char* text : {"", "x", "-1", "99999999999999999999999", "5x"}) {
    test::SystemRoot root;
    root.write("/proc/self/cgroup", "0::/\n").write("/sys/fs/cgroup/memory.max", text);
    root.write("/proc/meminfo", "SwapTotal:\nSwapTotal: x kB\n");
    EXPECT_EQ(limit(root), 0) << text;
  }
}

TEST(MemoryLimit, WhatIsUsedIsWhatCannotGo) {
  test::SystemRoot root;
  root.write("/proc/self/cgroup", "0::/a\n").write("/sys/fs/cgroup/a/memory.max", "9000000\n");
  EXPECT_EQ(memory_of_cgroups(root.path()).used, 0) << "no files";
  root.write("/sys/fs/cgroup/a/memory.current", "5000000\n");
  root.write("/sys/fs/cgroup/a/memory.stat",
             "anon 3000000\nactive_file 1000000\ninactive_file 500000\nfile 7\n");
  EXPECT_EQ(memory_of_cgroups(root.path()).used, 3500000);
  root.write("/sys/fs/cgroup/memory.max", "8000000\n").write("/sys/fs/cgroup/memory.current", "7000000\n");
  EXPECT_EQ(memory_of_cgroups(root.path()).granted, 8000000) << "the group with the least left";
  test::SystemRoot old;
  old.write("/proc/self/cgroup", "5:memory:/m\n")
      .write("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9000000\n");
  old.write("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "5000000\n");
  old.write("/sys/fs/cgroup/memory/m/memory.stat",
            "cache 5\ntotal_active_file 1000000\ntotal_inactive_file 1\n");
  EXPECT_EQ(memory_of_cgroups(old.path()).used, 3999999);
}

}  // namespace
}  // namespace mezzo::detail
