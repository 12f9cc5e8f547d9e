// Collectives of CUDA tensors over NCCL: values in every dtype and layout, groups, texts, bytes.
#include <cmath>
#include <limits>

#include "nccl/cuda_ranks.h"

namespace mezzo {
namespace {

using dist::Group;
using dist::ReduceOp;
using test::run_cuda_ranks;
using test::values;

/// rank + 1, rank + 2, ...
Tensor counted(const Group& group, std::int64_t n, DType dtype, Device device) {
  return add(arange(n, {.dtype = DType::f64, .device = device}), group.rank() + 1.0).to(dtype);
}

void all_reduce_of_every_dtype(const Group& group, Device device) {
  const int p = group.size();
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    const auto expect = [&](ReduceOp op, auto value_of) {
      const Tensor x = counted(group, 5, dtype, device);
      dist::all_reduce(x, op, {.group = group});
      const std::vector<double> found = values(x);
      for (int i = 0; i < 5; ++i)
        EXPECT_EQ(found[static_cast<std::size_t>(i)], value_of(i)) << p << " " << to_string(dtype);
    };
    expect(ReduceOp::sum, [&](int i) { return p * i + p * (p + 1) / 2.0; });
    expect(ReduceOp::min, [](int i) { return i + 1.0; });
    expect(ReduceOp::max, [&](int i) { return i + static_cast<double>(p); });
    if (is_floating(dtype)) expect(ReduceOp::mean, [&](int i) { return i + (p + 1) / 2.0; });
  }
}

TEST(NcclCollectives, AllReduceOfEveryDType) {
  for (const int p : {2, 4}) {
    MEZZO_NEED_GPUS(p);
    run_cuda_ranks(p, all_reduce_of_every_dtype);
  }
}

void exchange_parts(const Group& group, Device device) {
  const dist::CollectiveOptions options{.group = group};
  const int p = group.size(), r = group.rank();
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::boolean}) {
    const Tensor x = full({2, 2}, r == p - 1 ? 1 : 0, {.dtype = dtype, .device = device});
    dist::broadcast(x, p - 1, options);
    EXPECT_EQ(values(x), std::vector<double>(4, 1));
  }
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    const TensorOptions made{.dtype = dtype, .device = device};
    const Tensor all = empty({static_cast<std::int64_t>(p) * 2, 3}, made);
    dist::all_gather(all, full({2, 3}, r, made), options);
    const std::vector<double> gathered = values(all);
    for (int i = 0; i < p * 6; ++i) EXPECT_EQ(gathered[static_cast<std::size_t>(i)], i / 6);

    const Tensor whole =
        add(arange(static_cast<std::int64_t>(p) * 2, {.dtype = DType::f64, .device = device}), r).to(dtype);
    const Tensor part = empty({2}, made);
    dist::reduce_scatter(part, whole, ReduceOp::sum, options);
    const double ranks = p * (p - 1) / 2.0;
    EXPECT_EQ(values(part), (std::vector<double>{p * 2.0 * r + ranks, p * (2.0 * r + 1) + ranks}));
    EXPECT_EQ(values(whole)[0], r) << "the input stays";
    dist::reduce_scatter(part, whole, ReduceOp::max, options);
    EXPECT_EQ(values(part), (std::vector<double>{2.0 * r + p - 1, 2.0 * r + p}));

    const Tensor sent = add(arange(p, {.dtype = DType::f64, .device = device}), 10.0 * r).to(dtype);
    const Tensor got = empty({p}, made);
    dist::all_to_all(got, sent, options);
    dist::all_to_all(sent, sent, options);  // in place
    for (int i = 0; i < p; ++i) {
      EXPECT_EQ(values(got)[static_cast<std::size_t>(i)], 10.0 * i + r);
      EXPECT_EQ(values(sent)[static_cast<std::size_t>(i)], 10.0 * i + r);
    }
  }
  dist::barrier(group);
}

