// ShardedOptimizer: the steps of the plain optimizer, with state that is cut among ranks, saved whole, and
// loaded by any number of them.
#include "mezzo/dist/sharded_optimizer.h"

#include <cmath>
#include <limits>
#include <mutex>

#include "dist/parallel_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/dist/detail/exact_sum.h"
#include "mezzo/optim/adadelta.h"
#include "mezzo/optim/adagrad.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/adamax.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/decay_groups.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/muon.h"
#include "mezzo/optim/nadam.h"
#include "mezzo/optim/radam.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sam.h"
#include "mezzo/optim/sgd.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::DataParallelOptions;
using dist::Group;
using dist::ShardedOptimizer;
using test::batch_of;
using test::bytes_of;
using test::copies_of;
using test::difference;
using test::loss_of;
using test::make_mlp;
using test::part_of;
using test::run_ranks;

constexpr int kParts = 4;

DataParallelOptions in_parts(const Group& group) {
  return {.group = group, .first_bucket_bytes = 200, .bucket_bytes = 600, .virtual_parts = kParts};
}

/// Backward of all parts that this rank has of a batch.
template <class Scale>
void backward(nn::Layer& net, const DataParallel& parallel, std::uint64_t seed, DType dtype, Scale scale) {
  const auto batch = batch_of(seed, 8, dtype);
  const int each = parallel.parts(), first = parallel.group().rank() * each;
  for (int i = 0; i < each; ++i) scale(loss_of(net, part_of(batch, first + i, kParts))).backward();
}
void backward(nn::Layer& net, const DataParallel& parallel, std::uint64_t seed, DType dtype = DType::f32) {
  backward(net, parallel, seed, dtype, [](const Tensor& loss) { return loss; });
}

/// Weights after some steps on p ranks, and, on rank 0, the state.
struct Result {
  std::vector<std::vector<std::uint8_t>> weights, state;
  optim::OptimizerState saved;
};
template <class O>
Result of(const optim::OptimizerState& state, const nn::Module& net, const O& /*optimizer*/) {
  Result result{bytes_of(net.parameters()), {}, {state.options, {}}};
  for (const auto& [key, tensor] : state.tensors) {
    result.state.push_back(bytes_of(tensor));
    result.saved.tensors.emplace_back(key, tensor.detach().clone());
  }
  return result;
}

template <class O, class Make>
Result train(int p, DType dtype, int steps, Make make) {
  Result result;
  run_ranks(p, [&](const Group& group) {
    const auto net = make_mlp(3, dtype);
    DataParallel parallel(net, in_parts(group));
    const auto optimizer = make(parallel, *net);
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad();
      backward(*net, parallel, static_cast<std::uint64_t>(step) + 10, dtype);
      optimizer->step();
    }
    const auto state = optimizer->state_dict();
    if (group.rank() == 0) result = of(state, *net, *optimizer);
  });
  return result;
}

template <class O>
void expect_equal_to_plain(typename ShardedOptimizer<O>::Options options, DType dtype = DType::f32) {
  const auto plain = train<O>(1, dtype, 4, [&](DataParallel& /*parallel*/, nn::Module& net) {
    return std::make_shared<O>(net, options);
  });
  for (const int p : {1, 2, 4}) {
    const auto sharded = train<O>(p, dtype, 4, [&](DataParallel& parallel, nn::Module& /*net*/) {
      return std::make_shared<ShardedOptimizer<O>>(parallel, options);
    });
    EXPECT_TRUE(sharded.weights == plain.weights) << p;
    EXPECT_EQ(sharded.saved.options, plain.saved.options) << p;
    ASSERT_EQ(sharded.saved.tensors.size(), plain.saved.tensors.size());
    for (std::size_t i = 0; i < plain.saved.tensors.size(); ++i) {
      EXPECT_EQ(sharded.saved.tensors[i].first, plain.saved.tensors[i].first);
      EXPECT_EQ(sharded.saved.tensors[i].second.shape(), plain.saved.tensors[i].second.shape());
    }
    EXPECT_TRUE(sharded.state == plain.state) << p;
  }
}

