// Collectives of NCCL in the order of streams: behind what makes their input, before what reads their result,
// beside everything else, and with their memory kept.
#include "nccl/cuda_ranks.h"

namespace mezzo {
namespace {

using dist::Group;
using dist::ReduceOp;
using test::run_cuda_ranks;
using test::values;

/// rank + 1 in all elements, by a chain of kernels in the current stream.
Tensor chain(const Group& group, Device device) {
  Tensor x = zeros({1000}, {.device = device});
  for (int i = 0; i <= group.rank(); ++i) x = add(x, 1.0);
  return x;
}

TEST(NcclStreams, WorkBeforeAndAfterIsOrdered) {
  MEZZO_NEED_GPUS(4);
  run_cuda_ranks(4, [](const Group& group, Device device) {
    for (int round = 0; round < 5; ++round) {
      const Tensor x = chain(group, device);
      const dist::Work work = dist::all_reduce(x, ReduceOp::sum, {.group = group, .async = true});
      work.wait();
      x.mul_(2.0);
      EXPECT_EQ(values(x), std::vector<double>(1000, 20));
      EXPECT_TRUE(work.is_completed());
    }
  });
}

TEST(NcclStreams, TheCurrentStreamIsTheOneThatWaits) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const cuda::Stream side(device);
    const cuda::StreamGuard guard(side);
    const Tensor x = chain(group, device);
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    EXPECT_EQ(values(add(x, 1.0)), std::vector<double>(1000, 4));
  });
}

TEST(NcclStreams, SeveralAtATimeKeepTheirOrder) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    std::vector<Tensor> tensors;
    std::vector<dist::Work> works;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(full({100}, group.rank() + i, {.device = device}));
      works.push_back(dist::all_reduce(tensors.back(), ReduceOp::sum, {.group = group, .async = true}));
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i].wait();
      EXPECT_EQ(values(tensors[i])[99], 2.0 * static_cast<double>(i) + 1);
    }
  });
}

TEST(NcclStreams, MemoryOfWhatIsUnderWayIsNotUsedAgain) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      const TensorOptions made{.dtype = dtype, .device = device};
      const Tensor all = zeros({8, 1000}, made);
      dist::Work work;
      {
        // With a gap, so that a copy is made as well.
        const Tensor part = full({4, 2000}, group.rank() + 1.0, made).slice(1, 0, 2000, 2);
        work = dist::all_gather(all, part, {.group = group, .async = true});
      }
      std::vector<Tensor> others;
      for (int i = 0; i < 8; ++i) others.push_back(full({4, 2000}, -1.0, made));
      work.wait();
      EXPECT_EQ(sum(all.to(DType::f32)).item(), 4000.0 * 3);
    }
  });
}

TEST(NcclStreams, AResultThatNobodyWaitsForIsNotThere) {
#if !defined(MEZZO_CUDA_EMULATED)
  GTEST_SKIP() << "on a GPU it may be";
#endif
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const Tensor x = chain(group, device);
    const dist::Work work = dist::all_reduce(x, ReduceOp::sum, {.group = group, .async = true});
    dist::barrier(group);
    EXPECT_EQ(values(x)[0], group.rank() + 1.0);  // the current stream only
    dist::barrier(group);                         // of the hosts: who waits for it runs it for all ranks
    work.wait();
    EXPECT_EQ(values(x)[0], 3.0);
  });
}

TEST(NcclStreams, TheHostDoesNotWaitForOtherRanks) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    dist::all_reduce(zeros({1}, {.device = device}), ReduceOp::sum, {.group = group});
    cuda::current_stream(device).synchronize();
    const Tensor x = chain(group, device);
    if (group.rank() == 1) dist::barrier(group);  // of the hosts, while rank 0's collective is in its stream
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    const Tensor y = add(x, 1.0);
    if (group.rank() == 0) dist::barrier(group);
    EXPECT_EQ(values(y)[999], 4.0);
  });
}

}  // namespace
}  // namespace mezzo
