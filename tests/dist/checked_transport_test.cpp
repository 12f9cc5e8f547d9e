// Debug mode over ranks that are threads: equal calls pass, and of unequal ones both ranks are named.
#include "mezzo/dist/detail/checked_transport.h"

#include <gtest/gtest.h>

#include <string>

#include "dist/rank_threads.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/group.h"

namespace mezzo {
namespace {

using dist::CheckedTransport;
using dist::CommunicationError;
using dist::ReduceOp;
using dist::Transport;

/// The message that rank 0 gets when each rank runs `f` with a checked transport; empty when none throws.
template <class F>
std::string message_of(int ranks, F f) {
  std::string message;
  test::run_ranks(ranks, [&](const dist::Group& group) {
    const auto transport = make_ref<CheckedTransport>(group.state().host());
    try {
      f(*transport, group.rank());
    } catch (const CommunicationError& error) {
      if (group.rank() == 0) message = error.what();
    }
  });
  return message;
}

TEST(CheckedTransport, EqualCallsPassAndHaveTheirResults) {
  const std::string message = message_of(3, [](Transport& transport, int rank) {
    float x[2] = {1.0F, static_cast<float>(rank)};
    transport.set_place("gradients");
    transport.all_reduce(x, 2, DType::f32, ReduceOp::sum);
    EXPECT_EQ(x[0], 3.0F);
    EXPECT_EQ(x[1], 3.0F);
    transport.broadcast(x, sizeof x, 2);
    float all[6] = {};
    transport.all_gather(x, all, sizeof x);
    EXPECT_EQ(all[5], 3.0F);
    float exchanged[6] = {};
    transport.all_to_all(all, exchanged, sizeof x);
    EXPECT_EQ(exchanged[0], 3.0F);
    float part[2] = {};
    transport.reduce_scatter(all, part, 2, DType::f32, ReduceOp::max);
    EXPECT_EQ(part[0], 3.0F);
    transport.barrier();
    const int pair[] = {2, 0};
    const Ref<Transport> group = transport.split(pair);
    ASSERT_EQ(static_cast<bool>(group), rank != 1);
    if (rank != 1) {
      EXPECT_EQ(group->rank(), rank == 2 ? 0 : 1);
      group->barrier();
    }
  });
  EXPECT_EQ(message, "");
}

TEST(CheckedTransport, NamesBothRanksAndTheirCalls) {
  const std::string message = message_of(3, [](Transport& transport, int rank) {
    float x[4] = {};
    transport.barrier();
    transport.set_place("gradients, bucket " + std::to_string(rank));
    if (rank == 2) {
      transport.broadcast(x, sizeof x, 1);
    } else {
      transport.all_reduce(x, 4, DType::f32, ReduceOp::sum);
    }
  });
  EXPECT_EQ(message,
            "dist: expected the same collective on all ranks, got rank 0 at all_reduce 2 (4 f32, sum), "
            "gradients, bucket 0, and rank 2 at broadcast 2 (16 bytes, root 1), gradients, bucket 2; let all "
            "ranks make the same calls in the same order");
}

TEST(CheckedTransport, SizeDTypeOpRootAndRanksCount) {
  const auto differs = [](auto f) { return !message_of(2, f).empty(); };
  EXPECT_TRUE(differs([](Transport& transport, int rank) {
    float x[4] = {};
    transport.all_reduce(x, 3 + rank, DType::f32, ReduceOp::sum);
  }));
  EXPECT_TRUE(differs([](Transport& transport, int rank) {
    std::int32_t x[4] = {};
    transport.all_reduce(x, 4, rank == 0 ? DType::f32 : DType::i32, ReduceOp::sum);
  }));
  EXPECT_TRUE(differs([](Transport& transport, int rank) {
    float x[4] = {};
    transport.all_reduce(x, 4, DType::f32, rank == 0 ? ReduceOp::min : ReduceOp::max);
  }));
  EXPECT_TRUE(differs([](Transport& transport, int rank) {
    float x[4] = {};
    transport.broadcast(x, sizeof x, rank);
  }));
  EXPECT_TRUE(differs([](Transport& transport, int rank) {
    const int ranks[] = {rank, 1 - rank};
    static_cast<void>(transport.split(ranks));
  }));
}

TEST(CheckedTransport, TheCallerMayBeToldInstead) {
  test::run_ranks(2, [](const dist::Group& group) {
    std::string told;
    const auto transport =
        make_ref<CheckedTransport>(group.state().host(), [&](const std::string& message) { told = message; });
    float x[2] = {};
    EXPECT_THROW(transport->broadcast(x, sizeof x, group.rank()), CommunicationError);
    EXPECT_NE(told.find("rank 1 at broadcast 1 (8 bytes, root 1)"), std::string::npos) << told;
  });
}

}  // namespace
}  // namespace mezzo
