// A child of fork() works on, with one thread until it asks for more, whatever its parent did before.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/mezzo.h"
#include "support/sanitizer.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

/// The exit status of a child that does `work`; -1 when it did not end by itself within 60 s.
template <class Work>
int status_of_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Enough work for several threads, of our loops, products and oneDNN.
double work_of_all_kinds() {
  const Tensor x = full({256, 1024}, 0.5).requires_grad_();
  const Tensor images = full({8, 8, 32, 32}, 0.25), filters = full({16, 8, 3, 3}, 0.5);
  const Tensor y = sum(matmul(x, full({1024, 256}, 0.25))) + sum(exp(x)) + sum(conv2d(images, filters));
  y.backward();
  return y.item() + sum(x.grad()).item();
}

int threads_of_process() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    count += entry.exists() ? 1 : 0;
  return count;
}

TEST(Fork, AChildComputesWhatItsParentDoes) {
  const test::ThreadGuard threads(4);
  const double expected = work_of_all_kinds();
  EXPECT_EQ(status_of_child([&] { return work_of_all_kinds() == expected ? 0 : 1; }), 0);
  EXPECT_EQ(status_of_child([] { return get_num_threads(); }), 1);
  EXPECT_EQ(work_of_all_kinds(), expected) << "the parent goes on";
}

TEST(Fork, AChildMayHaveThreadsOfItsOwn) {
  const test::ThreadGuard threads(4);
  const double expected = work_of_all_kinds();
  const int status = status_of_child([&] {
    set_num_threads(3);
    return get_num_threads() == 3 && work_of_all_kinds() == expected && threads_of_process() == 3 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

/// A product for which oneDNN makes new objects. Whether it is right.
bool product_of_new_sizes(std::int64_t i) {
  const std::int64_t m = 40 + i % 97, k = 130 + i % 89, n = 64 + i % 83;
  const Tensor product = matmul(full({m, k}, 0.5), full({k, n}, 0.25));
  return sum(product).item() == static_cast<double>(m * n * k) * 0.125;
}

/// What the threads of a process share: oneDNN's objects, random numbers, names of ops and of warnings.
bool work_with_what_is_shared(std::int64_t i) {
  for (int name = 0; name < 50; ++name) warn_once("fork_test" + std::to_string(name), "nothing");
  static_cast<void>(randn({20}));
  return find_op("relu") != nullptr && product_of_new_sizes(i);
}

TEST(Fork, AChildWorksOnWhateverOtherThreadsOfItsParentAreAt) {
  if (test::under_sanitizer()) GTEST_SKIP() << "a sanitizer's own locks are not held over a fork";
  const WarningHandler before = set_warning_handler([](std::string_view, std::string_view) {});
  std::atomic<bool> working{true};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 100'000 * t; working; ++i) EXPECT_TRUE(work_with_what_is_shared(i));
    });
  }
  int failed = 0;
  for (std::int64_t child = 0; child < 40 && failed == 0; ++child) {
    const int status = status_of_child([&] {
      bool right = true;
      for (std::int64_t i = 0; i < 5; ++i) right = work_with_what_is_shared(5 * child + i) && right;
      return right ? 0 : 1;
    });
    failed += status == 0 ? 0 : 1;
  }
  working = false;
  for (std::thread& thread : threads) thread.join();
  set_warning_handler(before);
  EXPECT_EQ(failed, 0) << "a child waits for a lock that its parent's threads held, or computes otherwise";
}

std::atomic<bool> fork_is_under_way{false};

// The process's first calls of oneDNN, where ctest runs this test alone.
TEST(Fork, WaitsForFirstCallsThatBeginWhileItIsUnderWay) {
  if (test::under_sanitizer()) GTEST_SKIP() << "a sanitizer's own locks are not held over a fork";
  std::atomic<bool> working{true};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 3; ++t) {
    threads.emplace_back([&, t] {
      while (!fork_is_under_way) std::this_thread::yield();
      for (std::int64_t i = 100'000 * t; working; ++i) EXPECT_TRUE(product_of_new_sizes(i));
    });
  }
  // Registered last, so called first.
  ASSERT_EQ(pthread_atfork(
                [] {
                  fork_is_under_way = true;
                  std::this_thread::sleep_for(std::chrono::milliseconds(50));
                },
                nullptr, nullptr),
            0);
  EXPECT_EQ(status_of_child([] { return product_of_new_sizes(0) ? 0 : 1; }), 0);
  working = false;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fork, ChildrenOfChildren) {
  const double expected = work_of_all_kinds();
  const int status = status_of_child([&] {
    return work_of_all_kinds() == expected
               ? status_of_child([&] { return work_of_all_kinds() == expected ? 0 : 1; })
               : 2;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mezzo
