// How many threads there are when nobody says: OMP_NUM_THREADS, affinity, limits of cgroups.
#include "mezzo/core/parallel/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

#include "support/system_root.h"

namespace mezzo::detail {
namespace {

int processors(const test::SystemRoot& root) { return processors_of_cgroups(root.path()); }

TEST(Processors, OfACgroupOfVersion2) {
  test::SystemRoot root;
  root.write("/proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(processors(root), 0) << "no files";
  root.write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(processors(root), 0);
  root.write("/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(processors(root), 3) << "two and a half, rounded up";
  root.write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  EXPECT_EQ(processors(root), 2) << "the limit of the group above";
  root.write("/sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(processors(root), 1) << "in a container the group's own path is not to be seen";
}

TEST(Processors, OfACgroupOfVersion1) {
  test::SystemRoot root;
  root.write("/proc/self/cgroup", "5:memory:/m\n3:cpu,cpuacct:/x\n0::/\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n")
      .write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(root), 0);
  root.write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(processors(root), 4);
}

TEST(Processors, NonsenseInFilesIsNoLimit) {
  for (const char* text : {"", "x", "0", "100000", "-5 100000", "nan nan", "100000 0"}) {
    test::SystemRoot root;
    root.write("/proc/self/cgroup", "0::/\n\n::\n7\n0::relative\n1:cpu\n")
        .write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(processors(root), 0) << text;
  }
}

TEST(Processors, TheEnvironmentsNumberIsTheFirst) {
  EXPECT_EQ(threads_of_environment("4"), 4);
  EXPECT_EQ(threads_of_environment(" 4,2"), 4);
  for (const char* none : {"", "0", "-3", "4x", "x", "99999999999999999999", ",4"})
    EXPECT_EQ(threads_of_environment(none), 0) << none;
  EXPECT_EQ(threads_of_environment(nullptr), 0);
}

TEST(Processors, AreThoseOfTheAffinity) {
  const char* const set = std::getenv("OMP_NUM_THREADS");
  if (threads_of_environment(set) > 0) GTEST_SKIP() << "OMP_NUM_THREADS is set";
  std::thread([] {
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    EXPECT_LE(default_threads(), CPU_COUNT(&mine));
    int first = 0;
    while (!CPU_ISSET(first, &mine)) ++first;
    CPU_ZERO(&mine);
    CPU_SET(first, &mine);
    ASSERT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
    EXPECT_EQ(default_threads(), 1);
  }).join();
}

}  // namespace
}  // namespace mezzo::detail