TEST(ShardedOptimizer, EveryElementwiseOptimizerHasTheBitsOfThePlainOne) {
  expect_equal_to_plain<optim::SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  expect_equal_to_plain<optim::SGD>({.lr = 0.1});
  expect_equal_to_plain<optim::Adam>({.lr = 1e-2, .amsgrad = true});
  expect_equal_to_plain<optim::AdamW>({.lr = 1e-2});
  expect_equal_to_plain<optim::Adamax>({.lr = 1e-2});
  expect_equal_to_plain<optim::NAdam>({.lr = 1e-2});
  expect_equal_to_plain<optim::RAdam>({.lr = 1e-2});
  expect_equal_to_plain<optim::RMSprop>({.lr = 1e-2, .momentum = 0.5, .centered = true});
  expect_equal_to_plain<optim::Adagrad>({.lr = 1e-2});
  expect_equal_to_plain<optim::Adadelta>({.lr = 1.0});
  expect_equal_to_plain<optim::Lion>({.lr = 1e-3});
}

TEST(ShardedOptimizer, MastersAreCutToo) {
  expect_equal_to_plain<optim::AdamW>({.lr = 1e-4, .master_weights = true}, DType::bf16);
  expect_equal_to_plain<optim::AdamW>({.lr = 1e-2}, DType::bf16);
  expect_equal_to_plain<optim::SGD>({.lr = 1e-3, .momentum = 0.9, .master_weights = true}, DType::f16);
  expect_equal_to_plain<optim::AdamW>({.lr = 1e-4, .master_weights = optim::MasterWeights::split},
                                      DType::bf16);
}

TEST(ShardedOptimizer, RandomRoundingsAreThoseOfTheWholeParameters) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_equal_to_plain<optim::AdamW>({.lr = 1e-4, .stochastic_rounding = true}, dtype);
    expect_equal_to_plain<optim::Lion>({.lr = 1e-4, .stochastic_rounding = true}, dtype);
  }
}

TEST(ShardedOptimizer, FastModeIsEqualWithinRounding) {
  for (const int p : {1, 2, 3}) {
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(3), other = make_mlp(3);
      DataParallel parallel(net, {.group = group, .first_bucket_bytes = 200, .bucket_bytes = 600});
      ShardedOptimizer<optim::AdamW> sharded(parallel, {.lr = 1e-2});
      optim::AdamW plain(*other, {.lr = 1e-2});
      for (int step = 0; step < 4; ++step) {
        const auto batch = batch_of(static_cast<std::uint64_t>(step), 12);
        sharded.zero_grad();
        {
          const auto hold = parallel.no_sync();  // accumulation of two halves
          (loss_of(*net, part_of(batch, 2 * group.rank(), 2 * p)) * 0.5).backward();
        }
        (loss_of(*net, part_of(batch, 2 * group.rank() + 1, 2 * p)) * 0.5).backward();
        sharded.step();
        plain.zero_grad();
        loss_of(*other, batch).backward();
        plain.step();
      }
      EXPECT_LT(difference(net->parameters(), other->parameters()), 1e-6) << p;
    });
  }
}

TEST(ShardedOptimizer, AStateGoesToAnotherNumberOfRanksAndToThePlainOne) {
  using O = optim::AdamW;
  const optim::AdamWOptions options{.lr = 1e-3, .master_weights = true};
  const auto make = [&](DataParallel& parallel, nn::Module& /*net*/) {
    return std::make_shared<ShardedOptimizer<O>>(parallel, options);
  };
  const auto whole = train<O>(1, DType::bf16, 6, make);
  // Three steps on 4 ranks, the rest elsewhere.
  std::vector<Tensor> weights;
  optim::OptimizerState saved;
  run_ranks(4, [&](const Group& group) {
    const auto net = make_mlp(3, DType::bf16);
    DataParallel parallel(net, in_parts(group));
    const auto optimizer = make(parallel, *net);
    for (int step = 0; step < 3; ++step) {
      optimizer->zero_grad();
      backward(*net, parallel, static_cast<std::uint64_t>(step) + 10, DType::bf16);
      optimizer->step();
    }
    const auto state = optimizer->state_dict();
    if (group.rank() != 1) return;  // all have the same
    saved = of(state, *net, *optimizer).saved;
    weights = copies_of(net->parameters());
  });
  const auto go_on = [&](int p, auto make_other) {
    Result result;
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(4, DType::bf16);
      DataParallel parallel(net, in_parts(group));
      {
        const NoGrad no_grad;
        for (std::size_t i = 0; i < weights.size(); ++i) net->parameters()[i].copy_(weights[i]);
      }
      const auto optimizer = make_other(parallel, *net);
      optimizer->load_state_dict(saved);
      for (int step = 3; step < 6; ++step) {
        optimizer->zero_grad();
        backward(*net, parallel, static_cast<std::uint64_t>(step) + 10, DType::bf16);
        optimizer->step();
      }
      const auto state = optimizer->state_dict();
      if (group.rank() == 0) result = of(state, *net, *optimizer);
    });
    EXPECT_TRUE(result.weights == whole.weights) << p;
    EXPECT_TRUE(result.state == whole.state) << p;
  };
  go_on(2, make);
  go_on(1, make);
  go_on(2, [&](DataParallel& /*parallel*/, nn::Module& net) { return std::make_shared<O>(net, options); });
}

