// The rules of checkpoint: what it refuses and how, what happens once, and which state of a thread the second
// run sees.
#include <gtest/gtest.h>

#include <stdexcept>

#include "mezzo/autograd/checkpoint.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/tests/autograd/checkpoint_support.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

using autograd::checkpoint;
using test::bits;
using test::devices;
using test::expect_same;
using test::message_of;

std::int64_t live_bytes() { return memory_stats(Device::cpu()).current; }

template <class F>
std::string refused(F backward) {
  return message_of<AutogradError>([&] {
    backward();
    return 0;
  });
}

// --- errors of the function

TEST(CheckpointRules, AnErrorOfTheFirstRunPassesOn) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
    EXPECT_THROW(static_cast<void>(checkpoint(
                     [](const Tensor& a) -> Tensor {
                       static_cast<void>(exp(exp(a)));
                       throw std::runtime_error("no");
                     },
                     x)),
                 std::runtime_error);
    sum(exp(x)).backward();  // outside of any region again
    EXPECT_EQ(bits(x.grad()), bits(exp(x)));
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(CheckpointRules, AnErrorOfTheSecondRunTouchesNoLeafAndMayBeRepeated) {
  int runs = 0;
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const GeneratorState state = default_generator().state();
  const Tensor loss = sum(checkpoint(
      [&](const Tensor& a) {
        const Tensor h = exp(a);
        if (++runs == 2) throw std::runtime_error("the second time");
        return tanh(h);
      },
      x));
  EXPECT_THROW(loss.backward({.retain_graph = true}), std::runtime_error);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(autograd::is_recomputing());
  EXPECT_EQ(default_generator().state(), state);
  loss.backward();
  const Tensor v = tensor({0.5, 1.5}, {.requires_grad = true});
  sum(tanh(exp(v))).backward();
  EXPECT_EQ(bits(x.grad()), bits(v.grad()));
}

// --- another run than the first

TEST(CheckpointRules, ARunThatSavesOtherTensorsIsRefused) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const auto backward_of = [&](auto fn) {
    int runs = 0;
    const Tensor loss = sum(checkpoint([&](const Tensor& a) { return fn(a, ++runs > 1); }, x));
    return refused([&] { loss.backward(); });
  };
  EXPECT_EQ(
      backward_of([](const Tensor& a, bool again) { return again ? exp(a) : exp(exp(a)); }),
      "checkpoint: expected 2 saved tensors as in forward, got 1; output 0 of exp, f32 [2] is missing; let "
      "the "
      "function do the same each time: it must not depend on what changes between forward and backward");
  EXPECT_EQ(
      backward_of([](const Tensor& a, bool again) { return again ? tanh(a) : exp(a); }),
      "checkpoint: expected saved tensor 0 as in forward (output 0 of exp, f32 [2]), got output 0 of tanh, "
      "f32 "
      "[2]; let the function do the same each time: it must not depend on what changes between forward and "
      "backward");
  EXPECT_NE(backward_of([](const Tensor& a, bool again) {
              return exp(again ? stack({a, a}) : a);
            }).find("(output 0 of exp, f32 [2]), got output 0 of exp, f32 [2, 2]"),
            std::string::npos);
  EXPECT_NE(backward_of([](const Tensor& a, bool again) {
              return exp(a.to(again ? DType::f64 : DType::f32));
            }).find("got output 0 of exp, f64 [2]"),
            std::string::npos);
  EXPECT_FALSE(x.grad().defined());
}

TEST(CheckpointRules, ARunThatSavesMoreThanIsNeededEndsBefore) {
  int runs = 0;
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  sum(checkpoint([&](const Tensor& a) { return ++runs > 1 ? exp(exp(a)) : exp(a); }, x)).backward();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(bits(x.grad()), bits(exp(x)));
}

TEST(CheckpointRules, ARunThatDrawsOtherwiseIsRefused) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const auto backward_of = [&](auto fn) {
    int runs = 0;
    const Tensor loss = sum(checkpoint([&](const Tensor& a) { return exp(fn(a, ++runs > 1)); }, x));
    return refused([&] { loss.backward(); });
  };
  Generator other(4);
  EXPECT_EQ(
      backward_of([](const Tensor& a, bool again) { return again ? a + rand({2}) : a * 2; }),
      "checkpoint: expected the random draws of forward, 0, got one more; let the function do the same each "
      "time: it must not depend on what changes between forward and backward");
  EXPECT_NE(backward_of([](const Tensor& a, bool again) {
              return a * rand({again ? 20 : 2});
            }).find("got another draw as number 0"),
            std::string::npos);
  EXPECT_NE(backward_of([&](const Tensor& a, bool again) {
              return a * rand({2}, {}, again ? other : default_generator());
            }).find("got another draw as number 0"),
            std::string::npos);
}

