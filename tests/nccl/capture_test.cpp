// Collectives of NCCL in recorded steps: every replay runs them again, on all ranks; what a capture forbids
// is refused, and the device works on.
#include "mezzo/core/cuda/graph.h"

#include "nccl/cuda_ranks.h"

namespace mezzo {
namespace {

using dist::Group;
using dist::ReduceOp;
using test::run_cuda_ranks;
using test::values;

/// A group's communicator is made outside of captures.
void warm_up(const Group& group, Device device) {
  dist::all_reduce(zeros({1}, {.device = device}), ReduceOp::sum, {.group = group});
  cuda::current_stream(device).synchronize();
}

TEST(NcclCapture, EachReplayRunsTheCollectivesAgain) {
  MEZZO_NEED_GPUS(4);
  run_cuda_ranks(4, [](const Group& group, Device device) {
    warm_up(group, device);
    const Tensor x = zeros({6}, {.device = device}), y = zeros({6}, {.device = device});
    cuda::Graph graph(device, [&] {
      const Tensor z = add(x, 1.0);
      dist::all_reduce(z, ReduceOp::mean, {.group = group});
      y.copy_(mul(z, 4.0));
    });
    EXPECT_EQ(values(y)[0], 0) << "recording does not run";
    for (int i = 0; i < 4; ++i) {
      x.fill_(10.0 * i + group.rank());
      graph.replay();
      EXPECT_EQ(values(y), std::vector<double>(6, 40.0 * i + 10));
    }
  });
}

TEST(NcclCapture, AllCollectivesAndDTypes) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    warm_up(group, device);
    const dist::CollectiveOptions options{.group = group};
    const double r = group.rank();
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
      const TensorOptions made{.dtype = dtype, .device = device};
      const Tensor x = zeros({4}, made), sum = zeros({4}, made), all = zeros({8}, made),
                   part = zeros({2}, made), parts = zeros({4}, made), root = zeros({4}, made),
                   largest = zeros({4}, made);
      cuda::Graph graph(device, [&] {
        sum.copy_(x), root.copy_(x), largest.copy_(x);
        dist::all_reduce(sum, ReduceOp::sum, options);
        dist::all_reduce(largest, ReduceOp::max, options);
        dist::all_gather(all, x, options);
        dist::reduce_scatter(part, x, ReduceOp::sum, options);
        dist::all_to_all(parts, x, options);
        dist::broadcast(root, 1, options);
      });
      for (int i = 1; i < 3; ++i) {
        x.copy_(add(arange(4, {.dtype = DType::f64, .device = device}), 10.0 * i + r).to(dtype));
        graph.replay();
        const double t = 10 * i;
        EXPECT_EQ(values(sum), (std::vector<double>{2 * t + 1, 2 * t + 3, 2 * t + 5, 2 * t + 7}));
        EXPECT_EQ(values(largest), (std::vector<double>{t + 1, t + 2, t + 3, t + 4}));
        EXPECT_EQ(values(all), (std::vector<double>{t, t + 1, t + 2, t + 3, t + 1, t + 2, t + 3, t + 4}));
        EXPECT_EQ(values(part), (std::vector<double>{2 * t + 4 * r + 1, 2 * t + 4 * r + 3}));
        EXPECT_EQ(values(parts),
                  (std::vector<double>{t + 2 * r, t + 2 * r + 1, t + 2 * r + 1, t + 2 * r + 2}));
        EXPECT_EQ(values(root), (std::vector<double>{t + 1, t + 2, t + 3, t + 4}));
      }
    }
  });
}

TEST(NcclCapture, WorkMayBeWaitedForLaterInTheStep) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    warm_up(group, device);
    const Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
    cuda::Graph graph(device, [&] {
      const Tensor a = mul(x, 2.0), b = mul(x, 3.0);
      const dist::Work first = dist::all_reduce(a, ReduceOp::sum, {.group = group, .async = true});
      const dist::Work second = dist::all_reduce(b, ReduceOp::sum, {.group = group, .async = true});
      EXPECT_THROW(static_cast<void>(first.is_completed()), StateError);
      const Tensor c = add(x, 100.0);
      second.wait();
      first.wait();
      y.copy_(add(c, add(a, b)));
    });
    for (int i = 0; i < 2; ++i) {
      graph.replay();
      EXPECT_EQ(values(y), std::vector<double>(4, 111));
      dist::all_reduce(y, ReduceOp::sum, {.group = group});  // between replays
      EXPECT_EQ(values(y), std::vector<double>(4, 222));
    }
  });
}

TEST(NcclCapture, AReplayIsBehindTheCollectivesBegunBeforeIt) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    warm_up(group, device);
    const Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device}),
                 seen = zeros({4}, {.device = device});
    cuda::Graph graph(device, [&] {
      dist::all_reduce(x, ReduceOp::mean, {.group = group});
      seen.copy_(y);
    });
    for (int i = 1; i < 4; ++i) {
      y.fill_(static_cast<double>(i + group.rank()));
      const dist::Work work = dist::all_reduce(y, ReduceOp::sum, {.group = group, .async = true});
      graph.replay();  // without a wait for the work
      EXPECT_EQ(values(seen), std::vector<double>(4, 2 * i + 1));
      work.wait();
    }
  });
}

TEST(NcclCapture, WhatACaptureForbidsIsRefused) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const Tensor x = ones({4}, {.device = device});
    const auto reduce = [&] { dist::all_reduce(x, ReduceOp::sum, {.group = group}); };
    EXPECT_THROW(cuda::Graph(device, reduce), StateError) << "the group's first collective";
    reduce();
    EXPECT_EQ(values(x)[0], 2.0) << "the refusal has spoiled nothing";

    dist::Work before = dist::all_reduce(x, ReduceOp::sum, {.group = group, .async = true});
    EXPECT_THROW(cuda::Graph(device, [&] { before.wait(); }), StateError);
    before.wait();
    EXPECT_EQ(values(x)[0], 4.0);

    dist::Work inside;
    EXPECT_THROW(
        cuda::Graph(device,
                    [&] { inside = dist::all_reduce(x, ReduceOp::sum, {.group = group, .async = true}); }),
        StateError)
        << "nobody waits for it";
    EXPECT_THROW(inside.wait(), StateError);
    reduce();
    EXPECT_EQ(values(x)[0], 8.0);
    EXPECT_THROW(cuda::Graph(device, [&] { dist::barrier(group), static_cast<void>(values(x)); }),
                 StateError);
  });
}

}  // namespace
}  // namespace mezzo
