// Collectives on tensors over ranks that are threads: values, layouts, dtypes, groups, refusals.
#include "mezzo/dist/collectives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dist/rank_threads.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

using dist::Group;
using dist::ReduceOp;
using test::run_ranks;

std::vector<double> values(const Tensor& tensor) {
  const Tensor flat = tensor.to(DType::f64).contiguous().view({-1});
  const auto* const data = static_cast<const double*>(flat.impl().data());
  return {data, data + flat.numel()};
}

/// rank + 1, rank + 2, ...
Tensor counted(const Group& group, std::int64_t n, DType dtype) {
  return add(arange(n, {.dtype = DType::f64}), group.rank() + 1.0).to(dtype);
}

TEST(Collectives, AllReduceOfEveryDTypeAndSize) {
  for (const int p : {1, 2, 3, 4}) {
    for (const DType dtype :
         {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
      run_ranks(p, [&](const Group& group) {
        const auto expect = [&](ReduceOp op, auto value_of) {
          const Tensor x = counted(group, 5, dtype);
          dist::all_reduce(x, op, {.group = group});
          for (int i = 0; i < 5; ++i) EXPECT_EQ(values(x)[static_cast<std::size_t>(i)], value_of(i)) << p;
        };
        expect(ReduceOp::sum, [&](int i) { return p * i + p * (p + 1) / 2.0; });
        expect(ReduceOp::min, [](int i) { return i + 1.0; });
        expect(ReduceOp::max, [&](int i) { return i + static_cast<double>(p); });
        if (is_floating(dtype)) expect(ReduceOp::mean, [&](int i) { return i + (p + 1) / 2.0; });
      });
    }
  }
}

TEST(Collectives, SixteenBitSumsAreRoundedOnce) {
  run_ranks(4, [](const Group& group) {
    // 2048 + 1 + 1 + 1: each addition in f16 would lose the 1.
    const Tensor x = full({3}, group.rank() == 0 ? 2048.0 : 1.0, {.dtype = DType::f16});
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    EXPECT_EQ(values(x), (std::vector<double>{2052, 2052, 2052}));  // 2051 lies between two f16; to even
  });
}

TEST(Collectives, InfinityAndNaNReachAllRanks) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    run_ranks(3, [&](const Group& group) {
      const double inf = std::numeric_limits<double>::infinity();
      const Tensor x = full({2}, group.rank() == 1 ? inf : 1.0, {.dtype = dtype});
      dist::all_reduce(x, ReduceOp::mean, {.group = group});
      EXPECT_EQ(values(x), (std::vector<double>{inf, inf}));
      const Tensor y = full({2}, group.rank() == 2 ? -inf : inf, {.dtype = dtype});
      dist::all_reduce(y, ReduceOp::sum, {.group = group});
      EXPECT_TRUE(std::isnan(values(y)[0]));
    });
  }
}

TEST(Collectives, LayoutsWithGapsAreWrittenInPlace) {
  run_ranks(2, [](const Group& group) {
    const Tensor base = zeros({4, 6});
    const Tensor x = transpose(base, 0, 1).slice(0, 1, 6, 2);  // [3, 4]
    x.fill_(group.rank() + 1.0);
    dist::all_reduce(x, ReduceOp::sum, {.group = group});
    EXPECT_EQ(sum(base).item(), 3.0 * 12);
    EXPECT_EQ(sum(x).item(), 3.0 * 12);
  });
}

TEST(Collectives, BroadcastGatherScatterAndExchange) {
  for (const int p : {1, 2, 3}) {
    run_ranks(p, [&](const Group& group) {
      const dist::CollectiveOptions options{.group = group};
      const int r = group.rank();
      const Tensor x = full({2, 2}, r, {.dtype = DType::i64});
      dist::broadcast(x, p - 1, options);
      EXPECT_EQ(values(x), std::vector<double>(4, p - 1));

      const Tensor all = empty({static_cast<std::int64_t>(p) * 2, 3}, {.dtype = DType::f16});
      dist::all_gather(all, full({2, 3}, r, {.dtype = DType::f16}), options);
      for (int i = 0; i < p; ++i) EXPECT_EQ(sum(all.narrow(0, 2 * i, 2)).item(), 6.0 * i);

      for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
        const Tensor whole =
            add(arange(static_cast<std::int64_t>(p) * 2, {.dtype = DType::f64}), r).to(dtype);
        const Tensor part = empty({2}, {.dtype = dtype});
        dist::reduce_scatter(part, whole, ReduceOp::sum, options);
        const double ranks = p * (p - 1) / 2.0;
        EXPECT_EQ(values(part), (std::vector<double>{p * 2.0 * r + ranks, p * (2.0 * r + 1) + ranks}));
        EXPECT_EQ(values(whole)[0], r);  // the input stays
      }

      const Tensor sent = add(arange(p, {.dtype = DType::f32}), 10.0 * r);
      const Tensor got = empty({p});
      dist::all_to_all(got, sent, options);
      for (int i = 0; i < p; ++i) EXPECT_EQ(values(got)[static_cast<std::size_t>(i)], 10.0 * i + r);
      dist::barrier(group);
    });
  }
}