TEST(CheckpointRules, AFunctionMayCatchWhatEndsItsSecondRun) {
  int caught = 0;
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  sum(checkpoint(
          [&](const Tensor& a) {
            const Tensor h = exp(a);
            try {
              return tanh(h) * 2.0;
            } catch (...) {
              ++caught;
              return exp(h);
            }
          },
          x))
      .backward();
  EXPECT_EQ(caught, 1);
  const Tensor v = tensor({0.5, 1.5}, {.requires_grad = true});
  sum(tanh(exp(v)) * 2.0).backward();
  EXPECT_EQ(bits(x.grad()), bits(v.grad()));
}

TEST(CheckpointRules, AFunctionThatCatchesTheRefusalIsRefusedAllTheSame) {
  int runs = 0;
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const Tensor loss = sum(checkpoint(
      [&](const Tensor& a) {
        const bool again = ++runs > 1;
        try {
          return exp(exp(again ? stack({a, a}) : a));
        } catch (...) {
          return exp(a);
        }
      },
      x));
  EXPECT_NE(refused([&] { loss.backward(); }).find("output 0 of exp, f32 [2] is missing"), std::string::npos);
}

// --- writes between forward and backward

TEST(CheckpointRules, WritesSinceForwardAreRefused) {
  const auto run = [](int which) {
    const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
    const Tensor before = exp(x);
    const Tensor w = tensor({2.0, 3.0}, {.requires_grad = true});
    const Tensor b = tensor({0.1, 0.2}, {.requires_grad = true});
    const Tensor buffer = tensor({4.0, 5.0});
    const Tensor y = checkpoint([=](const Tensor& a) { return exp((a * w + b) * buffer); }, before);
    const std::array<Tensor, 4> all{before, w, b, buffer};
    {
      const NoGrad no_grad;
      all[static_cast<std::size_t>(which)].add_(1);
    }
    return refused([&] { sum(y).backward(); });
  };
  EXPECT_EQ(run(0),
            "checkpoint: expected an input as it was in forward (version 0), got a tensor of f32 [2] at "
            "version 1; it "
            "was written in place since, and the recomputation would read it; write to a clone() or after "
            "backward");
  EXPECT_NE(run(1).find("checkpoint: expected a parameter as it was in forward"), std::string::npos);
  EXPECT_NE(run(2).find("checkpoint: expected a parameter as it was in forward"), std::string::npos)
      << "add does not save it, but the second run reads it";
  EXPECT_NE(run(3).find("mul: expected input 1 (f32 [2]) as it was in forward (version 0), got version 1"),
            std::string::npos)
      << run(3);
}

TEST(CheckpointRules, ANestedRegionRefusesThemToo) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const Tensor b = tensor({0.1, 0.2}, {.requires_grad = true});
  const Tensor y = checkpoint(
      [=](const Tensor& a) { return checkpoint([=](const Tensor& h) { return exp(h + b); }, tanh(a)); }, x);
  {
    const NoGrad no_grad;
    b.add_(1);
  }
  EXPECT_NE(refused([&] { sum(y).backward(); }).find("a parameter as it was in forward"), std::string::npos);
}

TEST(CheckpointRules, WritesOfTheFunctionToItsOwnSavedTensorsAreRefusedAsWithout) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const auto fn = [](const Tensor& a) {
    const Tensor h = exp(a);
    const Tensor y = h * a;
    h.add_(1);  // exp has saved it
    return exp(y);
  };
  const std::string expected = refused([&] { sum(fn(x)).backward(); });
  EXPECT_NE(expected.find("version 1"), std::string::npos);
  EXPECT_EQ(refused([&] { sum(checkpoint(fn, x)).backward(); }), expected);
}

TEST(CheckpointRules, WritesOfTheFunctionToItsInputAreRefusedAtOnce) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  EXPECT_EQ(refused([&] {
              static_cast<void>(checkpoint(
                  [](const Tensor& a) {
                    a.add_(1);
                    return exp(a);
                  },
                  exp(x)));
            }),
            "checkpoint: expected a function that leaves its inputs as they are, got one that has written to "
            "input 0 in "
            "place; let it write to a clone() of the input");
}

TEST(CheckpointRules, AFunctionThatNeedsItsOwnRegionIsRefused) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  Tensor loss;
  loss = sum(checkpoint(
      [&](const Tensor& a) {
        if (loss.defined()) loss.backward({.retain_graph = true});
        return exp(exp(a));
      },
      x));
  EXPECT_NE(
      refused([&] { loss.backward({.retain_graph = true}); }).find("runs backward through its own region"),
      std::string::npos);
  loss = {};
}

// --- random numbers

