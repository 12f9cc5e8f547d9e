// The pool inside programs that have threads, signals, limits and a floating-point environment of their own.
#include "mezzo/core/parallel/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "mezzo/core/parallel/helper_backoff.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/mezzo.h"
#include "support/child.h"
#include "support/host_floats.h"
#include "support/sanitizer.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using kernels::cpu::parallel_for;

/// Runs `f` on the caller and on a helper, for sure, at the same time if nothing hinders them: on a busy
/// machine loops may do without helpers for a while, so they are repeated until both have come, for 60 s at
/// most.
template <class F>
void on_caller_and_helper(F f) {
  const test::ThreadGuard two(2);
  const std::thread::id caller = std::this_thread::get_id();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::atomic<bool> ran_on_caller{false}, ran_on_helper{false};
  while (!(ran_on_caller && ran_on_helper) && std::chrono::steady_clock::now() < limit) {
    std::atomic<int> came{0};
    std::atomic<bool> helper_came{false};
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      const bool helper = std::this_thread::get_id() != caller;
      if (helper) helper_came = true;
      ++came;
      while (came < 2 && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
      if (came < 2 || !helper_came) return;
      (helper ? ran_on_helper : ran_on_caller) = true;
      f(helper);
    });
  }
  EXPECT_TRUE(ran_on_caller && ran_on_helper) << "no helper came";
}

TEST(ThreadPool, HelpersComputeInTheCallersFloatingPointEnvironment) {
  for (const int rounding : {FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    const int before = std::fegetround();
    std::fesetround(rounding);
    on_caller_and_helper([&](bool) { EXPECT_EQ(std::fegetround(), rounding); });
    std::fesetround(before);
  }
  on_caller_and_helper(
      [](bool) { EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "left over from a loop before"; });
}

TEST(ThreadPool, BitsDoNotDependOnThreadsInAnyFloatingPointEnvironment) {
  manual_seed(3);
  const Tensor x = randn({300, 1000}), y = full({300, 1000}, 1e-39);  // products with y are subnormal
  const auto bits = [&](int threads) {
    const test::ThreadGuard guard(threads);
    return cat({reshape(x * y, {-1}), sum(exp(x), {1}), reshape(matmul(x, transpose(x, 0, 1)), {-1})}, 0)
        .to_vector<float>();
  };
  for (const test::FloatSetting& setting : test::float_settings()) {
    std::vector<float> one, four;
    {
      const test::HostFloats host(setting);
      one = bits(1);
      four = bits(4);
    }
    EXPECT_TRUE(one == four) << "rounding " << setting.rounding << ", flush " << setting.flush;
    EXPECT_EQ(one[0] == 0, setting.flush) << "products are flushed where the host says so";
  }
}

TEST(ThreadPool, SignalsOfTheHostGoToItsThreads) {
  on_caller_and_helper([](bool helper) {
    sigset_t blocked;
    sigemptyset(&blocked);
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGINT), helper ? 1 : 0);
    EXPECT_EQ(sigismember(&blocked, SIGALRM), helper ? 1 : 0);
    EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0) << "a fault must end the process";
  });
}

TEST(ThreadPool, MoreCallersThanThreadsAndLoops) {
  const test::ThreadGuard guard(3);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 12; ++caller) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 500; ++loop) {
        std::atomic<std::int64_t> sum{0};
        parallel_for(64, 4, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) sum += i;
        });
        total += sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 12 * 500 * (63 * 64 / 2));
}

TEST(ThreadPool, ACallerDoesNotTakeThreadsThatAnotherUses) {
  std::atomic<int> elsewhere{0};
  on_caller_and_helper([&](bool helper) {
    if (helper) return;
    // Two threads work, as many as may.
    std::thread([&] {
      const std::thread::id self = std::this_thread::get_id();
      parallel_for(100, 1, [&](std::int64_t, std::int64_t) {
        elsewhere += std::this_thread::get_id() == self ? 0 : 1;
      });
    }).join();
  });
  EXPECT_EQ(elsewhere, 0);
}

