// Deterministic mode: the bits of training by 1, 2 and 4 ranks are equal, whatever else is on.
#include <functional>

#include "dist/parallel_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/nn/norm.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/sgd.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::Group;
using test::Batch;
using test::batch_of;
using test::bytes_of;
using test::copies_of;
using test::gradients_alone;
using test::gradients_of;
using test::loss_of;
using test::make_mlp;
using test::part_of;
using test::run_ranks;

using Bytes = std::vector<std::vector<std::uint8_t>>;

/// What a training leaves on each rank of 1, 2 and 4 is the same.
void expect_equal_bits(const std::function<Bytes(const Group& group)>& train) {
  Bytes first;
  for (const int p : {1, 2, 4}) {
    std::vector<Bytes> of_rank(static_cast<std::size_t>(p));
    run_ranks(p, [&](const Group& group) { of_rank[static_cast<std::size_t>(group.rank())] = train(group); });
    if (p == 1) first = of_rank[0];
    for (int r = 0; r < p; ++r) {
      ASSERT_EQ(of_rank[static_cast<std::size_t>(r)].size(), first.size());
      for (std::size_t i = 0; i < first.size(); ++i)
        EXPECT_TRUE(of_rank[static_cast<std::size_t>(r)][i] == first[i])
            << p << " ranks, rank " << r << ", " << i;
    }
  }
}

dist::DataParallelOptions in_parts(const Group& group, int parts) {
  return {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 900, .virtual_parts = parts};
}

/// f(batch) for each part of a global batch that is this rank's.
template <class F>
void each_part(const DataParallel& parallel, const Batch& global, F f) {
  const int own = parallel.parts(), all = own * parallel.group().size();
  for (int i = 0; i < own; ++i) f(part_of(global, parallel.group().rank() * own + i, all));
}

TEST(Deterministic, TrainingHasTheSameBitsInEveryDType) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const int parts : {4, 8}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(parts));
      expect_equal_bits([&](const Group& group) {
        const auto net = make_mlp(3, dtype);
        DataParallel parallel(net, in_parts(group, parts));
        EXPECT_EQ(parallel.parts(), parts / group.size());
        optim::AdamW optimizer(*net, {.lr = 0.01, .master_weights = is_16bit(dtype)});
        for (std::uint64_t step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          each_part(parallel, batch_of(step, 24, dtype),
                    [&](const Batch& batch) { loss_of(*net, batch).backward(); });
          static_cast<void>(optim::clip_grad_norm_(net->parameters(), 0.05));
          optimizer.step();
        }
        return bytes_of(net->parameters());
      });
    }
  }
}

TEST(Deterministic, GradientsAreTheBinaryTreeOverTheParts) {
  constexpr int kParts = 8;
  const Batch global = batch_of(1, 24);
  std::vector<std::vector<Tensor>> level;
  for (int i = 0; i < kParts; ++i) {
    const auto net = make_mlp(3);
    loss_of(*net, part_of(global, i, kParts)).backward();
    level.push_back(gradients_of(*net));
  }
  while (level.size() > 1) {
    std::vector<std::vector<Tensor>> above;
    for (std::size_t i = 0; i < level.size(); i += 2) {
      above.emplace_back();
      for (std::size_t j = 0; j < level[i].size(); ++j) above.back().push_back(level[i][j] + level[i + 1][j]);
    }
    level = above;
  }
  for (const Tensor& sum : level[0]) sum.mul_(1.0 / kParts);
  for (const int p : {1, 2, 4, 8}) {
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(3);
      DataParallel parallel(net, in_parts(group, kParts));
      each_part(parallel, global, [&](const Batch& batch) { loss_of(*net, batch).backward(); });
      EXPECT_TRUE(bytes_of(gradients_of(*net)) == bytes_of(level[0])) << p;
    });
  }
}

TEST(Deterministic, AScalerAndSkippedStepsToo) {
  expect_equal_bits([](const Group& group) {
    const auto net = make_mlp(3);
    DataParallel parallel(net, in_parts(group, 4));
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9});
    amp::GradScaler scaler({.init_scale = 65536, .growth_interval = 2});
    int skipped = 0;
    for (std::uint64_t step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      Batch global = batch_of(step, 16);
      if (step == 3) global.x.narrow(0, 5, 1).mul_(1e30);  // in one part
      each_part(parallel, global, [&](const Batch& batch) {
        Tensor loss;
        {
          const amp::Autocast region(DType::f16);
          loss = loss_of(*net, batch);
        }
        scaler.scale(loss).backward();
      });
      skipped += scaler.step(optimizer).skipped() ? 1 : 0;
      scaler.update();
    }
    EXPECT_GE(skipped, 1);
    EXPECT_LT(skipped, 8);
    Bytes bytes = bytes_of(net->parameters());
    bytes.push_back(bytes_of(scaler.scale_tensor()));
    return bytes;
  });
}