TEST(CheckpointRandom, EveryGeneratorIsReadAgainAndLeftAlone) {
  for (const Device device : devices()) {
    const auto run = [&](bool with_checkpoint) {
      manual_seed(7);
      Generator mine(9);
      const Tensor x = ones({3, 5}, {.device = device, .requires_grad = true});
      const auto fn = [&](const Tensor& a) {
        Generator own(1);  // made anew in each run
        Tensor h = dropout(a, 0.5, true, mine) * exp(a);
        h = h * rand({3, 5}, {.device = device}) + normal(0, 1, {5}, {.device = device}, own);
        return dropout(exp(h), 0.25) * randn({5}, {.device = device}, mine);
      };
      const Tensor loss = sum(with_checkpoint ? checkpoint(fn, x) : fn(x));
      const GeneratorState state = mine.state(), state_of_default = default_generator().state();
      manual_seed(1234);
      const Tensor drawn = rand({3}, {.device = device}, mine);
      loss.backward();
      EXPECT_EQ(default_generator().state(), (GeneratorState{1234, 0}));
      return std::tuple(Tensors{loss, x.grad(), drawn, rand({3}, {.device = device}, mine)}, state,
                        state_of_default);
    };
    const auto [expected, state, state_of_default] = run(false);
    const auto [found, found_state, found_of_default] = run(true);
    expect_same(expected, found);
    EXPECT_EQ(state, found_state);
    EXPECT_EQ(state_of_default, found_of_default);
  }
  manual_seed(0);
}

TEST(CheckpointRandom, AFunctionMaySeed) {
  const auto run = [](bool with_checkpoint) {
    manual_seed(7);
    const Tensor x = ones({8}, {.requires_grad = true});
    const auto fn = [](const Tensor& a) {
      const Tensor h = dropout(exp(a), 0.5);
      manual_seed(3);
      return exp(dropout(h, 0.5));
    };
    const Tensor loss = sum(with_checkpoint ? checkpoint(fn, x) : fn(x));
    static_cast<void>(rand({2}));
    const GeneratorState state = default_generator().state();
    loss.backward();
    EXPECT_EQ(default_generator().state(), state);
    EXPECT_EQ(state.seed, 3U);
    return Tensors{loss, x.grad()};
  };
  expect_same(run(false), run(true));
  manual_seed(0);
}

// --- state of the thread

TEST(CheckpointState, RunsAgainUnderTheRegionsAndOverridesOfForward) {
  for (const bool cache : {true, false}) {
    const auto run = [&](bool with_checkpoint) {
      const Tensor x = full({4, 4}, 0.3, {.requires_grad = true});
      const Tensor w = full({4, 4}, 0.7, {.requires_grad = true});
      std::vector<DType> seen;
      const auto fn = [&](const Tensor& a) {
        const Tensor h = softmax(matmul(a, w), 1);
        seen.push_back(h.dtype());
        const amp::Autocast off(Device::cpu(), {}, {.enabled = false});
        return exp(matmul(h.to(DType::f32), w));
      };
      Tensor loss;
      {
        const amp::PolicyOverride keep("softmax", Category::lower_precision);
        const amp::Autocast autocast(Device::cpu(), DType::f16, {.cache_enabled = cache});
        loss = sum(with_checkpoint ? checkpoint(fn, x) : fn(x));
      }
      {
        const amp::PolicyOverride other("matmul", Category::fp32);
        loss.backward();
        EXPECT_EQ(amp::effective_category(find_op("matmul")->info()), Category::fp32) << "as before";
      }
      EXPECT_EQ(amp::effective_category(find_op("softmax")->info()), Category::fp32);
      EXPECT_EQ(seen, std::vector<DType>(with_checkpoint ? 2 : 1, DType::f16));
      EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cpu));
      return Tensors{loss, x.grad(), w.grad()};
    };
    expect_same(run(false), run(true));
  }
}

TEST(CheckpointState, TrainsUnderAutocastWithScalerAndKeptCopies) {
  const auto train = [](bool with_checkpoint) {
    manual_seed(2);
    nn::Linear first(8, 16), second(16, 8);
    std::vector<Tensor> parameters = first.parameters();
    for (const Tensor& parameter : second.parameters()) parameters.push_back(parameter);
    optim::AdamW optimizer(parameters, {.lr = 0.01});
    amp::GradScaler scaler({.init_scale = 256});
    const Tensor x = randn({4, 8});
    Tensors losses;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const amp::Autocast autocast(Device::cpu(), DType::f16);
        const auto fn = [&](const Tensor& a) { return second(dropout(relu(first(a)), 0.2)); };
        loss = mse_loss((with_checkpoint ? checkpoint(fn, x) : fn(x)).to(DType::f32), x);
      }
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
      losses.push_back(loss.detach());
    }
    for (const Tensor& parameter : parameters) losses.push_back(parameter.detach());
    return losses;
  };
  expect_same(train(false), train(true));
  manual_seed(0);
}

