// Training by several ranks in fast mode against one process with the same global batches: every optimizer,
// accumulation, clipping, loss scaling, uneven batches, reduce_dtype.
#include <functional>
#include <map>

#include "dist/parallel_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/backend.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/lbfgs.h"
#include "mezzo/optim/muon.h"
#include "mezzo/optim/sam.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/algorithms.h"
#include "support/caught_warnings.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::DataParallelOptions;
using dist::Group;
using dist::ReduceOp;
using test::Batch;
using test::batch_of;
using test::bytes_of;
using test::copies_of;
using test::difference;
using test::gradients_of;
using test::loss_of;
using test::make_mlp;
using test::part_of;
using test::run_ranks;
using test::share_of;

/// Buckets of about two parameters.
DataParallelOptions small_buckets(const Group& group) {
  return {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 900};
}

/// Trains the same model with this process's share of each batch; returns its parameters.
using Training = std::function<std::vector<Tensor>(const Group& group)>;

/// Parameters of p ranks are one process's to 1e-6.
void expect_equal_training(const Training& train, int p, double tolerance = 1e-6) {
  const auto expected = train(Group());
  std::vector<std::vector<Tensor>> of_rank(static_cast<std::size_t>(p));
  run_ranks(p, [&](const Group& group) { of_rank[static_cast<std::size_t>(group.rank())] = train(group); });
  for (const auto& parameters : of_rank) {
    EXPECT_LT(difference(parameters, expected), tolerance) << p << " ranks";
    EXPECT_TRUE(bytes_of(parameters) == bytes_of(of_rank[0])) << "all ranks have the same bits";
  }
}

/// The model as it is without a DataParallel on one process.
struct Replica {
  explicit Replica(const Group& group, const std::shared_ptr<nn::Sequential>& model) : net(model) {
    if (group.size() > 1) parallel.emplace(net, small_buckets(group));
  }
  std::shared_ptr<nn::Sequential> net;
  std::optional<DataParallel> parallel;
};

TEST(ParallelTraining, EveryOptimizer) {
  for (const optim::Algorithm& algorithm : optim::algorithms()) {
    SCOPED_TRACE(algorithm.name);
    const Training train = [&](const Group& group) {
      const Replica replica(group, make_mlp(3));
      const auto optimizer = algorithm.make(replica.net->parameters());
      for (std::uint64_t step = 0; step < 5; ++step) {
        optimizer->zero_grad();
        loss_of(*replica.net, share_of(batch_of(step, 8), group)).backward();
        optimizer->step();
      }
      return copies_of(replica.net->parameters());
    };
    for (const int p : {2, 4}) expect_equal_training(train, p);
  }
}

TEST(ParallelTraining, Muon) {
  const Training train = [](const Group& group) {
    auto net = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 16, nn::LinearOptions{.bias = false}),
                                        nn::make<nn::Linear>(16, 4, nn::LinearOptions{.bias = false}));
    test::fill(*net, 3);
    const Replica replica(group, net);
    optim::Muon optimizer(*net, {.lr = 0.02});
    for (std::uint64_t step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      loss_of(*net, share_of(batch_of(step, 8), group)).backward();
      optimizer.step();
    }
    return copies_of(net->parameters());
  };
  // Updates of a size of lr are rounded to bf16 on their way: a last bit of a gradient may change one by
  // 2^-8 of lr, in each step.
  expect_equal_training(train, 2, 4 * 0.02 / 256 / 0.5);
}

TEST(ParallelTraining, LBFGSAndSAM) {
  const Training lbfgs = [](const Group& group) {
    const Replica replica(group, make_mlp(3));
    optim::LBFGS optimizer(*replica.net, {.lr = 0.1, .max_iter = 3});
    const Batch batch = share_of(batch_of(1, 8), group);
    for (int step = 0; step < 2; ++step) {
      optimizer.step([&] {
        optimizer.zero_grad();
        const Tensor loss = loss_of(*replica.net, batch);
        loss.backward();
        return loss;
      });
    }
    return copies_of(replica.net->parameters());
  };
  expect_equal_training(lbfgs, 2);
  const Training sam = [](const Group& group) {
    const Replica replica(group, make_mlp(3));
    optim::SGD sgd(*replica.net, {.lr = 0.1, .momentum = 0.9});
    optim::SAM optimizer(sgd);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Batch batch = share_of(batch_of(step, 8), group);
      optimizer.step([&] {
        sgd.zero_grad();
        const Tensor loss = loss_of(*replica.net, batch);
        loss.backward();
        return loss;
      });
    }
    return copies_of(replica.net->parameters());
  };
  for (const int p : {2, 4}) expect_equal_training(sam, p);
}