TEST(ShardedOptimizer, GroupsKeepTheirOptionsAndFrozenParametersTheirPlaces) {
  for (const int p : {1, 2, 4}) {
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(3), other = make_mlp(3);
      for (const auto& model : {net, other}) model->named_parameters()[2].second.requires_grad_(false);
      const optim::AdamWOptions options{.lr = 1e-2, .weight_decay = 0.5};
      DataParallel parallel(net, in_parts(group));
      ShardedOptimizer<optim::AdamW> sharded(parallel, optim::decay_groups(*net, options));
      DataParallel other_parallel(other, in_parts(group));
      optim::AdamW plain(optim::decay_groups(*other, options));
      EXPECT_EQ(sharded.num_groups(), 2U);
      for (optim::Optimizer* optimizer :
           {static_cast<optim::Optimizer*>(&sharded), static_cast<optim::Optimizer*>(&plain)}) {
        optimizer->set_lr(3e-3, 1);
        const bool is_plain = optimizer == &plain;
        backward(is_plain ? *other : *net, is_plain ? other_parallel : parallel, 1);
        optimizer->step();
      }
      EXPECT_EQ(bytes_of(net->parameters()), bytes_of(other->parameters()));
      const auto a = sharded.state_dict(), b = plain.state_dict();
      EXPECT_EQ(a.options, b.options);
      ASSERT_EQ(a.tensors.size(), b.tensors.size());
      for (std::size_t i = 0; i < a.tensors.size(); ++i) EXPECT_EQ(a.tensors[i].first, b.tensors[i].first);
    });
  }
}

TEST(ShardedOptimizer, AnInfInOneShardSkipsTheStepOnAllRanks) {
  for (const bool unscales : {false, true}) {
    run_ranks(4, [&](const Group& group) {
      const auto net = make_mlp(3);
      DataParallel parallel(net, in_parts(group));
      ShardedOptimizer<optim::AdamW> optimizer(parallel, {.lr = 1e-2});
      amp::GradScaler scaler({.init_scale = 1024});
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        backward(*net, parallel, 1, DType::f32, [&](const Tensor& loss) { return scaler.scale(loss); });
        if (step == 1 && group.rank() == 2) {  // this rank's shard alone
          const NoGrad no_grad;
          optimizer.parameters().back().grad().narrow(0, 0, 1).fill_(std::numeric_limits<double>::infinity());
        }
        const auto before = bytes_of(net->parameters());
        if (unscales) scaler.unscale_(optimizer);
        const auto result = scaler.step(optimizer);
        scaler.update();
        EXPECT_EQ(result.skipped(), step == 1) << step;
        EXPECT_EQ(bytes_of(net->parameters()) == before, step == 1) << step;
        EXPECT_EQ(scaler.get_scale(), step == 0 ? 1024 : 512) << step;
      }
      const auto state = optimizer.state_dict();
      for (const auto& [key, tensor] : state.tensors) {
        if (key.ends_with(".step")) {
          EXPECT_EQ(tensor.item(), 2) << key;
        }
      }
    });
  }
}