TEST(Deterministic, PureSixteenBitsWithAScaler) {
  expect_equal_bits([](const Group& group) {
    const auto net = make_mlp(3, DType::f16);
    DataParallel parallel(net, in_parts(group, 4));
    optim::AdamW optimizer(*net, {.lr = 0.01, .master_weights = true});
    amp::GradScaler scaler({.init_scale = 1048576, .growth_interval = 2});
    int skipped = 0;
    for (std::uint64_t step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      each_part(parallel, batch_of(step, 16, DType::f16),
                [&](const Batch& batch) { scaler.scale(loss_of(*net, batch)).backward(); });
      scaler.unscale_(optimizer);
      static_cast<void>(optim::clip_grad_norm_(net->parameters(), 1.0));
      skipped += scaler.step(optimizer).skipped() ? 1 : 0;
      scaler.update();
    }
    EXPECT_GE(skipped, 1);
    EXPECT_LT(skipped, 8);
    return bytes_of(net->parameters());
  });
}

TEST(Deterministic, BuffersOfBatchNormAreTheMeanOverTheParts) {
  const auto make = [] {
    auto net = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 6), nn::make<nn::BatchNorm1d>(6),
                                        nn::make<nn::Linear>(6, 4));
    test::fill(*net, 4);
    return net;
  };
  expect_equal_bits([&](const Group& group) {
    const auto net = make();
    DataParallel parallel(net, in_parts(group, 4));
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9});
    for (std::uint64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      each_part(parallel, batch_of(step, 16), [&](const Batch& batch) { loss_of(*net, batch).backward(); });
      optimizer.step();
    }
    std::vector<Tensor> tensors = net->parameters();
    for (const auto& [name, buffer] : net->named_buffers()) tensors.push_back(buffer);
    return bytes_of(tensors);
  });
  // The first step's buffers: the mean of what each part makes of the initial ones.
  const Batch global = batch_of(0, 16);
  std::vector<std::vector<double>> parts;
  for (int i = 0; i < 4; ++i) {
    const auto net = make();
    loss_of(*net, part_of(global, i, 4)).backward();
    parts.push_back(net->at<nn::BatchNorm1d>(1).running_mean.to_vector<double>());
  }
  run_ranks(2, [&](const Group& group) {
    const auto net = make();
    DataParallel parallel(net, in_parts(group, 4));
    each_part(parallel, global, [&](const Batch& batch) { loss_of(*net, batch).backward(); });
    const auto& norm = net->at<nn::BatchNorm1d>(1);
    EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 1);
    const auto mean = norm.running_mean.to_vector<double>();
    for (std::size_t c = 0; c < mean.size(); ++c)
      EXPECT_NEAR(mean[c], (parts[0][c] + parts[1][c] + parts[2][c] + parts[3][c]) / 4, 1e-7);
  });
}

