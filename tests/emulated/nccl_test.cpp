// The emulated NCCL itself: its collectives run when all ranks' streams have come, and what it refuses.
#include "mezzo/dist/nccl/nccl.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "emulated/support.h"
#include "emulated_cuda/nccl.h"

namespace emulated_test {
namespace {

using mezzo::dist::nccl;

class NcclStandIn : public Emulated {
 protected:
  void SetUp() override { start_with("MEZZO_EMULATED_DEVICES", "3"); }
};
using NcclStandInDeathTest = NcclStandIn;

/// One rank: device r is current.
struct Rank {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// Makes a communicator of threads that run `f`.
void on_ranks(int size, const std::function<void(const Rank&)>& f) {
  ncclUniqueId id{};
  ASSERT_EQ(nccl().unique_id(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      Rank rank{r, nullptr, new_stream()};
      ASSERT_EQ(nccl().init_rank(&rank.comm, size, id, r), ncclSuccess) << nccl().last_error(nullptr);
      f(rank);
      ASSERT_EQ(nccl().destroy(rank.comm), ncclSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// What a call was refused for; "" if it was not, and the text of the wrong result if it is another one.
std::string why(ncclResult_t result, ncclResult_t expected) {
  if (result == ncclSuccess) return "";
  return result == expected ? nccl().last_error(nullptr) : nccl().error_string(result);
}

std::vector<float> read(const Rank& rank, const float* memory, std::size_t count) {
  EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  return to_host(memory, count);
}

TEST_F(NcclStandIn, CollectivesInPlaceAndNot) {
  on_ranks(3, [](const Rank& r) {
    const auto me = static_cast<float>(r.rank);
    float* const x = to_device<float>({me, me + 10, me + 20});
    float* const y = to_device<float>(std::vector<float>(9, -1));
    EXPECT_EQ(nccl().all_reduce(x, y, 3, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(read(r, y, 3), (std::vector<float>{3, 33, 63}));
    EXPECT_EQ(nccl().all_reduce(y, y, 3, ncclFloat32, ncclMax, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(read(r, y, 3), (std::vector<float>{3, 33, 63}));
    EXPECT_EQ(nccl().all_gather(x, y, 3, ncclFloat32, r.comm, r.stream), ncclSuccess);
    const std::vector<float> all{0, 10, 20, 1, 11, 21, 2, 12, 22};
    EXPECT_EQ(read(r, y, 9), all);
    EXPECT_EQ(nccl().all_gather(y + 3 * r.rank, y, 3, ncclFloat32, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(read(r, y, 9), all);
    EXPECT_EQ(nccl().reduce_scatter(y, y + 3 * r.rank, 3, ncclFloat32, ncclSum, r.comm, r.stream),
              ncclSuccess);
    EXPECT_EQ(read(r, y + 3 * r.rank, 3), (std::vector<float>{3 * me, 3 * (me + 10), 3 * (me + 20)}));
    EXPECT_EQ(nccl().broadcast(x, x, 3, ncclFloat32, 2, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(read(r, x, 3), (std::vector<float>{2, 12, 22}));
  });
}

TEST_F(NcclStandIn, AMissingWaitGivesTheWrongAnswer) {
  for (const bool waits : {false, true}) {
    on_ranks(2, [&](const Rank& r) {
      float* const x = to_device<float>({1});
      const cudaStream_t producer = new_stream(), communication = new_stream();
      ASSERT_EQ(emulated_cuda::enqueue(producer, [x] { *x = 5; }), cudaSuccess);
      const cudaEvent_t event = new_event();
      ASSERT_EQ(cudaEventRecord(event, producer), cudaSuccess);
      if (waits) {
        ASSERT_EQ(cudaStreamWaitEvent(communication, event), cudaSuccess);
      }
      ASSERT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, r.comm, communication), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(communication), cudaSuccess);
      EXPECT_EQ(to_host(x, 1)[0], waits ? 10.0F : 2.0F);
    });
  }
}

TEST_F(NcclStandIn, AGraphRunsItsCollectivesAtEachLaunch) {
  on_ranks(2, [](const Rank& r) {
    float* const x = to_device<float>({1.0F + static_cast<float>(r.rank)});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(r.stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(to_host(x, 1)[0], 1.0F + static_cast<float>(r.rank));
    for (const float expected : {3.0F, 6.0F, 12.0F}) {
      ASSERT_EQ(cudaGraphLaunch(executable, r.stream), cudaSuccess);
      EXPECT_EQ(read(r, x, 1)[0], expected);
    }
  });
}

TEST_F(NcclStandIn, ExchangesAreMatchedByPairs) {
  on_ranks(3, [](const Rank& r) {
    const auto me = static_cast<float>(r.rank);
    float* const from = to_device<float>({10 * me, 10 * me + 1, 10 * me + 2});
    float* const to = to_device<float>({-1, -1, -1});
    ASSERT_EQ(nccl().group_start(), ncclSuccess);
    for (int peer = 0; peer < 3; ++peer) {
      ASSERT_EQ(nccl().receive(to + peer, 1, ncclFloat32, peer, r.comm, r.stream), ncclSuccess);
      ASSERT_EQ(nccl().send(from + peer, 1, ncclFloat32, peer, r.comm, r.stream), ncclSuccess);
    }
    ASSERT_EQ(nccl().group_end(), ncclSuccess);
    EXPECT_EQ(read(r, to, 3), (std::vector<float>{me, 10 + me, 20 + me}));
  });
}

TEST_F(NcclStandIn, RefusesWrongCalls) {
  float* const far = device_array<float>(4);  // of device 0
  on_ranks(2, [far](const Rank& r) {
    float* const x = to_device<float>({1, 2, 3, 4});
    float* const y = device_array<float>(8);
    float host[4] = {};
    const auto reduce = [&](const void* from, void* to, std::size_t count, ncclDataType_t type,
                            ncclRedOp_t op) {
      return why(nccl().all_reduce(from, to, count, type, op, r.comm, r.stream), ncclInvalidArgument);
    };
    const std::string elsewhere =
        "an array that is not on the communicator's device " + std::to_string(r.rank);
    EXPECT_EQ(reduce(host, x, 4, ncclFloat32, ncclSum), elsewhere);
    EXPECT_EQ(reduce(x, host, 4, ncclFloat32, ncclSum), elsewhere);
    EXPECT_EQ(reduce(nullptr, x, 4, ncclFloat32, ncclSum), elsewhere);
    EXPECT_EQ(reduce(x, x + 1, 3, ncclFloat32, ncclSum), "arrays that overlap and are not in place");
    EXPECT_EQ(reduce(x, x, 4, ncclFloat16, ncclSum), "type 6");
    EXPECT_EQ(reduce(x, x, 4, ncclFloat32, ncclAvg), "operation 4");
    EXPECT_EQ(why(nccl().broadcast(x, x, 4, ncclFloat32, 2, r.comm, r.stream), ncclInvalidArgument),
              "root 2");
    const int other = 1 - r.rank;
    EXPECT_EQ(why(nccl().all_gather(y + other, y, 1, ncclFloat32, r.comm, r.stream), ncclInvalidArgument),
              "arrays that overlap and are not in place");
    EXPECT_EQ(why(nccl().reduce_scatter(y, y + other, 1, ncclFloat32, ncclSum, r.comm, r.stream),
                  ncclInvalidArgument),
              "arrays that overlap and are not in place");
    EXPECT_EQ(why(nccl().send(x, 1, ncclFloat32, other, r.comm, r.stream), ncclInvalidUsage),
              "a send outside of a group");
    EXPECT_EQ(why(nccl().group_end(), ncclInvalidUsage), "a group that was not begun");
    ASSERT_EQ(cudaSetDevice(other), cudaSuccess);
    EXPECT_EQ(
        why(nccl().all_reduce(x, x, 4, ncclFloat32, ncclSum, r.comm, r.stream), ncclInvalidUsage),
        "device " + std::to_string(other) + " is current, the communicator's is " + std::to_string(r.rank));
    ASSERT_EQ(cudaSetDevice(r.rank), cudaSuccess);
    if (r.rank == 1) {
      EXPECT_EQ(reduce(x, far, 4, ncclFloat32, ncclSum), elsewhere);
    }
    // The communicator is of use as before.
    EXPECT_EQ(reduce(x, x, 4, ncclFloat32, ncclSum), "");
    EXPECT_EQ(read(r, x, 4), (std::vector<float>{2, 4, 6, 8}));
  });
}

/// Both ranks make a call each, rank 0 first; what rank 1 is told. Rank 0's stream goes on.
std::string told(const std::function<ncclResult_t(const Rank&, float*)>& f) {
  std::string text;
  std::atomic<bool> first_has_called = false;
  on_ranks(2, [&](const Rank& r) {
    float* const x = to_device<float>({1, 2, 3, 4, 5, 6, 7, 8});
    if (r.rank == 1)
      while (!first_has_called) std::this_thread::yield();
    const ncclResult_t result = f(r, x);
    first_has_called = true;
    if (r.rank == 1) text = why(result, ncclInvalidUsage);
    EXPECT_EQ(result == ncclSuccess, r.rank == 0);
    EXPECT_EQ(cudaStreamSynchronize(r.stream), cudaSuccess);
    EXPECT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclInvalidUsage);
  });
  return text;
}

TEST_F(NcclStandIn, RefusesRanksThatDiffer) {
  EXPECT_EQ(told([](const Rank& r, float* x) {
              return nccl().all_reduce(x, x, r.rank == 0 ? 4 : 3, ncclFloat32, ncclSum, r.comm, r.stream);
            }),
            "ranks differ in collective 0: rank 1 calls all_reduce of 3 elements of type 7, operation 0, "
            "another one "
            "all_reduce of 4 elements of type 7, operation 0");
  EXPECT_NE(told([](const Rank& r, float* x) {
              return nccl().all_reduce(x, x, 4, r.rank == 0 ? ncclFloat32 : ncclInt32, ncclSum, r.comm,
                                       r.stream);
            }).find("of type 2"),
            std::string::npos);
  EXPECT_NE(told([](const Rank& r, float* x) {
              return nccl().all_reduce(x, x, 4, ncclFloat32, r.rank == 0 ? ncclSum : ncclMax, r.comm,
                                       r.stream);
            }).find("operation 2"),
            std::string::npos);
  EXPECT_NE(told([](const Rank& r, float* x) {
              return nccl().broadcast(x, x, 4, ncclFloat32, r.rank, r.comm, r.stream);
            }).find("from rank 1, another one broadcast"),
            std::string::npos);
  EXPECT_NE(told([](const Rank& r, float* x) {
              return r.rank == 0 ? nccl().all_gather(x, x, 4, ncclFloat32, r.comm, r.stream)
                                 : nccl().all_reduce(x, x, 4, ncclFloat32, ncclSum, r.comm, r.stream);
            }).find("another one all_gather"),
            std::string::npos);
  EXPECT_EQ(told([](const Rank& r, float* x) {
              EXPECT_EQ(nccl().group_start(), ncclSuccess);
              EXPECT_EQ(nccl().send(x, 2, ncclFloat32, 1 - r.rank, r.comm, r.stream), ncclSuccess);
              if (r.rank == 1) {
                EXPECT_EQ(nccl().receive(x + 4, 2, ncclFloat32, 0, r.comm, r.stream), ncclSuccess);
              }
              return nccl().group_end();
            }),
            "a send without its receive between rank 1 and rank 0");
}

TEST_F(NcclStandIn, RefusesCommunicatorsThatAreNotOrNoMore) {
  on_ranks(2, [](const Rank& r) {
    float* const x = to_device<float>({1});
    ncclComm_t part = nullptr;
    ASSERT_EQ(nccl().split(r.comm, r.rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &part, nullptr), ncclSuccess);
    EXPECT_EQ(part != nullptr, r.rank == 0);
    if (part != nullptr) {
      EXPECT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, part, r.stream), ncclSuccess);
      EXPECT_EQ(read(r, x, 1)[0], 1.0F);
      ASSERT_EQ(nccl().destroy(part), ncclSuccess);
    }
    EXPECT_EQ(why(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, part, r.stream), ncclInvalidArgument),
              "a communicator that was destroyed");
    EXPECT_EQ(why(nccl().destroy(part), ncclInvalidArgument), "a communicator that was destroyed");
  });
}

TEST_F(NcclStandIn, RefusesTwoRanksOnOneDevice) {
  ncclUniqueId id{};
  ASSERT_EQ(nccl().unique_id(&id), ncclSuccess);
  std::string texts[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      ncclComm_t comm = nullptr;
      texts[r] = why(nccl().init_rank(&comm, 2, id, r), ncclInvalidUsage);
      EXPECT_EQ(comm, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts)
    EXPECT_EQ(text, "Duplicate GPU detected: rank 1 and rank 0 both on CUDA device 0");
}

TEST_F(NcclStandIn, RefusesTwoCommunicatorsAtWorkInDifferentStreams) {
  on_ranks(2, [](const Rank& r) {
    float* const x = to_device<float>({1});
    ncclComm_t second = nullptr;
    ASSERT_EQ(nccl().split(r.comm, 0, r.rank, &second, nullptr), ncclSuccess);
    ASSERT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, second, r.stream), ncclSuccess);
    EXPECT_EQ(read(r, x, 1)[0], 4.0F);
  });
  std::atomic<int> refused = 0;
  on_ranks(2, [&](const Rank& r) {
    float* const x = to_device<float>({1});
    ncclComm_t second = nullptr;
    ASSERT_EQ(nccl().split(r.comm, 0, r.rank, &second, nullptr), ncclSuccess);
    if (r.rank == 1) return;
    ASSERT_EQ(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    refused += why(nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, second, new_stream()),
                   ncclInvalidUsage) == "two communicators at work on a device in different streams";
  });
  EXPECT_EQ(refused, 1);
}

TEST_F(NcclStandIn, MakesNoCommunicatorInACapture) {
  ncclUniqueId id{};
  ASSERT_EQ(nccl().unique_id(&id), ncclSuccess);
  const cudaStream_t stream = new_stream();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(nccl().init_rank(&comm, 1, id, 0), ncclUnhandledCudaError);
}

TEST_F(NcclStandInDeathTest, OrdersThatDifferBetweenStreamsEndTheProcess) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto run = [] {
    on_ranks(2, [](const Rank& r) {
      float* const x = to_device<float>({1, 2});
      ncclComm_t second = nullptr;
      EXPECT_EQ(nccl().split(r.comm, 0, r.rank, &second, nullptr), ncclSuccess);
      for (const int turn : {0, 1})
        EXPECT_EQ(
            nccl().all_reduce(x, x, 1, ncclFloat32, ncclSum, turn == r.rank ? r.comm : second, r.stream),
            ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(r.stream), cudaSuccess);
    });
  };
  EXPECT_DEATH(run(), "its streams come to other meetings in another order and wait forever");
}

}  // namespace
}  // namespace emulated_test