TEST(ShardedOptimizer, ClippingIsByTheNormOfAllShards) {
  std::vector<std::uint8_t> norm_bits;
  std::vector<std::vector<std::uint8_t>> weights;
  for (const double order : {2.0, 1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    norm_bits.clear();
    for (const int p : {1, 2, 4}) {
      run_ranks(p, [&](const Group& group) {
        const auto net = make_mlp(3), other = make_mlp(3);
        DataParallel parallel(net, in_parts(group)), other_parallel(other, in_parts(group));
        ShardedOptimizer<optim::SGD> sharded(parallel, {.lr = 0.5});
        optim::SGD plain(*other, {.lr = 0.5});
        backward(*net, parallel, 1);
        backward(*other, other_parallel, 1);
        const Tensor norm = sharded.clip_grad_norm_(0.01, order);
        const Tensor expected = optim::clip_grad_norm_(other->parameters(), 0.01, order);
        EXPECT_EQ(norm.dtype(), DType::f32);
        EXPECT_NEAR(norm.item() / expected.item(), 1, 2e-7);
        sharded.step();
        plain.step();
        EXPECT_LT(difference(net->parameters(), other->parameters()), 1e-6);
        if (group.rank() != p - 1) return;
        if (norm_bits.empty()) {
          norm_bits = bytes_of(norm);
          weights = bytes_of(net->parameters());
        }
        EXPECT_EQ(bytes_of(norm), norm_bits) << p;
        EXPECT_EQ(bytes_of(net->parameters()), weights) << p;
      });
    }
  }
}

TEST(ShardedOptimizer, SumsOverRanksDoNotDependOnWhoHasWhat) {
  Generator generator(7);
  const Tensor all =
      normal(0, 1, {999}, {}, generator) * pow(Scalar(10.0), uniform(-30, 10, {999}, {}, generator));
  double expected = 0;
  for (const double x : all.to_vector<double>()) expected += x * x;
  std::vector<std::uint8_t> bits;
  for (const int p : {1, 2, 3, 4}) {
    run_ranks(p, [&](const Group& group) {
      // Rank r has places that a hash gives it.
      std::vector<double> own;
      std::int64_t i = 0;
      for (const double x : all.to_vector<double>()) {
        if (i++ * 7919 % 101 % p == group.rank()) own.push_back(x);
      }
      const Tensor part = tensor(own, {.dtype = DType::f32});
      const Tensor norm = dist::total_norm(std::vector<Tensor>{part}, 2.0, group, Device::cpu());
      EXPECT_NEAR(norm.item() / std::sqrt(expected), 1, 1e-13);
      const auto infinite = dist::total_norm(
          std::vector<Tensor>{full({1}, group.rank() == 0 ? std::numeric_limits<double>::infinity() : 1.0)},
          2.0, group, Device::cpu());
      EXPECT_TRUE(std::isinf(infinite.item()));
      const auto nan =
          dist::total_norm(std::vector<Tensor>{full({1}, group.rank() == p - 1 ? std::nan("") : 1.0)}, 2.0,
                           group, Device::cpu());
      EXPECT_TRUE(std::isnan(nan.item()));
      EXPECT_EQ(dist::total_norm({}, 2.0, group, Device::cpu()).item(), 0);
      if (group.rank() != 0) return;
      if (bits.empty()) bits = bytes_of(norm);
      EXPECT_EQ(bytes_of(norm), bits) << p;
    });
  }
}

TEST(ShardedOptimizer, ARankMayHaveNoShard) {
  run_ranks(4, [&](const Group& group) {
    const auto net = nn::make<nn::Linear>(1, 1, nn::LinearOptions{.bias = false});
    {
      const NoGrad no_grad;
      net->weight.fill_(1.0);
    }
    DataParallel parallel(net, {.group = group});
    ShardedOptimizer<optim::SGD> optimizer(parallel, {.lr = 0.5, .momentum = 0.9});
    amp::GradScaler scaler({.init_scale = 4});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      scaler.scale(sum((*net)(full({1, 1}, 0.5)))).backward();
      scaler.unscale_(optimizer);
      EXPECT_NEAR(optimizer.clip_grad_norm_(0.25).item(), 0.5, 1e-6);
      EXPECT_FALSE(scaler.step(optimizer).skipped());
      scaler.update();
    }
    // Gradients of 0.25: 1 - 0.5 * 0.25, and then - 0.5 * (0.9 * 0.25 + 0.25).
    EXPECT_NEAR(net->weight.item(), 1 - 0.125 - 0.2375, 1e-6);
    const auto state = optimizer.state_dict();
    ASSERT_EQ(state.tensors.size(), 2U);
    EXPECT_EQ(state.tensors[1].second.shape(), (Shape{1, 1}));
    optimizer.load_state_dict(state);
    EXPECT_EQ(optimizer.state_dict().tensors.size(), 2U);
  });
}

