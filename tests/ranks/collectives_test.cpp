// Collectives over processes: every dtype and op, sizes from none to megabytes, work under way, groups,
// texts.
#include "mezzo/dist/collectives.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/init.h"
#include "mezzo/dist/mpi/transport.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

using dist::ReduceOp;

constexpr DType kReduced[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                              DType::i32, DType::i64, DType::u8};

std::vector<double> values(const Tensor& tensor) {
  const Tensor flat = tensor.to(DType::f64).contiguous().view({-1});
  const auto* const data = static_cast<const double*>(flat.impl().data());
  return {data, data + flat.numel()};
}

/// i % 8 + rank: small enough to be exact in every dtype.
Tensor counted(std::int64_t n, DType dtype, int rank = dist::rank()) {
  return add(remainder(arange(n, {.dtype = DType::f64}), 8.0), static_cast<double>(rank)).to(dtype);
}

TEST(Ranks, StandWhereTheLauncherPutThem) {
  ASSERT_GT(dist::world_size(), 1);
  EXPECT_TRUE(dist::is_initialized());
  const auto texts = dist::all_gather_text(std::to_string(dist::rank()));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(dist::world_size()));
  for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::to_string(r));
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  const auto hosts = dist::all_gather_text(name);
  const auto mine = hosts.begin() + dist::rank();
  EXPECT_EQ(dist::local_rank(), std::count(hosts.begin(), mine, name));
  EXPECT_EQ(dist::local_world_size(), std::count(hosts.begin(), hosts.end(), name));
}

TEST(Ranks, ASecondInitIsOfTheSameSession) {
  { const auto session = dist::init(); }
  dist::ensure_initialized();
  EXPECT_TRUE(dist::is_initialized());
  dist::barrier();
}

TEST(Ranks, AllReduceOfEveryDTypeOpAndSize) {
  const int p = dist::world_size();
  for (const DType dtype : kReduced) {
    for (const std::int64_t n : {0, 1, 5, 1023}) {
      const auto expect = [&](ReduceOp op, auto value_of) {
        const Tensor x = counted(n, dtype);
        dist::all_reduce(x, op);
        const std::vector<double> got = values(x);
        for (std::int64_t i = 0; i < n; ++i)
          ASSERT_EQ(got[static_cast<std::size_t>(i)], value_of(static_cast<double>(i % 8)))
              << to_string(dtype) << " " << to_string(op) << " " << n;
      };
      expect(ReduceOp::sum, [&](double i) { return p * i + p * (p - 1) / 2.0; });
      expect(ReduceOp::min, [](double i) { return i; });
      expect(ReduceOp::max, [&](double i) { return i + p - 1; });
      if (is_floating(dtype)) expect(ReduceOp::mean, [&](double i) { return i + (p - 1) / 2.0; });
    }
  }
}

TEST(Ranks, LargeTensors) {
  const int p = dist::world_size();
  const std::int64_t n = 3'000'000 / 4 / p * p;  // 3 MB
  const Tensor x = counted(n, DType::f32);
  dist::all_reduce(x);
  Tensor expected = counted(n, DType::f32, 0);
  for (int r = 1; r < p; ++r) expected = add(expected, counted(n, DType::f32, r));
  EXPECT_EQ(values(x), values(expected));

  const Tensor part = empty({n / p});
  dist::reduce_scatter(part, counted(n, DType::f32));
  EXPECT_EQ(values(part), values(expected.narrow(0, dist::rank() * (n / p), n / p)));

  const Tensor all = empty({n});
  dist::all_gather(all, part);
  EXPECT_EQ(values(all), values(expected));

  const Tensor root = counted(n, DType::f32);
  dist::broadcast(root, p - 1);
  EXPECT_EQ(values(root), values(counted(n, DType::f32, p - 1)));

  const Tensor exchanged = empty({n});
  dist::all_to_all(exchanged, counted(n, DType::f32));
  for (int r = 0; r < p; ++r) {
    EXPECT_EQ(values(exchanged.narrow(0, r * (n / p), n / p)),
              values(counted(n, DType::f32, r).narrow(0, dist::rank() * (n / p), n / p)));
  }
}

TEST(Ranks, ScatterGatherAndExchangeOfEveryDType) {
  const int p = dist::world_size(), rank = dist::rank();
  for (const DType dtype : kReduced) {
    for (const std::int64_t n : {0, 1, 7}) {
      const Tensor part = empty({n}, {.dtype = dtype});
      dist::reduce_scatter(part, counted(n * p, dtype));
      const Tensor mine = mul(counted(n * p, DType::f64, 0).narrow(0, n * rank, n), static_cast<double>(p));
      EXPECT_EQ(values(part), values(add(mine, p * (p - 1) / 2.0))) << to_string(dtype) << " " << n;

      const Tensor all = empty({n * p}, {.dtype = dtype});
      dist::all_gather(all, counted(n, dtype));
      for (int r = 0; r < p; ++r)
        EXPECT_EQ(values(all.narrow(0, n * r, n)), values(counted(n, DType::f64, r)));

      const Tensor exchanged = empty({n * p}, {.dtype = dtype});
      dist::all_to_all(exchanged, counted(n * p, dtype));
      for (int r = 0; r < p; ++r)
        EXPECT_EQ(values(exchanged.narrow(0, n * r, n)),
                  values(counted(n * p, DType::f64, r).narrow(0, n * rank, n)));
    }
  }
}