TEST(ParallelTraining, AccumulationAndClipping) {
  const Training train = [](const Group& group) {
    Replica replica(group, make_mlp(3));
    optim::AdamW optimizer(*replica.net, {.lr = 0.01});
    for (std::uint64_t step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      for (std::uint64_t micro = 0; micro < 3; ++micro) {
        const Batch batch = share_of(batch_of(10 * step + micro, 8), group);
        const auto backward = [&] { (loss_of(*replica.net, batch) / 3.0).backward(); };
        if (micro < 2 && replica.parallel) {
          const auto alone = replica.parallel->no_sync();
          backward();
        } else {
          backward();
        }
      }
      static_cast<void>(optim::clip_grad_norm_(replica.net->parameters(), 0.05));
      optimizer.step();
    }
    return copies_of(replica.net->parameters());
  };
  for (const int p : {2, 4}) expect_equal_training(train, p);
}

TEST(ParallelTraining, ALoopThatNeverEndsNoSyncIsWarnedOf) {
  for (const bool is_reduced : {false, true}) {
    const test::CaughtWarnings caught;
    run_ranks(2, [&](const Group& group) {
      Replica replica(group, make_mlp(3));
      optim::SGD optimizer(*replica.net, {.lr = 0.1});
      for (std::uint64_t step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        const Batch batch = share_of(batch_of(step, 8), group);
        {
          const auto alone = replica.parallel->no_sync();
          loss_of(*replica.net, batch).backward();
        }
        if (is_reduced) loss_of(*replica.net, batch).backward();
        optimizer.step();
      }
    });
    ASSERT_EQ(caught.names().size(), is_reduced ? 0U : 1U);
    if (is_reduced) continue;
    EXPECT_EQ(
        caught.texts()[0],
        "no_sync: expected a backward outside of it before each optimizer step, got 3 steps with gradients "
        "of one rank alone; end it before the last backward of a step, so that ranks keep the same "
        "parameters");
  }
}

TEST(ParallelTraining, UnevenBatchesBySumAndTheGlobalNumber) {
  const Training train = [](const Group& group) {
    auto net = make_mlp(3);
    std::optional<DataParallel> parallel;
    if (group.size() > 1) {
      auto options = small_buckets(group);
      options.reduction = ReduceOp::sum;
      parallel.emplace(net, options);
    }
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9});
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Batch global = batch_of(step, 7);
      Batch batch = global;
      if (group.size() > 1) {  // 2 samples on each rank, and the rest on the last
        const std::int64_t begin = 2 * group.rank();
        const std::int64_t rows = group.rank() + 1 < group.size() ? 2 : 7 - begin;
        batch = {global.x.narrow(0, begin, rows), global.y.narrow(0, begin, rows)};
      }
      optimizer.zero_grad();
      (sum(square((*net)(batch.x) - batch.y)) / 28.0).backward();
      optimizer.step();
    }
    return copies_of(net->parameters());
  };
  for (const int p : {2, 3}) expect_equal_training(train, p);
}

TEST(ParallelTraining, AScalerSkipsOnAllRanksWhereOneOverflows) {
  run_ranks(2, [](const Group& group) {
    auto net = make_mlp(3);
    DataParallel parallel(net, small_buckets(group));
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9});
    amp::GradScaler scaler({.init_scale = 1024});
    for (std::uint64_t step = 0; step < 6; ++step) {
      const bool overflows = step == 1 || step == 4;
      Batch batch = share_of(batch_of(step, 8), group);
      if (overflows && group.rank() == static_cast<int>(step % 2)) batch.x = batch.x * 1e30;
      const auto before = bytes_of(net->parameters());
      optimizer.zero_grad();
      Tensor loss;
      {
        const amp::Autocast region(DType::f16);
        loss = mean(square((*net)(batch.x) - batch.y));
      }
      scaler.scale(loss).backward();
      const auto result = scaler.step(optimizer);
      scaler.update();
      EXPECT_EQ(result.skipped(), overflows) << step << " on rank " << group.rank();
      EXPECT_EQ(bytes_of(net->parameters()) == before, overflows);
    }
    EXPECT_EQ(scaler.get_scale(), 256);
    EXPECT_EQ(scaler.steps_skipped(), 2);
  });
}