TEST(CheckpointState, ACapturedStepDrawsTheSameInBothRuns) {
  const Device device = Device::best();  // on the CPU each call runs as it is
  const auto train = [&](bool with_checkpoint, bool captured) {
    manual_seed(2);
    const Tensor w = full({6, 6}, 0.25, {.device = device, .requires_grad = true});
    const Tensor x = full({4, 6}, 0.5, {.device = device});
    optim::SGD optimizer({w}, {.lr = 0.05});
    const auto fn = [&](const Tensor& a) { return dropout(exp(dropout(tanh(matmul(a, w)), 0.5)), 0.5); };
    const auto body = [&] {
      optimizer.zero_grad();
      const Tensor loss = sum(with_checkpoint ? checkpoint(fn, x) : fn(x));
      loss.backward();
      optimizer.step();
      return loss;
    };
    amp::CapturedStep step(device, body);
    Tensors losses;
    for (int i = 0; i < 7; ++i) losses.push_back(captured ? step().clone().detach() : body().detach());
    EXPECT_EQ(step.is_recorded(), captured && device.is_cuda());
    losses.push_back(w.detach().clone());
    return losses;
  };
  const Tensors expected = train(false, false);
  expect_same(expected, train(true, false));
  expect_same(expected, train(true, true));
  manual_seed(0);
}

// --- what happens once

TEST(CheckpointOnce, KeptResultsAreMadeInTheFirstRun) {
  int made = 0;
  const auto once = [&] {
    return autograd::keep_for_recomputation([&] { return full({2}, static_cast<double>(++made)); });
  };
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const Tensor y = checkpoint(
      [&](const Tensor& a) {
        const Tensor h = exp(a * once());
        return checkpoint(
            [&](const Tensor& b) {
              const Tensor e = exp(b * once());
              return e * once();
            },
            h);
      },
      x);
  EXPECT_EQ(made, 3);
  sum(y).backward();
  EXPECT_EQ(made, 3);
  const Tensor v = tensor({0.5, 1.5}, {.requires_grad = true});
  sum(exp(exp(v * 1.0) * full({2}, 2.0)) * full({2}, 3.0)).backward();
  EXPECT_EQ(bits(x.grad()), bits(v.grad()));
  EXPECT_EQ(once().to_vector<double>()[1], 4) << "a plain call";
}

/// Results, gradients and buffers of a module called twice before one backward.
template <class M>
Tensors called_twice(M& module, const Tensor& first, const Tensor& second, bool with_checkpoint) {
  const auto call = [&](const Tensor& x) {
    const auto fn = [&](const Tensor& a) { return exp(module(a) * 0.1); };
    return with_checkpoint ? checkpoint(fn, x) : fn(x);
  };
  const Tensor a = call(first), b = call(second);
  sum(a * b.detach() + b).backward();
  Tensors all{a, b};
  for (const Tensor& parameter : module.parameters()) all.push_back(parameter.grad());
  for (const auto& [name, value] : module.state_dict()) all.push_back(value.clone());
  return all;
}

TEST(CheckpointOnce, RunningStatisticsMoveOnce) {
  for (const std::optional<double> momentum : {std::optional(0.1), std::optional<double>()}) {
    const auto run = [&](bool with_checkpoint) {
      manual_seed(1);
      nn::BatchNorm1d norm(4, {.momentum = momentum});
      const Tensors all = called_twice(norm, randn({8, 4}), randn({8, 4}) * 3, with_checkpoint);
      EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 2);
      return all;
    };
    expect_same(run(false), run(true));
  }
}

TEST(CheckpointOnce, SpectralNormIteratesOnce) {
  const auto run = [](bool with_checkpoint) {
    manual_seed(1);
    const auto layer = nn::spectral_norm(nn::make<nn::Linear>(4, 3));
    return called_twice(*layer, randn({8, 4}), randn({8, 4}), with_checkpoint);
  };
  expect_same(run(false), run(true));
}

TEST(CheckpointOnce, EmbeddingAppliesMaxNormOnce) {
  const auto run = [](bool with_checkpoint) {
    manual_seed(1);
    nn::Embedding table(5, 3, {.max_norm = 0.5});
    const Tensor index = tensor({1.0, 3.0, 1.0}).to(DType::i64);
    const auto fn = [&](const Tensor& places) { return exp(table(places)); };
    sum(with_checkpoint ? checkpoint(fn, index) : fn(index)).backward();
    return Tensors{table.weight.detach(), table.weight.grad()};
  };
  expect_same(run(false), run(true));
}

}  // namespace
}  // namespace mezzo