TEST(ThreadPool, ExceptionsOfManyCallersReachTheirOwn) {
  const test::ThreadGuard guard(4);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([caller] {
      for (int loop = 0; loop < 200; ++loop) {
        try {
          parallel_for(16, 1, [&](std::int64_t begin, std::int64_t) {
            if (begin == caller) throw std::runtime_error(std::to_string(caller));
          });
          ADD_FAILURE() << "no exception";
        } catch (const std::runtime_error& error) {
          ASSERT_EQ(error.what(), std::to_string(caller));
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

/// The exit status of a child that does `work` with a pool of its own; 99 when it is killed.
template <class Work>
int status_of_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    work();
    std::_Exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

TEST(ThreadPool, WhereTheSystemGivesNoThreadsTheCallerWorksAlone) {
  if (test::under_sanitizer()) GTEST_SKIP() << "sanitizers need address space";
  const int status = status_of_child([] {
    // No address space for a stack. A small one would be found among those of the parent's threads.
    const rlimit none{std::size_t{1} << 20U, std::size_t{1} << 20U};
    setrlimit(RLIMIT_AS, &none);
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, std::size_t{1} << 30U);
    pthread_setattr_default_np(&large);
    set_num_threads(4);
    int sum = 0;  // no atomic: one thread
    parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) { sum += static_cast<int>(begin); });
    if (sum != 4950) std::_Exit(1);
  });
  EXPECT_EQ(status, 0);
}

/// What the next test runs in a process of its own: a child of fork() has lost the objects of its parent's
/// threads, which a leak checker would report at its exit.
TEST(ThreadPool, Child) {
  if (std::getenv("MEZZO_TEST_EXIT_ON_A_HELPER") == nullptr) GTEST_SKIP() << "a part of the next test";
  on_caller_and_helper([](bool helper) {
    if (helper) std::exit(7);
    std::this_thread::sleep_for(std::chrono::seconds(60));
  });
}

TEST(ThreadPool, ExitOnAHelperEndsTheProcess) {
  const test::Ran ran = test::run_tests("ThreadPool.Child", "MEZZO_TEST_EXIT_ON_A_HELPER=1");
  EXPECT_EQ(ran.status, 7) << ran.text;
}

TEST(ThreadPool, AnAbsurdNumberOfThreadsStartsAsManyAsThereAreChunks) {
  const test::ThreadGuard absurd(std::numeric_limits<int>::max());
  std::atomic<int> sum{0};
  parallel_for(3, 1, [&](std::int64_t begin, std::int64_t) { sum += static_cast<int>(begin); });
  EXPECT_EQ(sum, 3);
}

using detail::HelperBackoff;
using std::chrono::milliseconds;

/// A moment so many milliseconds after the clock's own beginning.
HelperBackoff::Clock::time_point at(int ms) { return HelperBackoff::Clock::time_point(milliseconds(ms)); }

TEST(HelperBackoff, CountsHelpersUntilThePauseEnds) {
  HelperBackoff backoff;
  EXPECT_EQ(backoff.preempted(), 0);
  backoff.add_preempted(at(1000));
  EXPECT_EQ(backoff.preempted(at(1000)), 1);
  backoff.add_preempted(at(1001));
  EXPECT_EQ(backoff.preempted(at(1003)), 2);
  EXPECT_EQ(backoff.preempted(at(1004)), 0) << "the second does not make the pause longer";
}

TEST(HelperBackoff, PausesThatFollowCloselyDoubleToALimit) {
  HelperBackoff backoff;
  int time = 1000, pause = 4;
  for (int i = 0; i < 8; ++i) {
    backoff.add_preempted(at(time));
    EXPECT_EQ(backoff.preempted(at(time + pause - 1)), 1) << i;
    EXPECT_EQ(backoff.preempted(at(time + pause)), 0) << i;
    time += pause + 1;
    pause = std::min(2 * pause, 64);
  }
  backoff.add_preempted(at(time + 200));  // long after the last
  EXPECT_EQ(backoff.preempted(at(time + 203)), 1);
  EXPECT_EQ(backoff.preempted(at(time + 204)), 0) << "a pause begins short";
}

}  // namespace
}  // namespace mezzo
