// Shards of a reducer: gradients of a rank's own part of each bucket, and parameters gathered.
#include "mezzo/dist/detail/reducer.h"

#include "dist/parallel_support.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::DataParallelOptions;
using dist::Group;
using dist::ShardRange;
using test::batch_of;
using test::bytes_of;
using test::gradients_of;
using test::loss_of;
using test::make_mlp;
using test::run_ranks;

/// The elements of a shard in a tensor of its parameter's shape.
Tensor elements_of(const Tensor& tensor, const ShardRange& range) {
  return tensor.detach().view({-1}).narrow(0, range.begin, range.end - range.begin);
}

/// A leaf in the memory of each shard of this rank.
std::vector<Tensor> leaves_of(DataParallel& parallel) {
  std::vector<Tensor> leaves;
  for (const ShardRange& range : parallel.reducer().shards(parallel.group().rank()))
    leaves.push_back(elements_of(parallel.reducer().parameters()[range.parameter].second, range).detach());
  return leaves;
}

/// Backward calls of a step on batch `step`, in parts or with a part of it under no_sync().
void run_backwards(DataParallel& parallel, nn::Layer& net, std::uint64_t step, DType dtype) {
  const bool has_parts = parallel.reducer().options().virtual_parts > 0;
  const int own = has_parts ? parallel.parts() : 2, all = own * parallel.group().size();
  for (int i = 0; i < own; ++i) {
    const auto batch = test::part_of(batch_of(step, 24, dtype), parallel.group().rank() * own + i, all);
    if (!has_parts && i + 1 < own) {
      const auto alone = parallel.no_sync();
      loss_of(net, batch).backward();
    } else {
      loss_of(net, batch).backward();
    }
  }
}

struct Mode {
  std::string name;
  DType dtype = DType::f32;
  DataParallelOptions options = {};
};
std::vector<Mode> modes() {
  std::vector<Mode> result;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const std::string name(to_string(dtype));
    result.push_back({name, dtype});
    result.push_back({name + " sum", dtype, {.reduction = dist::ReduceOp::sum}});
    result.push_back({name + " reduced in bf16", dtype, {.reduce_dtype = DType::bf16}});
    result.push_back({name + " in parts", dtype, {.virtual_parts = 4}});
  }
  for (Mode& mode : result) {
    mode.options.first_bucket_bytes = 100;
    mode.options.bucket_bytes = 500;
  }
  return result;
}

TEST(ReducerShards, AreTheGradientsOfADataParallelBitForBit) {
  for (const Mode& mode : modes()) {
    for (const int p : {1, 2, 4}) {
      SCOPED_TRACE(mode.name + " " + std::to_string(p));
      // Gradients of two steps; the second one is added to the first.
      std::vector<std::vector<Tensor>> whole;
      run_ranks(p, [&](const Group& group) {
        const auto net = make_mlp(5, mode.dtype);
        auto options = mode.options;
        options.group = group;
        DataParallel parallel(net, options);
        static_cast<void>(parallel.reducer().shards(0));  // the same layout
        std::vector<std::vector<Tensor>> gradients;
        for (std::uint64_t step = 0; step < 2; ++step) {
          run_backwards(parallel, *net, step, mode.dtype);
          gradients.push_back(test::copies_of(gradients_of(*net)));
        }
        if (group.rank() == 0) whole = gradients;
      });
      run_ranks(p, [&](const Group& group) {
        const auto net = make_mlp(5, mode.dtype);
        auto options = mode.options;
        options.group = group;
        DataParallel parallel(net, options);
        const auto ranges = parallel.reducer().shards(group.rank());
        const auto leaves = leaves_of(parallel);
        parallel.reducer().shard(leaves);
        for (std::uint64_t step = 0; step < 2; ++step) {
          run_backwards(parallel, *net, step, mode.dtype);
          for (std::size_t i = 0; i < leaves.size(); ++i) {
            const Tensor expected = elements_of(whole[step][ranges[i].parameter], ranges[i]);
            // One process in fast mode adds to `.grad` in another order, as it has no buckets.
            if (p == 1 && mode.options.virtual_parts == 0) {
              const double roundings = is_16bit(mode.dtype) ? 0x1p-6 : 1e-6;
              EXPECT_LT(test::difference({leaves[i].grad()}, {expected}), roundings);
            } else {
              EXPECT_TRUE(bytes_of(leaves[i].grad()) == bytes_of(expected)) << step << " " << i;
            }
          }
          for (const Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
        }
      });
    }
  }
}

TEST(ReducerShards, CoverEveryElementOnce) {
  run_ranks(4, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 500});
    std::vector<Tensor> times;
    for (const Tensor& parameter : net->parameters()) times.push_back(zeros(parameter.shape()));
    for (int r = 0; r < 4; ++r) {
      for (const ShardRange& range : parallel.reducer().shards(r))
        elements_of(times[range.parameter], range).add_(1.0);
    }
    for (const Tensor& counts : times) {
      for (const double count : counts.to_vector<double>()) EXPECT_EQ(count, 1);
    }
  });
}

TEST(ReducerShards, ParametersAreGathered) {
  for (const int p : {1, 2, 3}) {
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(5);
      DataParallel parallel(net, {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 500});
      const auto leaves = leaves_of(parallel);
      parallel.reducer().shard(leaves);
      for (const Tensor& leaf : leaves) leaf.fill_(group.rank() + 1.0);
      const auto version = net->parameters()[0].version();
      parallel.reducer().gather_parameters();
      for (int r = 0; r < p; ++r) {
        for (const ShardRange& range : parallel.reducer().shards(r)) {
          const auto values = elements_of(net->parameters()[range.parameter], range).to_vector<double>();
          EXPECT_EQ(values, std::vector<double>(values.size(), r + 1.0));
        }
      }
      if (p > 1) {
        EXPECT_NE(net->parameters()[0].version(), version) << "kept 16-bit copies are stale";
      }
    });
  }
}

TEST(ReducerShards, LessIsSentThanByADataParallel) {
  run_ranks(4, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group});
    parallel.reducer().shard(leaves_of(parallel));
    const auto before = dist::traffic(group).bytes;
    loss_of(*net, test::share_of(batch_of(1, 8), group)).backward();
    const auto whole = static_cast<std::uint64_t>(parallel.bucket_bytes()[0]);
    EXPECT_EQ(dist::traffic(group).bytes - before, whole * 3 / 4);
    parallel.reducer().gather_parameters();
    EXPECT_EQ(dist::traffic(group).bytes - before, 2 * whole * 3 / 4);
  });
}

TEST(ReducerShards, Refusals) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group});
    auto leaves = leaves_of(parallel);
    EXPECT_THROW(static_cast<void>(parallel.reducer().shards(2)), ValueError);
    EXPECT_THROW(parallel.reducer().shard({leaves.begin() + 1, leaves.end()}), ValueError);
    parallel.reducer().shard(leaves);
    EXPECT_THROW(parallel.reducer().shard(leaves), StateError);
  });
}

}  // namespace
}  // namespace mezzo