TEST(NcclCollectives, BroadcastGatherScatterAndExchange) {
  for (const int p : {2, 4}) {
    MEZZO_NEED_GPUS(p);
    run_cuda_ranks(p, exchange_parts);
  }
}

TEST(NcclCollectives, SixteenBitSumsAreRoundedOnce) {
  MEZZO_NEED_GPUS(4);
  run_cuda_ranks(4, [](const Group& group, Device device) {
    // 2048 + 1 + 1 + 1: each addition in f16 would lose the 1.
    const TensorOptions f16{.dtype = DType::f16, .device = device};
    const Tensor x = full({3}, group.rank() == 0 ? 2048.0 : 1.0, f16);
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    EXPECT_EQ(values(x), (std::vector<double>{2052, 2052, 2052}));  // 2051 lies between two f16; to even
    const Tensor part = empty({1}, f16);
    dist::reduce_scatter(part, full({4}, group.rank() == 0 ? 2048.0 : 1.0, f16), ReduceOp::sum,
                         {.group = group});
    EXPECT_EQ(values(part)[0], 2052);
  });
}

TEST(NcclCollectives, InfinityAndNaNReachAllRanks) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const TensorOptions made{.dtype = dtype, .device = device};
      const Tensor x = full({2}, group.rank() == 1 ? inf : 1.0, made);
      dist::all_reduce(x, ReduceOp::mean, {.group = group});
      EXPECT_EQ(values(x), (std::vector<double>{inf, inf}));
      const Tensor y = full({2}, group.rank() == 1 ? -inf : inf, made);
      dist::all_reduce(y, ReduceOp::sum, {.group = group});
      EXPECT_TRUE(std::isnan(values(y)[0]) && std::isnan(values(y)[1]));
    }
  });
}

TEST(NcclCollectives, LayoutsWithGapsAreWrittenInPlace) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const Tensor base = zeros({4, 6}, {.device = device});
    const Tensor x = transpose(base, 0, 1).slice(0, 1, 6, 2);  // [3, 4]
    x.fill_(group.rank() + 1.0);
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    EXPECT_EQ(sum(base).item(), 3.0 * 12);
    EXPECT_EQ(sum(x).item(), 3.0 * 12);
    const Tensor columns = zeros({3, 4}, {.device = device});
    dist::all_gather(transpose(columns, 0, 1).slice(1, 0, 3, 2),
                     full({2, 2}, group.rank() + 1.0, {.device = device}), {.group = group});
    EXPECT_EQ(values(columns), (std::vector<double>{1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 2, 2}));
  });
}

TEST(NcclCollectives, GroupsOfSomeRanks) {
  MEZZO_NEED_GPUS(4);
  run_cuda_ranks(4, [](const Group& group, Device device) {
    const Group odd = group.split({3, 1}), even = group.split({0, 2});
    const bool is_odd = group.rank() % 2 == 1;
    const Group& mine = is_odd ? odd : even;
    EXPECT_EQ((is_odd ? even : odd).size(), 1);
    for (int round = 0; round < 3; ++round) {
      const Tensor x = full({1}, group.rank(), {.device = device});
      dist::all_reduce(x, ReduceOp::sum, {.group = mine});
      EXPECT_EQ(x.item(), is_odd ? 4.0 : 2.0);
      dist::all_reduce(x, ReduceOp::sum, {.group = group});
      EXPECT_EQ(x.item(), 12.0);
    }
    const Tensor alone = full({1}, group.rank(), {.device = device});
    dist::all_reduce(alone, ReduceOp::sum, {.group = is_odd ? even : odd});
    EXPECT_EQ(alone.item(), group.rank());
  });
}

