// DataParallel in fast mode: gradients and buckets, against one process with the same global batch.
#include "mezzo/dist/data_parallel.h"

#include "dist/parallel_support.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::DataParallelOptions;
using dist::Group;
using dist::ReduceOp;
using test::batch_of;
using test::bytes_of;
using test::difference;
using test::gradients_of;
using test::loss_of;
using test::make_mlp;
using test::run_ranks;
using test::share_of;

/// Gradients of one process for a batch.
std::vector<Tensor> alone(std::uint64_t net_seed, const test::Batch& batch) {
  const auto net = make_mlp(net_seed);
  loss_of(*net, batch).backward();
  return gradients_of(*net);
}

TEST(DataParallel, GradientsAreThoseOfTheGlobalBatch) {
  for (const int p : {1, 2, 3, 4}) {
    SCOPED_TRACE(p);
    const auto batch = batch_of(1, 12);
    const auto expected = alone(5, batch);
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(5 + static_cast<std::uint64_t>(group.rank()));  // others than rank 0's
      DataParallel parallel(net, {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 500});
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        loss_of(*net, share_of(batch, group)).backward();
        EXPECT_LT(difference(gradients_of(*net), expected), 1e-6) << step;
      }
    });
  }
}

TEST(DataParallel, ShardsOfAllRanksAreTheGradients) {
  for (const int p : {1, 2, 3}) {
    SCOPED_TRACE(p);
    const auto batch = batch_of(1, 12);
    const auto expected = alone(5, batch);
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(5);
      DataParallel parallel(net, {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 500});
      const auto ranges = parallel.reducer().shards(group.rank());
      std::vector<Tensor> leaves;
      for (const auto& range : ranges) {
        const Tensor& parameter = parallel.reducer().parameters()[range.parameter].second;
        const Tensor leaf = parameter.detach().view({-1}).narrow(0, range.begin, range.end - range.begin);
        leaves.push_back(leaf.detach());
      }
      parallel.reducer().shard(leaves);
      loss_of(*net, share_of(batch, group)).backward();
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const auto& range = ranges[i];
        const Tensor whole = expected[range.parameter].view({-1});
        EXPECT_LT(difference({leaves[i].grad()}, {whole.narrow(0, range.begin, range.end - range.begin)}),
                  1e-5);
        const NoGrad no_grad;
        leaves[i].copy_(full(leaves[i].shape(), group.rank() + 1.0));
      }
      for (const Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
      parallel.reducer().gather_parameters();
      for (int r = 0; r < p; ++r) {
        for (const auto& range : parallel.reducer().shards(r)) {
          const Tensor values = net->parameters()[range.parameter].detach().view({-1});
          const auto part = values.narrow(0, range.begin, range.end - range.begin).to_vector<double>();
          EXPECT_EQ(part, std::vector<double>(part.size(), r + 1.0));
        }
      }
    });
  }
}

}  // namespace
}  // namespace mezzo