TEST(ParallelTraining, AStepReadsNothingBack) {
  const auto reads = [](const Group& group) {
    auto net = make_mlp(3);
    DataParallel parallel(net, small_buckets(group));
    optim::SGD optimizer(*net, {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 1024});
    const Batch batch = share_of(batch_of(1, 8), group);
    std::uint64_t before = 0;
    for (int step = 0; step < 4; ++step) {
      if (step == 1) before = host_reads();
      optimizer.zero_grad();
      scaler.scale(loss_of(*net, batch)).backward();
      scaler.step(optimizer);
      scaler.update();
    }
    return host_reads() - before;
  };
  EXPECT_EQ(reads(Group()), 0U);
  std::vector<std::uint64_t> of_rank(2);
  run_ranks(2, [&](const Group& group) { of_rank[static_cast<std::size_t>(group.rank())] = reads(group); });
  EXPECT_EQ(of_rank, (std::vector<std::uint64_t>{0, 0}));
}

TEST(ParallelTraining, CompressedGradientsAreSumsOfRoundedOnes) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int p : {1, 2, 3, 4}) {
      const Batch global = batch_of(2, 12);
      std::vector<std::vector<Tensor>> own(static_cast<std::size_t>(p));
      for (int r = 0; r < p; ++r) {
        const auto net = make_mlp(3);
        loss_of(*net, part_of(global, r, p)).backward();
        own[static_cast<std::size_t>(r)] = copies_of(gradients_of(*net));
      }
      run_ranks(p, [&](const Group& group) {
        const auto net = make_mlp(3);
        auto options = small_buckets(group);
        options.reduce_dtype = dtype;
        options.reduction = ReduceOp::sum;
        DataParallel parallel(net, options);
        loss_of(*net, share_of(global, group)).backward();
        const auto gradients = gradients_of(*net);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          EXPECT_EQ(gradients[i].dtype(), DType::f32);
          if (p == 1) continue;  // nothing travels
          // Each rank's gradient is rounded, all are added in f32 as the tree does, and the sum is rounded.
          std::vector<Tensor> terms;
          for (const auto& gradient : own) terms.push_back(gradient[i].to(dtype).to(DType::f32));
          Tensor sum = terms[0];
          if (p == 2) sum = terms[0] + terms[1];
          if (p == 3) sum = (terms[0] + terms[1]) + terms[2];
          if (p == 4) sum = (terms[0] + terms[1]) + (terms[2] + terms[3]);
          EXPECT_TRUE(bytes_of(gradients[i]) == bytes_of(sum.to(dtype).to(DType::f32))) << p << " " << i;
        }
      });
    }
  }
}

TEST(ParallelTraining, SixteenBitParametersAreAddedInF32) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    run_ranks(4, [&](const Group& group) {
      const auto net = make_mlp(3);
      net->to(dtype);
      DataParallel parallel(net, small_buckets(group));
      // Gradients of the last bias: 256 + 3 * 0.6 per rank; in 16 bits alone 0.6 would be lost in bf16.
      const Tensor factor = full({4}, group.rank() == 0 ? 256.0 : 0.6015625, {.dtype = dtype});
      const auto parameters = net->parameters();
      Tensor loss = sum(parameters.back() * factor);
      for (std::size_t i = 0; i + 1 < parameters.size(); ++i) loss = loss + sum(parameters[i]);
      loss.backward();
      const double expected = full({}, (256 + 3 * 0.6015625) / 4).to(dtype).item();
      EXPECT_EQ(parameters.back().grad().to_vector<double>(), std::vector<double>(4, expected));
    });
  }
}

}  // namespace
}  // namespace mezzo
