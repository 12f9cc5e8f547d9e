// checkpoint gives the bits of the plain calls: results, gradients of every order, random numbers, in every
// way in which a graph can be walked; and it keeps less memory.
#include "mezzo/autograd/checkpoint.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <tuple>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/tests/autograd/checkpoint_support.h"

namespace mezzo {
namespace {

using autograd::checkpoint;
using test::bits;
using test::Block;
using test::checkpointed;
using test::devices;
using test::expect_same;
using test::plain;
using test::run_stack;
using test::StackRun;

std::int64_t live_bytes() { return memory_stats(Device::cpu()).current; }

void expect_same_run(const StackRun& a, const StackRun& b) {
  expect_same(a.results, b.results);
  EXPECT_EQ(a.after_forward, b.after_forward);
  EXPECT_EQ(a.after_backward, b.after_backward);
}

TEST(Checkpoint, HasTheBitsOfPlainCalls) {
  for (const Device device : devices()) {
    for (const std::optional<DType> autocast :
         {std::optional<DType>(), std::optional(DType::bf16), std::optional(DType::f16)}) {
      SCOPED_TRACE(to_string(device) + (autocast ? " " + std::string(to_string(*autocast)) : " f32"));
      const StackRun expected = run_stack(plain, device, autocast);
      EXPECT_NE(expected.after_forward.offset, 0U) << "dropout draws";
      expect_same_run(expected, run_stack(checkpointed, device, autocast));
    }
  }
}

TEST(Checkpoint, Nests) {
  const auto twice = [](const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) {
    return checkpoint(
        [fn](const Tensor& a) {
          const Tensor middle = checkpoint(fn, tanh(a));
          return checkpoint([fn](const Tensor& b) { return exp(checkpoint(fn, b)) * 0.1; }, middle * middle);
        },
        x);
  };
  const auto plain_twice = [](const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) {
    const Tensor middle = fn(tanh(x));
    return exp(fn(middle * middle)) * 0.1;
  };
  for (const Device device : devices()) {
    expect_same_run(run_stack(plain_twice, device), run_stack(twice, device));
    expect_same_run(run_stack(plain_twice, device, DType::bf16), run_stack(twice, device, DType::bf16));
  }
}

/// A function with a curved second derivative, of an input and of two captured leaves.
struct Curved {
  Tensor w = tensor({{0.5, -0.25}, {0.75, 1.5}}, {.requires_grad = true});
  Tensor b = tensor({0.1, -0.2}, {.requires_grad = true});
  [[nodiscard]] Tensor operator()(const Tensor& x) const {
    return sigmoid(matmul(tanh(x * x), w) + b) * exp(x);
  }
};

Tensors derivatives(bool with_checkpoint) {
  const Curved fn;
  const Tensor x = tensor({{0.3, -0.7}, {1.1, 0.2}}, {.requires_grad = true});
  const Tensor y = with_checkpoint ? checkpoint(fn, x) : fn(x);
  const Tensors first = grad(sum(y * y), {x, fn.w}, {.create_graph = true});
  const Tensors second =
      grad(sum(first[0] * first[0]) + sum(exp(first[1])), {x, fn.w, fn.b}, {.create_graph = true});
  const Tensors third = grad(sum(second[0] * second[1]) + sum(second[2]), {x, fn.w, fn.b});
  Tensors all{y, first[0], first[1]};
  for (const Tensors& some : {second, third}) {
    for (const Tensor& each : some) all.push_back(each);
  }
  return all;
}

TEST(Checkpoint, HasGradientsOfHigherOrder) { expect_same(derivatives(false), derivatives(true)); }

TEST(Checkpoint, RunsASecondAndThirdBackward) {
  const auto run = [](bool with_checkpoint) {
    const Curved fn;
    const Tensor x = tensor({{0.3, -0.7}, {1.1, 0.2}}, {.requires_grad = true});
    const Tensor y = with_checkpoint ? checkpoint(fn, x) : fn(x);
    const Tensor loss = sum(y * y);
    loss.backward({.retain_graph = true});
    loss.backward({.retain_graph = true});
    const Tensor one = grad(loss, {fn.b}, {.retain_graph = true})[0];
    loss.backward();
    EXPECT_THROW(loss.backward(), AutogradError) << "the graph is freed";
    return Tensors{x.grad(), fn.w.grad(), fn.b.grad(), one};
  };
  expect_same(run(false), run(true));
}

TEST(Checkpoint, ServesAnySubsetOfOutputsAndInputs) {
  const auto run = [](bool with_checkpoint, int which) {
    const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
    const Tensor z = tensor({2.0, -1.0}, {.requires_grad = true});
    const Tensor before = exp(x);  // a result as input, and as target
    const auto fn = [](const Tensor& a, const Tensor& c) {
      const Tensor h = tanh(a * c);
      return std::tuple(h * h, std::pair(exp(c), h.detach()), Tensors{a * a * c, sin(h)});
    };
    const auto [square, pair, list] = with_checkpoint ? checkpoint(fn, before, z) : fn(before, z);
    EXPECT_FALSE(pair.second.requires_grad());
    switch (which) {
      case 0:
        return grad({sum(square)}, {z});
      case 1:
        return grad({sum(pair.first), sum(list[1])}, {before, z});
      case 2:
        return grad({sum(list[0])}, {x, before});
      default:
        return grad({sum(pair.first)}, {x, z}, {.allow_unused = true});
    }
  };
  for (int which = 0; which < 4; ++which) expect_same(run(false, which), run(true, which));
}

TEST(Checkpoint, TakesUndefinedInputsAndFunctionsWithoutInputs) {
  const Tensor w = tensor({2.0, 3.0}, {.requires_grad = true});
  const Tensor y =
      checkpoint([&](const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : exp(x * w); },
                 w, Tensor());
  const Tensor z = checkpoint([&] { return exp(w * w); });
  sum(y + z).backward();
  const Tensor v = tensor({2.0, 3.0}, {.requires_grad = true});
  sum(exp(v * v) + exp(v * v)).backward();
  EXPECT_EQ(bits(w.grad()), bits(v.grad()));
}

TEST(Checkpoint, ReturnsAnInputAsItIs) {
  const Tensor x = tensor({2.0, 3.0}, {.requires_grad = true});
  const Tensor y = exp(x);
  EXPECT_TRUE(checkpoint([](const Tensor& a) { return a; }, y).is_same(y));
  const auto [same, other] = checkpoint([](const Tensor& a) { return std::pair(a, a * a); }, y);
  sum(same + other).backward();
  const Tensor v = tensor({2.0, 3.0}, {.requires_grad = true});
  const Tensor u = exp(v);
  sum(u + u * u).backward();
  EXPECT_EQ(bits(x.grad()), bits(v.grad()));
}

TEST(Checkpoint, RunsHooksOfTensorsOnce) {
  const auto run = [](bool with_checkpoint) {
    int inside = 0, outside = 0;
    const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
    const auto fn = [&](const Tensor& a) {
      const Tensor h = exp(a);
      h.register_hook([&](const Tensor& gradient) {
        ++inside;
        return gradient * 2;
      });
      return h * h;
    };
    const Tensor y = with_checkpoint ? checkpoint(fn, x) : fn(x);
    y.register_hook([&](const Tensor& gradient) {
      ++outside;
      return gradient * 3;
    });
    sum(y).backward();
    EXPECT_EQ(inside, 1);
    EXPECT_EQ(outside, 1);
    return Tensors{x.grad()};
  };
  expect_same(run(false), run(true));
}

TEST(Checkpoint, RunsBackwardInsideOfTheFunction) {
  const auto run = [](bool outer, bool inner) {
    const Curved fn;
    const Tensor x = tensor({{0.3, -0.7}, {1.1, 0.2}}, {.requires_grad = true});
    const auto penalty = [&](const Tensor& in) {
      const Tensor a = in.detach().requires_grad_();  // a leaf of its own in each run
      const Tensor y = inner ? checkpoint(fn, a) : fn(a);
      const Tensor g = grad(sum(y * y), {a}, {.create_graph = true})[0];
      return sum(g * g) + sum(fn(in));
    };
    const Tensor loss = outer ? checkpoint(penalty, x) : penalty(x);
    loss.backward();
    return Tensors{loss, x.grad(), fn.w.grad(), fn.b.grad()};
  };
  const Tensors expected = run(false, false);
  expect_same(expected, run(false, true));
  expect_same(expected, run(true, false));
  expect_same(expected, run(true, true));
}

TEST(Checkpoint, KeepsInPlaceWritesToItsOwnTensors) {
  const auto run = [](bool with_checkpoint) {
    const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
    const auto fn = [](const Tensor& a) {
      const Tensor h = a * 2;
      h.mul_(a);
      const Tensor e = exp(h);
      h.add_(e);
      return h * e;
    };
    sum(with_checkpoint ? checkpoint(fn, x) : fn(x)).backward();
    return Tensors{x.grad()};
  };
  expect_same(run(false), run(true));
}

// --- how often and how far the function runs

TEST(Checkpoint, RunsAgainOncePerBackwardAndOnlyAsFarAsNeeded) {
  int runs = 0, ends = 0;
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const auto fn = [&](const Tensor& a) {
    ++runs;
    EXPECT_EQ(autograd::is_recomputing(), runs > 1);
    const Tensor y = exp(exp(a));
    ++ends;
    return y + 1.0;
  };
  const Tensor loss = sum(checkpoint(fn, x));
  EXPECT_EQ(runs, 1);
  loss.backward({.retain_graph = true});
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(ends, 1) << "the second run ends with the last saved tensor";
  loss.backward();
  EXPECT_EQ(runs, 3);
  EXPECT_FALSE(autograd::is_recomputing());
}

/// How often ops of a name run on this thread.
struct OpCount final : OpObserver {
  explicit OpCount(std::string_view of) : name(of), guard(this) {}
  void ran(const OpInfo& info, Inputs /*inputs*/, std::optional<DType> /*run_dtype*/,
           const Outputs& /*outputs*/) override {
    if (info.name.value == name) ++count;
  }
  std::string_view name;
  int count = 0;
  OpObserverGuard guard;
};

TEST(Checkpoint, EndsBeforeALastOpOfWhichInputsAreNeeded) {
  const auto run = [](bool with_checkpoint, int linears, bool from_leaf) {
    const Tensor w = tensor({{0.5, -0.25}, {0.75, 1.5}}, {.requires_grad = true});
    const Tensor b = tensor({0.1, -0.2}, {.requires_grad = true});
    const Tensor x = tensor({{0.3, -0.7}, {1.1, 0.2}}, {.requires_grad = true});
    const auto fn = [&](const Tensor& a) {
      Tensor h = a;
      for (int i = 0; i < linears; ++i) h = linear(h, w, b);
      return h * 2.0 + a;
    };
    const Tensor in = from_leaf ? x : exp(x);
    const Tensor loss = sum(with_checkpoint ? checkpoint(fn, in) : fn(in));
    OpCount again("linear");
    loss.backward();
    // Of a leaf nothing is computed again, so a single linear need not run at all.
    EXPECT_EQ(again.count, with_checkpoint && linears > 0 ? linears - 1 : 0);
    return Tensors{loss, x.grad(), w.grad(), b.grad()};
  };
  for (const bool from_leaf : {true, false}) {
    for (int linears = 0; linears < 4; ++linears)
      expect_same(run(false, linears, from_leaf), run(true, linears, from_leaf));
  }
}

TEST(Checkpoint, IsAPlainCallWithoutRecording) {
  int runs = 0;
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  const NoGrad no_grad;
  const Tensor y = checkpoint(
      [&](const Tensor& a) {
        ++runs;
        return exp(a);
      },
      x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(bits(y), bits(exp(x)));
  EXPECT_EQ(runs, 1);
}

TEST(Checkpoint, DoesNotComputeAgainWhatBelongsToGraphsThatAreGone) {
  const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
  auto [a, b] = checkpoint(
      [](const Tensor& in) {
        const Tensor first = sigmoid(tanh(in));
        return std::pair(first, tanh(tanh(exp(in))));
      },
      x);
  b = {};
  OpCount again("tanh");
  sum(a).backward();
  EXPECT_EQ(again.count, 1) << "the one before sigmoid, whose result is the last that is needed";
}

// --- memory

constexpr std::int64_t kBlocks = 8, kBytes = 64 * 64 * 4;

struct Live {
  std::int64_t after_forward, peak, after_backward;
};

/// Bytes beyond those of leaves and gradients in a step of kBlocks functions that save 6 tensors each.
template <class F>
Live live_in_step(F apply, bool retain = false) {
  const Tensor x = ones({64, 64}, {.requires_grad = true});
  x.set_grad(zeros({64, 64}));
  const std::int64_t before = live_bytes();
  Live live{};
  {
    Tensor h = x;
    for (std::int64_t i = 0; i < kBlocks; ++i) h = apply(h);
    live.after_forward = live_bytes() - before;
    reset_peak_memory_stats(Device::cpu());
    const Tensor loss = sum(h);
    h = {};
    loss.backward({.retain_graph = retain});
    live.peak = memory_stats(Device::cpu()).peak - before;
    live.after_backward = live_bytes() - before;
  }
  EXPECT_EQ(live_bytes(), before);
  return live;
}
Tensor six_saved(const Tensor& x) { return tanh(tanh(tanh(tanh(tanh(tanh(x)))))); }

TEST(Checkpoint, KeepsTheInputsOfBlocksAndTheInsideOfOne) {
  const Live full = live_in_step(six_saved);
  EXPECT_GE(full.after_forward, 6 * kBlocks * kBytes);
  const Live less = live_in_step([](const Tensor& x) { return checkpoint(six_saved, x); });
  EXPECT_LE(less.after_forward, (kBlocks + 1) * kBytes) << "a result per block, which the next keeps";
  // Inside of one block: what it saves, gradients on their way (two and a sum), and what its run makes.
  EXPECT_LE(less.peak, (kBlocks + 12) * kBytes);
  EXPECT_LT(3 * less.peak, full.peak);
  EXPECT_LE(less.after_backward, 2 * kBytes);
}

TEST(Checkpoint, ARetainedBackwardKeepsTheInsideOfOneBlockToo) {
  const Live less = live_in_step([](const Tensor& x) { return checkpoint(six_saved, x); }, true);
  EXPECT_LE(less.peak, (kBlocks + 12) * kBytes);
  EXPECT_LE(less.after_backward, (kBlocks + 2) * kBytes);
}

TEST(Checkpoint, UnderAutocastNoCopyOfAWeightIsKept) {
  std::vector<Tensor> weights;
  for (std::int64_t i = 0; i < kBlocks; ++i) weights.push_back(full({64, 64}, 0.01, {.requires_grad = true}));
  const std::int64_t before = live_bytes();
  Tensor h = ones({64, 64});
  {
    const amp::Autocast autocast(Device::cpu(), DType::bf16);
    for (const Tensor& w : weights)
      h = checkpoint([w](const Tensor& x) { return tanh(tanh(linear(tanh(x), w))); }, h);
  }
  EXPECT_LE(live_bytes() - before, kBytes + kBlocks * kBytes / 2) << "the inputs, all but the first in bf16";
  sum(h).backward();
  EXPECT_TRUE(weights[0].grad().defined());
}

TEST(Checkpoint, NestedRegionsKeepTheirInputsInTheOuterOne) {
  const Live less = live_in_step([](const Tensor& x) {
    return checkpoint(
        [](const Tensor& a) {
          Tensor h = a;
          for (int i = 0; i < 6; ++i) h = checkpoint(six_saved, h);
          return h;
        },
        x);
  });
  EXPECT_LE(less.after_forward, (kBlocks + 1) * kBytes);
  EXPECT_LE(less.peak, (kBlocks + 6 + 12) * kBytes) << "inputs of outer and inner regions, the inside of one";
}

TEST(Checkpoint, ARegionThatIsNeverWalkedLeavesNothing) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = ones({64, 64}, {.requires_grad = true});
    const Tensor y =
        checkpoint([](const Tensor& a) { return checkpoint(six_saved, six_saved(dropout(a, 0.5))); }, exp(x));
    EXPECT_LE(live_bytes() - before, 4 * kBytes);
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(Checkpoint, FreesWhatABackwardDidNotAskFor) {
  const Tensor x = ones({64, 64}, {.requires_grad = true});
  const auto [a, b] =
      checkpoint([](const Tensor& in) { return std::pair(six_saved(in), exp(six_saved(in))); }, x);
  const Tensor loss = sum(a);
  const std::int64_t before = live_bytes();
  static_cast<void>(grad(loss, {x}, {.retain_graph = true}));
  EXPECT_EQ(live_bytes(), before);
}

TEST(Checkpoint, ALongChainOfRegionsNeedsNoDeepStack) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = tensor({0.5, 1.5}, {.requires_grad = true});
    Tensor h = x;
    for (int i = 0; i < 50000; ++i) h = checkpoint([](const Tensor& a) { return tanh(a); }, h);
    sum(h).backward({.retain_graph = true});
    EXPECT_TRUE(x.grad().defined());
  }
  EXPECT_EQ(live_bytes(), before);
}

// --- threads

TEST(Checkpoint, RunsBackwardOnAnotherThread) {
  const StackRun expected = run_stack(plain, Device::cpu(), DType::bf16);
  manual_seed(5);
  Generator first_values(3);
  const Block block(Device::cpu(), first_values);
  const auto run = [&](bool with_checkpoint, bool on_thread) {
    manual_seed(11);
    const Tensor x = ones({4, test::kWidth}, {.requires_grad = true});
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), DType::bf16);
      loss = sum(with_checkpoint ? checkpoint(block, x) : block(x));
    }
    if (on_thread)
      std::thread([&] { loss.backward(); }).join();
    else
      loss.backward();
    return Tensors{loss, x.grad()};
  };
  expect_same(run(false, false), run(true, true));
}