TEST(ShardedOptimizer, AutocastSeesTheGatheredWeights) {
  run_ranks(2, [&](const Group& group) {
    const auto net = make_mlp(3);
    DataParallel parallel(net, {.group = group});
    ShardedOptimizer<optim::SGD> optimizer(parallel, {.lr = 0.5});
    const auto batch = batch_of(1, 4);
    const auto output = [&] {
      const amp::Autocast region(Device::cpu(), DType::bf16);
      return (*net)(batch.x);
    };
    mean(square(output())).backward();
    optimizer.step();
    const auto fresh = make_mlp(3);
    {
      const NoGrad no_grad;
      for (std::size_t i = 0; i < net->parameters().size(); ++i)
        fresh->parameters()[i].copy_(net->parameters()[i]);
    }
    const amp::Autocast region(Device::cpu(), DType::bf16);
    EXPECT_EQ(bytes_of(output()), bytes_of((*fresh)(batch.x)));
  });
}

TEST(ShardedOptimizer, Refusals) {
  run_ranks(2, [&](const Group& group) {
    const auto net = make_mlp(3), other = make_mlp(4);
    DataParallel parallel(net, {.group = group});
    EXPECT_EQ(
        test::message_of<ValueError>([&] { ShardedOptimizer<optim::Muon> muon(parallel); }),
        "ShardedOptimizer<Muon>: expected an optimizer that updates each element by itself, got Muon; use it "
        "as it is beside DataParallel, or AdamW");
    EXPECT_THROW(ShardedOptimizer<optim::SGD>(parallel, *other), ValueError);
    using Groups = std::vector<optim::ParamGroup<optim::SGDOptions>>;
    auto some = net->named_parameters();
    some.pop_back();
    EXPECT_NE(test::message_of<ValueError>([&] {
                ShardedOptimizer<optim::SGD>(parallel, Groups{{some, {}}});
              }).find("none of its groups with 4.bias"),
              std::string::npos);
    auto twice = net->named_parameters();
    twice.push_back(twice.front());
    EXPECT_THROW(ShardedOptimizer<optim::SGD>(parallel, Groups{{twice, {}}}), ValueError);
    ShardedOptimizer<optim::SGD> optimizer(parallel, {.lr = 0.1, .momentum = 0.9});
    EXPECT_THROW(ShardedOptimizer<optim::SGD>(parallel, {.lr = 0.1}), StateError);
    EXPECT_THROW(optim::SAM{optimizer}, ValueError);
    EXPECT_THROW(optimizer.clip_grad_norm_(-1), ValueError);
    EXPECT_THROW(optimizer.clip_grad_norm_(1, 0), ValueError);
    backward(*net, parallel, 1);
    optimizer.step();
    auto state = optimizer.state_dict();
    EXPECT_THROW(optim::Adam(*other).load_state_dict(state), StateError);
    EXPECT_THROW(optimizer.load_state_dict(optim::Adam(*other).state_dict()), StateError);
    auto broken = state;
    broken.tensors[1].second = zeros({3});
    EXPECT_THROW(optimizer.load_state_dict(broken), ShapeError);
    broken = state;
    broken.tensors.erase(broken.tensors.begin() + 1);
    EXPECT_THROW(optimizer.load_state_dict(broken), StateError);
    broken = state;
    broken.tensors.emplace_back("77.step", zeros({}));
    EXPECT_THROW(optimizer.load_state_dict(broken), StateError);
  });
}

}  // namespace
}  // namespace mezzo