TEST(Collectives, WorkIsDoneAfterWait) {
  run_ranks(2, [](const Group& group) {
    std::vector<Tensor> tensors;
    std::vector<dist::Work> works;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(full({100}, group.rank() + i));
      works.push_back(dist::all_reduce(tensors.back(), ReduceOp::sum, {.group = group, .async = true}));
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i].wait();
      EXPECT_TRUE(works[i].is_completed());
      EXPECT_EQ(values(tensors[i])[99], 2.0 * static_cast<double>(i) + 1);
    }
  });
}

TEST(Collectives, GroupsOfSomeRanks) {
  run_ranks(4, [](const Group& group) {
    const Group odd = group.split({3, 1});
    const Group even = group.split({0, 2});
    const bool is_odd = group.rank() % 2 == 1;
    const Group& mine = is_odd ? odd : even;
    EXPECT_EQ((is_odd ? even : odd).size(), 1);
    EXPECT_EQ(mine.size(), 2);
    if (is_odd) {
      EXPECT_EQ(odd.rank(), group.rank() == 3 ? 0 : 1);
    }
    const Tensor x = full({1}, group.rank());
    dist::all_reduce(x, ReduceOp::sum, {.group = mine});
    EXPECT_EQ(x.item(), is_odd ? 4.0 : 2.0);
    EXPECT_THROW(static_cast<void>(group.split({0, 4})), ValueError);
    EXPECT_THROW(static_cast<void>(group.split({1, 1})), ValueError);
  });
}

TEST(Collectives, TextsOfAllRanks) {
  run_ranks(3, [](const Group& group) {
    const auto texts =
        dist::all_gather_text(std::string(static_cast<std::size_t>(group.rank()) * 3, 'x'), group);
    EXPECT_EQ(texts, (std::vector<std::string>{"", "xxx", "xxxxxx"}));
    EXPECT_EQ(dist::broadcast_text(group.rank() == 1 ? "hello" : "no", 1, group), "hello");
  });
}

TEST(Collectives, BytesAreThoseOfTheFormula) {
  run_ranks(4, [](const Group& group) {
    const dist::CollectiveOptions options{.group = group};
    const auto before = dist::traffic(group).bytes;
    dist::all_reduce(zeros({1000}), ReduceOp::sum, options);
    EXPECT_EQ(dist::traffic(group).bytes - before, 2 * 4000 * 3 / 4);
    dist::all_gather(zeros({400}), zeros({100}), options);
    EXPECT_EQ(dist::traffic(group).bytes - before, 6000 + 3 * 400);
  });
}

TEST(Collectives, RefusalsNameWhatIsWrong) {
  run_ranks(2, [](const Group& group) {
    const dist::CollectiveOptions options{.group = group};
    EXPECT_THROW(dist::all_reduce(Tensor(), ReduceOp::sum, options), ValueError);
    EXPECT_THROW(dist::all_reduce(zeros({2}, {.requires_grad = true}), ReduceOp::sum, options),
                 AutogradError);
    EXPECT_THROW(dist::all_reduce(zeros({2}, {.dtype = DType::i64}), ReduceOp::mean, options), DTypeError);
    EXPECT_THROW(dist::all_reduce(zeros({2}, {.dtype = DType::boolean}), ReduceOp::sum, options), DTypeError);
    EXPECT_THROW(dist::all_reduce(zeros({2}).to(DType::f8_e4m3), ReduceOp::sum, options), DTypeError);
    EXPECT_THROW(dist::broadcast(zeros({2}), 2, options), ValueError);
    EXPECT_THROW(dist::all_gather(zeros({3}), zeros({2}), options), ShapeError);
    EXPECT_THROW(dist::all_gather(zeros({4}, {.dtype = DType::f64}), zeros({2}), options), DTypeError);
    EXPECT_THROW(dist::reduce_scatter(zeros({1}), zeros({3}), ReduceOp::sum, options), ShapeError);
    EXPECT_THROW(dist::all_to_all(zeros({3}), zeros({3}), options), ShapeError);
  });
}

TEST(Collectives, ARankThatThrowsEndsTheOthers) {
  EXPECT_THROW(run_ranks(3,
                         [](const Group& group) {
                           if (group.rank() == 1) throw ValueError("test", "a", "b", "c");
                           dist::barrier(group);
                         }),
               ValueError);
}

}  // namespace
}  // namespace mezzo