TEST(Checkpoint, ServesSeveralBackwardsAtOnce) {
  const Tensor x = ones({32, 32}, {.requires_grad = true});
  const Tensor loss = sum(checkpoint(six_saved, exp(checkpoint(six_saved, x))));
  const Tensor expected = grad(loss, {x}, {.retain_graph = true})[0];
  std::vector<Tensors> found(4);
  {
    std::vector<std::thread> threads;
    for (Tensors& mine : found) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) mine = grad(loss, {x}, {.retain_graph = true});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const Tensors& mine : found) expect_same({expected}, mine);
}

TEST(Checkpoint, TrainsOnSeveralThreads) {
  const auto gradient = [](int seed) {
    Generator generator(static_cast<std::uint64_t>(seed));
    const Block block(Device::cpu(), generator);
    const Tensor x = ones({4, test::kWidth}, {.requires_grad = true});
    sum(checkpoint(
            [&](const Tensor& a) {
              return dropout(block.w2.matmul(block.w1).matmul(a.t()), 0.5, true, generator);
            },
            x))
        .backward();
    return bits(x.grad());
  };
  std::vector<std::vector<std::uint64_t>> expected, found(4);
  for (int i = 0; i < 4; ++i) expected.push_back(gradient(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int again = 0; again < 10; ++again) found[static_cast<std::size_t>(i)] = gradient(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace mezzo