TEST(NcclCollectives, BytesAreThoseOfTheFormula) {
  MEZZO_NEED_GPUS(4);
  run_cuda_ranks(4, [](const Group& group, Device device) {
    dist::all_reduce(zeros({1}, {.device = device}), ReduceOp::sum, {.group = group});  // its communicator
    const auto before = dist::traffic(group).bytes;
    dist::all_reduce(zeros({1000}, {.device = device}), ReduceOp::sum, {.group = group});
    EXPECT_EQ(dist::traffic(group).bytes - before, 2 * 4000 * 3 / 4);
  });
}

TEST(NcclCollectives, EmptyTensorsMoveNothing) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const Tensor x = zeros({0, 3}, {.device = device});
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    dist::broadcast(x, 1, {.group = group});
    dist::all_gather(x, x, {.group = group});
    dist::all_to_all(x, x, {.group = group});
    const Tensor y = ones({1}, {.device = device});
    dist::all_reduce(y, ReduceOp::sum, {.group = group});
    EXPECT_EQ(y.item(), 2.0);
  });
}

/// Groups that NCCL alone moves, as RANK and WORLD_SIZE without MPI give them.
void run_without_host(int size, const test::RankFunction& f) {
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "29517", 1);
  const dist::MakeDeviceTransport make = dist::nccl_from_environment();
  test::run_ranks(size, [&](const Group& host) {
    const Device device = Device::cuda(host.rank());
    f(Group(make_ref<dist::GroupState>(host.rank(), size, nullptr, nullptr, make, device)), device);
  });
  for (const char* const variable : {"MASTER_ADDR", "MASTER_PORT", "NCCL_COMM_ID"}) unsetenv(variable);
}

TEST(NcclWithoutHost, CollectivesTextsAndSplits) {
  MEZZO_NEED_GPUS(4);
  run_without_host(4, [](const Group& group, Device device) {
    const int r = group.rank();
    all_reduce_of_every_dtype(group, device);
    const auto texts = dist::all_gather_text(std::string(static_cast<std::size_t>(r) * 3, 'x'), group);
    EXPECT_EQ(texts, (std::vector<std::string>{"", "xxx", "xxxxxx", "xxxxxxxxx"}));
    EXPECT_EQ(dist::broadcast_text(r == 1 ? "hello" : "no", 1, group), "hello");
    const Group odd = group.split({3, 1});
    EXPECT_EQ(odd.size(), r % 2 == 1 ? 2 : 1);
    EXPECT_EQ(odd.rank(), r == 1 ? 1 : 0);
    const Tensor x = full({1}, r, {.device = device});
    dist::all_reduce(x, ReduceOp::sum, {.group = odd});
    EXPECT_EQ(x.item(), r % 2 == 1 ? 4.0 : r);
    dist::barrier(odd);
    dist::barrier(group);
    EXPECT_THROW(dist::all_reduce(zeros({1}), ReduceOp::sum, {.group = group}), DeviceError);
    const Device other = Device::cuda((r + 1) % 4);
    if (r % 2 == 1) {
      EXPECT_THROW(dist::all_reduce(zeros({1}, {.device = other}), ReduceOp::sum, {.group = odd}),
                   DeviceError);
    }
  });
}

TEST(NcclWithoutHost, AnAddressIsNeeded) {
  for (const char* const port : {"", "port", "0", "70000", "29500x"}) {
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    EXPECT_THROW(static_cast<void>(dist::nccl_from_environment()), ValueError) << port;
  }
  setenv("MASTER_PORT", "29500", 1);
  setenv("MASTER_ADDR", "", 1);
  EXPECT_THROW(static_cast<void>(dist::nccl_from_environment()), ValueError);
  setenv("MASTER_ADDR", "fe80::1", 1);
  EXPECT_NO_THROW(static_cast<void>(dist::nccl_from_environment()));
  EXPECT_STREQ(getenv("NCCL_COMM_ID"), "[fe80::1]:29500");
  for (const char* const variable : {"MASTER_ADDR", "MASTER_PORT", "NCCL_COMM_ID"}) unsetenv(variable);
}

}  // namespace
}  // namespace mezzo
