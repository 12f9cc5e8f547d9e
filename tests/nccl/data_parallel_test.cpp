// DataParallel over NCCL: what one device trains is what several train, overflows skip on all, reductions
// begin within backward, and a captured step is the eager one.
#include <optional>

#include "dist/parallel_support.h"
#include "nccl/cuda_ranks.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::DataParallelOptions;
using dist::Group;
using test::Batch;
using test::difference;
using test::run_cuda_ranks;

/// Buckets of about two parameters.
DataParallelOptions small_buckets(const Group& group) {
  return {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 900};
}

Batch on(Device device, const Batch& batch) { return {batch.x.to(device), batch.y.to(device)}; }

std::vector<Tensor> on_cpu(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.detach().to(Device::cpu()));
  return copies;
}

/// Trains on a device with this rank's share; returns the parameters, on the CPU.
using Training = std::function<std::vector<Tensor>(const Group& group, Device device)>;

/// The parameters of each of p ranks, which have the same bits.
std::vector<Tensor> train_by(int p, const Training& train) {
  std::vector<std::vector<Tensor>> of_rank(static_cast<std::size_t>(p));
  run_cuda_ranks(p, [&](const Group& group, Device device) {
    of_rank[static_cast<std::size_t>(group.rank())] = train(group, device);
  });
  for (const auto& parameters : of_rank)
    EXPECT_TRUE(test::bytes_of(parameters) == test::bytes_of(of_rank[0])) << "all ranks have the same bits";
  return of_rank[0];
}

TEST(NcclDataParallel, TrainsAsOneDeviceDoes) {
  MEZZO_NEED_GPUS(4);
  const Training train = [](const Group& group, Device device) {
    // Ranks begin differently: rank 0's parameters are everybody's.
    const auto net = test::make_mlp(3 + static_cast<std::uint64_t>(group.rank()));
    net->to(device);
    std::optional<DataParallel> parallel;
    if (group.size() > 1) parallel.emplace(net, small_buckets(group));
    optim::AdamW optimizer(*net, {.lr = 0.01});
    for (std::uint64_t step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      for (std::uint64_t micro = 0; micro < 2; ++micro) {
        const Batch batch = on(device, test::share_of(test::batch_of(2 * step + micro, 8), group));
        const auto backward = [&] { (test::loss_of(*net, batch) / 2.0).backward(); };
        if (micro == 0 && parallel) {
          const auto alone = parallel->no_sync();
          backward();
        } else {
          backward();
        }
      }
      static_cast<void>(optim::clip_grad_norm_(net->parameters(), 0.05));
      optimizer.step();
    }
    return on_cpu(net->parameters());
  };
  const auto expected = train(Group(), Device::cuda(0));
  for (const int p : {2, 4}) EXPECT_LT(difference(train_by(p, train), expected), 1e-6) << p << " ranks";
}

TEST(NcclDataParallel, DeterministicTrainingHasTheBitsOfOneDevice) {
  MEZZO_NEED_GPUS(4);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Training train = [&](const Group& group, Device device) {
      const auto net = test::make_mlp(3, dtype);
      net->to(device);
      auto options = small_buckets(group);
      options.virtual_parts = 4;
      const DataParallel parallel(net, options);
      optim::AdamW optimizer(*net, {.lr = 0.01, .master_weights = is_16bit(dtype)});
      for (std::uint64_t step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const Batch global = test::batch_of(step, 16, dtype);
        for (int i = 0; i < parallel.parts(); ++i)
          test::loss_of(*net, on(device, test::part_of(global, group.rank() * parallel.parts() + i, 4)))
              .backward();
        optimizer.step();
      }
      return on_cpu(net->parameters());
    };
    const auto expected = train(Group(), Device::cuda(0));
    for (const int p : {2, 4})
      EXPECT_TRUE(test::bytes_of(train_by(p, train)) == test::bytes_of(expected))
          << p << " " << to_string(dtype);
  }
}

TEST(NcclDataParallel, AScalerSkipsOnAllRanksWhereOneOverflows) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const auto net = test::make_mlp(3);
    net->to(device);
    const DataParallel parallel(net, small_buckets(group));
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9});
    amp::GradScaler scaler({.init_scale = 1024});
    for (std::uint64_t step = 0; step < 6; ++step) {
      const bool overflows = step == 1 || step == 4;
      Batch batch = on(device, test::share_of(test::batch_of(step, 8), group));
      if (overflows && group.rank() == static_cast<int>(step % 2)) batch.x = batch.x * 1e30;
      const auto before = test::bytes_of(on_cpu(net->parameters()));
      optimizer.zero_grad();
      Tensor loss;
      {
        const amp::Autocast region(device, DType::f16);
        loss = mean(square((*net)(batch.x) - batch.y));
      }
      scaler.scale(loss).backward();
      const auto result = scaler.step(optimizer);
      scaler.update();
      EXPECT_EQ(result.skipped(), overflows) << step << " on rank " << group.rank();
      EXPECT_EQ(test::bytes_of(on_cpu(net->parameters())) == before, overflows);
    }
    EXPECT_EQ(scaler.get_scale(), 256);
    EXPECT_EQ(scaler.steps_skipped(), 2);
  });
}