TEST(Deterministic, ParametersThatSomePartsDoNotReachAreZerosThere) {
  expect_equal_bits([](const Group& group) {
    const auto net = nn::make<test::Branches>();
    test::fill(*net, 2);
    auto options = in_parts(group, 4);
    options.find_unused_parameters = true;
    DataParallel parallel(net, options);
    optim::SGD optimizer(*net, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    const auto never = bytes_of(net->never->weight);
    for (std::uint64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      int part = group.rank() * parallel.parts();
      each_part(parallel, batch_of(step, 16), [&](const Batch& batch) {
        // Only part 3 goes right; in the last step it goes left as well.
        net->takes_left = part++ != 3 || step == 2;
        loss_of(*net, batch).backward();
      });
      EXPECT_FALSE(net->never->weight.grad().defined());
      EXPECT_EQ(net->right->weight.grad().defined(), step < 2);
      optimizer.step();
    }
    EXPECT_TRUE(bytes_of(net->never->weight) == never);
    return bytes_of(net->parameters());
  });
}

TEST(Deterministic, ZerosKeepTheirSigns) {
  // Gradients of -0 in all parts; or in one part none at all, where they count as 0.
  for (const bool are_all_reached : {true, false}) {
    expect_equal_bits([&](const Group& group) {
      const auto net = make_mlp(3);
      auto options = in_parts(group, 4);
      options.find_unused_parameters = true;
      DataParallel parallel(net, options);
      const auto parameters = net->parameters();
      for (int i = 0; i < parallel.parts(); ++i) {
        const bool is_reached = are_all_reached || group.rank() * parallel.parts() + i != 1;
        Tensor loss = sum(parameters[1]);
        if (is_reached) loss = loss + sum(parameters[0] * full(parameters[0].shape(), -0.0));
        loss.backward();
      }
      const auto values = parameters[0].grad().to_vector<double>();
      EXPECT_EQ(std::signbit(values[0]), are_all_reached);
      return bytes_of(parameters[0].grad()).empty() ? Bytes{} : Bytes{bytes_of(parameters[0].grad())};
    });
  }
}

TEST(Deterministic, InfinityAndNaNComeThrough) {
  expect_equal_bits([](const Group& group) {
    const auto net = make_mlp(3);
    DataParallel parallel(net, in_parts(group, 4));
    const auto parameters = net->parameters();
    for (int i = 0; i < parallel.parts(); ++i) {
      const int part = group.rank() * parallel.parts() + i;
      const double inf = std::numeric_limits<double>::infinity();
      Tensor loss = sum(parameters[0] * full(parameters[0].shape(), part == 2 ? inf : 1.0));
      loss = loss + sum(parameters[1] * full(parameters[1].shape(), part == 0   ? inf
                                                                    : part == 3 ? -inf
                                                                                : 1.0));
      for (std::size_t j = 2; j < parameters.size(); ++j) loss = loss + sum(parameters[j]);
      loss.backward();
    }
    EXPECT_TRUE(std::isinf(parameters[0].grad().to_vector<double>()[0]));
    EXPECT_TRUE(std::isnan(parameters[1].grad().to_vector<double>()[0]));
    return bytes_of(gradients_of(*net));
  });
}

TEST(Deterministic, AnExceptionDropsThePartsOfTheStep) {
  expect_equal_bits([](const Group& group) {
    auto net = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 6), nn::make<nn::BatchNorm1d>(6),
                                        nn::make<nn::Linear>(6, 4));
    test::fill(*net, 4);
    DataParallel parallel(net, in_parts(group, 4));
    const Batch global = batch_of(0, 16);
    // Half a backward of the first part, or of the second where there is one; then all from the beginning.
    int part = 0;
    const Tensor weight = net->at<nn::Linear>(0).weight;
    each_part(parallel, global, [&](const Batch& batch) {
      if (part > 1) return;
      const bool throws = ++part == std::min(2, parallel.parts());
      const Tensor loss = loss_of(*net, batch);
      if (!throws) {
        loss.backward();
        return;
      }
      const auto id = weight.register_hook([](const Tensor&) { throw ValueError("hook", "a", "b", ""); });
      EXPECT_THROW(loss.backward(), ValueError);
      weight.remove_hook(id);
      EXPECT_FALSE(weight.grad().defined());
    });
    each_part(parallel, global, [&](const Batch& batch) { loss_of(*net, batch).backward(); });
    std::vector<Tensor> tensors = gradients_of(*net);
    for (const auto& [name, buffer] : net->named_buffers()) tensors.push_back(buffer);
    EXPECT_EQ(net->at<nn::BatchNorm1d>(1).num_batches_tracked.item<std::int64_t>(), 1);
    return bytes_of(tensors);
  });
}

TEST(Deterministic, BytesAreThoseOfARing) {
  const auto counts = run_ranks(4, [&](const Group& group) {
    const auto net = make_mlp(3);
    DataParallel parallel(net, in_parts(group, 8));
    const auto step = [&] {
      each_part(parallel, batch_of(1, 24), [&](const Batch& batch) { loss_of(*net, batch).backward(); });
    };
    step();  // after it buckets are laid out anew
    std::uint64_t expected = 0;
    for (const std::int64_t bytes : parallel.bucket_bytes())
      expected += 2 * static_cast<std::uint64_t>(bytes) * 3 / 4;
    const auto before = dist::traffic(group).bytes;
    step();
    EXPECT_EQ(dist::traffic(group).bytes - before, expected);
  });
  EXPECT_EQ(counts.all_reduces, 0U) << "all sums are made in the order of the tree";
}

TEST(Deterministic, Refusals) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(3);
    const auto message = [&](const dist::DataParallelOptions& options) {
      return test::message_of<ValueError>([&] { DataParallel parallel(net, options); });
    };
    EXPECT_NE(message(in_parts(group, 3)).find("powers of two"), std::string::npos);
    EXPECT_NE(message(in_parts(group, 1)).find("at least one part for each rank"), std::string::npos);
    auto options = in_parts(group, 4);
    options.reduce_dtype = DType::bf16;
    EXPECT_NE(message(options).find("reduce_dtype f32 in deterministic mode"), std::string::npos);
    DataParallel parallel(net, in_parts(group, 4));
    EXPECT_THROW(static_cast<void>(parallel.no_sync()), StateError);
    loss_of(*net, batch_of(1, 4)).backward();
    {
      const NoGrad no_grad;
      net->parameters()[2].mul_(2.0);
    }
    EXPECT_NE(test::message_of<StateError>([&] {
                loss_of(*net, batch_of(1, 4)).backward();
              }).find("the same parameters in all parts of a step, got 2.weight"),
              std::string::npos);
  });
  run_ranks(3, [](const Group& group) {
    const auto net = make_mlp(3);
    EXPECT_THROW(DataParallel(net, in_parts(group, 4)), ValueError);
  });
}

}  // namespace
}  // namespace mezzo
