// What goes wrong with NCCL: shared GPUs, a missing library, a rank that does not come, errors that NCCL
// finds by itself.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "mezzo/core/cuda/graph.h"
#include "nccl/cuda_ranks.h"
#if defined(MEZZO_CUDA_EMULATED)
#include "emulated_cuda/nccl.h"
#endif

namespace mezzo {
namespace {

using dist::Group;
using dist::ReduceOp;
using test::run_cuda_ranks;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

TEST(NcclFailures, RanksThatShareAGpuAreNamedToAll) {
  MEZZO_NEED_GPUS(1);
  test::run_ranks(
      3,
      [](const Group& group) {
        const Tensor x = ones({1}, {.device = Device::cuda(0)});
        const std::string text = message_of([&] { dist::all_reduce(x, ReduceOp::sum, {.group = group}); });
        EXPECT_NE(text.find("a GPU for each of 3 processes"), std::string::npos) << text;
        EXPECT_NE(text.find("ranks 0 and 1 on GPU 0000:"), std::string::npos) << text;
        EXPECT_NE(text.find("dist::local_rank()"), std::string::npos) << text;
      },
      {}, dist::nccl_over_host());
}

using NcclFailuresDeathTest = ::testing::Test;

/// For code that ends its process.
void use_fresh_process() { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

TEST(NcclFailuresDeathTest, AMissingLibraryIsNamedToAll) {
  MEZZO_NEED_GPUS(2);
  use_fresh_process();
  const auto run = [] {
    setenv("MEZZO_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
    std::string texts[2];
    run_cuda_ranks(2, [&](const Group& group, Device device) {
      const Tensor x = ones({1}, {.device = device});
      texts[group.rank()] = message_of([&] { dist::all_reduce(x, ReduceOp::sum, {.group = group}); });
    });
    std::fprintf(stderr, "%s\n%s\n", texts[0].c_str(), texts[1].c_str());
    std::_Exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0),
              "rank 0 on .*/nowhere/libnccl.so.2.*MEZZO_NCCL_LIBRARY.*\n.*rank 0 on .*/nowhere/libnccl.so.2");
}

/// Rank 1 hangs when rank 0 is in `last`, which begins with a collective that is done on both.
void hang(const std::function<void(const Group& group, Device device)>& last) {
  run_cuda_ranks(
      2,
      [&](const Group& group, Device device) {
        dist::all_reduce(ones({1}, {.device = device}), ReduceOp::sum, {.group = group});
        cuda::current_stream(device).synchronize();
        last(group, device);
      },
      std::chrono::milliseconds(1500));
}
void stop_rank_1(const Group& group) {
  if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
}
bool has_failed(int status) { return WIFEXITED(status) && WEXITSTATUS(status) != 0; }

TEST(NcclFailuresDeathTest, ARankThatDoesNotComeEndsTheProgram) {
  MEZZO_NEED_GPUS(2);
  use_fresh_process();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EXIT(hang([](const Group& group, Device device) {
                stop_rank_1(group);
                const Tensor x = ones({100}, {.device = device});
                dist::all_reduce(x, ReduceOp::sum, {.group = group});
                static_cast<void>(x.item());
              }),
              has_failed, "NCCL: all_reduce of 400 bytes, rank 0 of 2 on cuda:0, has not ended within 1.5 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
}

TEST(NcclFailuresDeathTest, ARankThatDoesNotReplayEndsTheProgram) {
  MEZZO_NEED_GPUS(2);
  use_fresh_process();
  EXPECT_EXIT(hang([](const Group& group, Device device) {
                const Tensor x = ones({100}, {.device = device});
                cuda::Graph graph(device, [&] { dist::all_reduce(x, ReduceOp::sum, {.group = group}); });
                graph.replay();
                cuda::current_stream(device).synchronize();
                stop_rank_1(group);
                graph.replay();
                static_cast<void>(x.item());
              }),
              has_failed,
              "NCCL: a replay of a step with collectives, rank 0 of 2 on cuda:0, has not ended within 1.5 s");
}

TEST(NcclFailuresDeathTest, ARankThatDoesNotMeetTheOthersEndsTheProgram) {
  MEZZO_NEED_GPUS(2);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "29518", 1);
  use_fresh_process();
  EXPECT_EXIT(hang([](const Group& group, Device device) {
                const Group part(make_ref<dist::GroupState>(
                    group.rank(), 2, nullptr, nullptr,
                    dist::nccl_from_environment({.timeout = std::chrono::seconds(1)}), device));
                stop_rank_1(group);
                dist::barrier(part);
              }),
              has_failed, "NCCL: ncclCommInitRank, rank 0 of 2 on cuda:0, has not ended within 1 s");
}

#if defined(MEZZO_CUDA_EMULATED)
TEST(NcclFailuresDeathTest, AnErrorThatNcclNoticesEndsTheProgram) {
  MEZZO_NEED_GPUS(2);
  use_fresh_process();
  const auto run = [] {
    run_cuda_ranks(
        2,
        [](const Group& group, Device device) {
          const Tensor x = ones({100}, {.device = device});
          dist::all_reduce(x, ReduceOp::sum, {.group = group});
          cuda::current_stream(device).synchronize();
          emulated_cuda::nccl().async_error = 6;  // ncclRemoteError
          std::this_thread::sleep_for(std::chrono::seconds(60));
        },
        std::chrono::seconds(2));
  };
  EXPECT_EXIT(
      run(), [](int status) { return WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WIFSIGNALED(status); },
      "a collective of rank . of 2 on cuda:. has failed: remote process exited");
}

TEST(NcclFailures, CallsThatDifferAreErrorsAndNotHangs) {
  MEZZO_NEED_GPUS(2);
  std::atomic<int> refused = 0;
  run_cuda_ranks(2, [&](const Group& group, Device device) {
    dist::all_reduce(ones({1}, {.device = device}), ReduceOp::sum, {.group = group});
    const Tensor x = ones({group.rank() + 1}, {.device = device});
    const std::string text = message_of([&] {
      dist::all_reduce(x, ReduceOp::sum, {.group = group});
      dist::barrier(group);  // of the hosts
      cuda::current_stream(device).synchronize();
      dist::all_reduce(x, ReduceOp::sum, {.group = group});
    });
    if (text.find("ranks differ in collective 1") != std::string::npos) ++refused;
    // The first one to be refused has left the other alone in the barrier.
    if (refused == 1) dist::barrier(group);
  });
  EXPECT_EQ(refused, 2);
}

TEST(NcclLifecycle, CommunicatorsGoWithTheirGroups) {
  MEZZO_NEED_GPUS(2);
  const auto made = emulated_cuda::nccl().communicators.load(), gone = emulated_cuda::nccl().destroyed.load();
  run_cuda_ranks(2, [](const Group& group, Device device) {
    dist::all_reduce(ones({1}, {.device = device}), ReduceOp::sum, {.group = group});
    const Group again = group.split({1, 0});
    dist::all_reduce(ones({1}, {.device = device}), ReduceOp::sum, {.group = again});
    dist::all_reduce(ones({1}, {.device = device}), ReduceOp::sum, {.group = group});
  });
  EXPECT_EQ(emulated_cuda::nccl().communicators - made, 4U);
  EXPECT_EQ(emulated_cuda::nccl().destroyed - gone, 4U);
}
#endif

}  // namespace
}  // namespace mezzo