TEST(NcclDataParallel, AStepReadsNothingBack) {
  MEZZO_NEED_GPUS(2);
  // The count is one of all threads.
  std::uint64_t before = 0, after = 1;
  run_cuda_ranks(2, [&](const Group& group, Device device) {
    const auto net = test::make_mlp(3);
    net->to(device);
    const DataParallel parallel(net, small_buckets(group));
    optim::SGD optimizer(*net, {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 1024});
    const Batch batch = on(device, test::share_of(test::batch_of(1, 8), group));
    for (int step = 0; step < 4; ++step) {
      if (step == 1) {
        dist::barrier(group);
        if (group.rank() == 0) before = host_reads();
        dist::barrier(group);
      }
      optimizer.zero_grad();
      scaler.scale(test::loss_of(*net, batch)).backward();
      static_cast<void>(scaler.step(optimizer));
      scaler.update();
    }
    dist::barrier(group);
    if (group.rank() == 0) after = host_reads();
    dist::barrier(group);
  });
  EXPECT_EQ(after, before);
}

TEST(NcclDataParallel, ReductionsBeginWhileBackwardRuns) {
  MEZZO_NEED_GPUS(2);
  run_cuda_ranks(2, [](const Group& group, Device device) {
    const auto net = test::make_mlp(3);
    net->to(device);
    // A bucket for each parameter.
    const DataParallel parallel(net, {.group = group, .first_bucket_bytes = 1, .bucket_bytes = 1});
    ASSERT_EQ(parallel.bucket_bytes().size(), 6U);
    const Batch batch = on(device, test::share_of(test::batch_of(1, 8), group));
    std::uint64_t begun = 0;
    // Of the first layer, whose two gradients are the last to become ready.
    net->parameters()[0].register_hook([&](const Tensor& gradient) {
      begun = dist::traffic(group).calls;
      return gradient;
    });
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto before = dist::traffic(group).calls;
      test::loss_of(*net, batch).backward();
      EXPECT_GE(begun - before, 4U);
    }
  });
}

/// Losses and parameters of a training by CapturedStep; with `eager` steps alone.
std::vector<Tensor> captured_training(const Group& group, Device device, bool eager) {
  const auto net = test::make_mlp(3);
  net->to(device);
  const DataParallel parallel(net, small_buckets(group));
  optim::AdamW optimizer(*net, {.lr = 0.01});
  amp::GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  const Batch input = on(device, test::share_of(test::batch_of(0, 8), group));
  const auto step = [&] {
    optimizer.zero_grad();
    Tensor loss;
    {
      const amp::Autocast region(device, DType::f16);
      loss = mean(square((*net)(input.x) - input.y));
    }
    scaler.scale(loss).backward();
    static_cast<void>(scaler.step(optimizer));
    scaler.update();
    dist::all_reduce(loss.detach(), dist::ReduceOp::mean, {.group = group});
    return loss.detach();
  };
  amp::CapturedStep captured(device, step, 3);
  std::vector<Tensor> results;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Batch batch = on(device, test::share_of(test::batch_of(i, 8), group));
    input.x.copy_(batch.x), input.y.copy_(batch.y);
    if (i == 5 && group.rank() == 1) input.x.mul_(1e30);  // overflows on one rank, in a replay
    results.push_back((eager ? step() : captured()).to(Device::cpu()).clone());
  }
  EXPECT_EQ(captured.is_recorded(), !eager);
  EXPECT_EQ(scaler.steps_skipped(), 1);
  for (const Tensor& parameter : on_cpu(net->parameters())) results.push_back(parameter);
  return results;
}

TEST(NcclDataParallel, ACapturedStepHasTheBitsOfTheEagerOne) {
  MEZZO_NEED_GPUS(2);
  const auto train = [](bool eager) {
    return train_by(
        2, [eager](const Group& group, Device device) { return captured_training(group, device, eager); });
  };
  EXPECT_TRUE(test::bytes_of(train(false)) == test::bytes_of(train(true)));
}

}  // namespace
}  // namespace mezzo