TEST(Ranks, BoolsTravelToo) {
  const Tensor x = full({3}, dist::rank() == 0 ? 1.0 : 0.0, {.dtype = DType::boolean});
  dist::broadcast(x, 0);
  EXPECT_EQ(values(x), std::vector<double>(3, 1.0));
}

// What one call of MPI cannot count is cut in pieces; here, at 1000 elements.
TEST(Ranks, CallsAreCutInPieces) {
  dist::MpiTransport::set_most_elements(1000);
  const int p = dist::world_size();
  const std::int64_t n = 2500;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Tensor x = counted(n, dtype);
    dist::all_reduce(x);
    EXPECT_EQ(values(x),
              values(add(mul(counted(n, DType::f64, 0), static_cast<double>(p)), p * (p - 1) / 2.0)));
    const Tensor part = empty({n}, {.dtype = dtype});
    dist::reduce_scatter(part, counted(n * p, dtype), ReduceOp::max);
    EXPECT_EQ(values(part),
              values(add(counted(n * p, DType::f64, 0).narrow(0, n * dist::rank(), n), p - 1.0)));
  }
  dist::MpiTransport::set_most_elements(INT_MAX);
}

// A transport may be given a part that stands in its place in the whole.
TEST(Ranks, PartsInTheirPlace) {
  const int p = dist::world_size(), rank = dist::rank();
  const dist::GroupState& state = dist::world().state();
  const std::int64_t n = 300;
  const Tensor whole = counted(n * p, DType::f32);
  auto* const place = static_cast<float*>(whole.impl().data()) + n * rank;
  const auto run = [&](auto job) { dist::world().state().start(Device::cpu(), {whole}, job).wait(); };
  run([&](dist::Transport& transport) {
    transport.reduce_scatter(whole.impl().data(), place, n, DType::f32, ReduceOp::sum);
  });
  const Tensor sums = add(mul(counted(n * p, DType::f64, 0), static_cast<double>(p)), p * (p - 1) / 2.0);
  EXPECT_EQ(values(whole.narrow(0, n * rank, n)), values(sums.narrow(0, n * rank, n)));
  run([&](dist::Transport& transport) {
    transport.all_gather(place, whole.impl().data(), n * sizeof(float));
  });
  EXPECT_EQ(values(whole), values(sums));
  EXPECT_EQ(state.size(), p);
}

TEST(Ranks, WorkUnderWay) {
  std::vector<Tensor> tensors;
  std::vector<dist::Work> works;
  for (int i = 0; i < 50; ++i) {
    tensors.push_back(full({1000 + i}, dist::rank() + i));
    works.push_back(dist::all_reduce(tensors.back(), ReduceOp::sum, {.async = true}));
  }
  const int p = dist::world_size();
  for (std::size_t i = 0; i < works.size(); ++i) {
    works[i].wait();
    EXPECT_TRUE(works[i].is_completed());
    EXPECT_EQ(values(tensors[i]).back(), p * static_cast<double>(i) + p * (p - 1) / 2.0);
  }
}

TEST(Ranks, GroupsOfSomeRanks) {
  const int p = dist::world_size(), rank = dist::rank();
  std::vector<int> even, odd;
  for (int r = p - 1; r >= 0; --r) (r % 2 == 0 ? even : odd).push_back(r);  // the last one first
  const dist::Group evens = dist::world().split(even);
  const dist::Group odds = dist::world().split(odd);
  const dist::Group& mine = rank % 2 == 0 ? evens : odds;
  EXPECT_EQ((rank % 2 == 0 ? odds : evens).size(), 1);
  ASSERT_EQ(mine.size(), p / 2);
  EXPECT_EQ(mine.rank(), p / 2 - 1 - rank / 2);
  const Tensor x = full({3}, rank);
  dist::all_reduce(x, ReduceOp::sum, {.group = mine});
  double sum = 0;
  for (const int r : rank % 2 == 0 ? even : odd) sum += r;
  EXPECT_EQ(values(x), std::vector<double>(3, sum));
  if (p < 4) return;
  const dist::Group pair = mine.split({1, 0});
  EXPECT_EQ(pair.rank(), 1 - mine.rank());
  const auto texts = dist::all_gather_text(std::to_string(rank), pair);
  EXPECT_EQ(texts[static_cast<std::size_t>(pair.rank())], std::to_string(rank));
}

TEST(Ranks, TextsOfAll) {
  const auto texts = dist::all_gather_text(std::string(static_cast<std::size_t>(dist::rank()) * 5, 'x'));
  for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r * 5, 'x'));
  EXPECT_EQ(dist::broadcast_text(dist::rank() == 1 ? "from 1" : "", 1), "from 1");
}

}  // namespace
}  // namespace mezzo
