// Whole trainings on several threads at once: each with a model of its own, or all with one model between
// them. Results are those of one thread, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mezzo/mezzo.h"
#include "mezzo/tests/support/thread_guard.h"
#include "mezzo/tests/threads/together.h"

namespace mezzo {
namespace {

using test::run_together;
using test::times;

constexpr int kThreads = 4;

/// A model, its input, and what trains it: number 0 is an MLP, 1 a convolution net, 2 attention, 3 an LSTM.
class Training {
 public:
  explicit Training(int number) {
    Generator generator(static_cast<std::uint64_t>(number) + 11);
    const nn::LinearOptions linear{.generator = &generator};
    const auto use = [this]<class M>(std::unique_ptr<M> module, Tensor x, auto output) {
      forward_ = [module = module.get(), x = std::move(x), output] { return output(*module, x); };
      module_ = std::move(module);
    };
    const auto plain = [](auto& module, const Tensor& x) { return module.forward(x); };
    switch (number) {
      case 0:
        use(std::make_unique<nn::Sequential>(nn::make<nn::Linear>(48, 64, linear), nn::make<nn::GELU>(),
                                             nn::make<nn::LayerNorm>(Shape{64}),
                                             nn::make<nn::Linear>(64, 8, linear)),
            randn({64, 48}, {}, generator), plain);
        break;
      case 1:
        use(std::make_unique<nn::Sequential>(
                nn::make<nn::Conv2d>(3, 8, 3, nn::ConvLayerOptions{.generator = &generator}),
                nn::make<nn::BatchNorm2d>(8), nn::make<nn::ReLU>(), nn::make<nn::MaxPool2d>(2)),
            randn({8, 3, 10, 10}, {}, generator), plain);
        break;
      case 2:
        use(std::make_unique<nn::TransformerEncoderLayer>(
                32, 4,
                nn::TransformerEncoderLayerOptions{
                    .dim_feedforward = 64, .dropout = 0, .generator = &generator}),
            randn({4, 16, 32}, {}, generator), plain);
        break;
      default:
        use(std::make_unique<nn::LSTM>(16, 24, nn::RecurrentOptions{.generator = &generator}),
            randn({12, 8, 16}, {}, generator),
            [](nn::LSTM& lstm, const Tensor& x) { return lstm.forward(x).output; });
    }
    optimizer_ = std::make_unique<optim::AdamW>(module_->parameters());
  }

  void step(DType dtype) {
    optimizer_->zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), dtype);
      const Tensor y = forward_();
      loss = mean(y * y) + mean(abs(y));
    }
    scaler_.scale(loss).backward();
    optim::clip_grad_norm_(module_->parameters(), 1.0);
    scaler_.step(*optimizer_);
    scaler_.update();
  }

  /// All that training changed.
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (const auto& [name, tensor] : module_->state_dict()) {
      const std::vector<float> some = tensor.to(DType::f32).to_vector<float>();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

 private:
  std::unique_ptr<nn::Module> module_;
  std::function<Tensor()> forward_;
  std::unique_ptr<optim::AdamW> optimizer_;
  amp::GradScaler scaler_{{.init_scale = 1024}};
};

std::vector<float> trained(int number) {
  Training training(number);
  for (int step = 0; step < times(100); ++step) training.step(step % 2 == 0 ? DType::bf16 : DType::f16);
  return training.values();
}

TEST(Models, TrainedOnThreadsOfTheirOwnHaveTheBitsOfOneAfterTheOther) {
  const test::ThreadGuard threads(2);
  std::array<std::vector<float>, kThreads> alone, together;
  for (int i = 0; i < kThreads; ++i) alone.at(i) = trained(i);
  run_together(kThreads, [&](int i) { together.at(i) = trained(i); });
  for (int i = 0; i < kThreads; ++i) EXPECT_TRUE(alone.at(i) == together.at(i)) << "model " << i;
}

TEST(Models, TheNumberOfThreadsMayChangeMeanwhile) {
  const test::ThreadGuard threads(2);
  const std::vector<float> alone = trained(0);
  std::vector<float> together;
  std::atomic<bool> training = true;
  run_together({[&] {
                  together = trained(0);
                  training = false;
                },
                [&] {
                  for (int i = 0; training; ++i) {
                    set_num_threads(1 + i % 4);
                    std::this_thread::yield();
                  }
                }});
  EXPECT_TRUE(alone == together);
}

/// One model that several threads use, with inputs of their own.
class OneModel : public testing::Test {
 protected:
  static constexpr std::int64_t kFeatures = 32;

  [[nodiscard]] static Tensor input(int number) {
    Generator generator(static_cast<std::uint64_t>(number));
    return randn({16, kFeatures}, {}, generator);
  }
  [[nodiscard]] Tensor loss_of(int number, DType dtype) {
    const amp::Autocast autocast(Device::cpu(), dtype);
    const Tensor y = net.forward(input(number));
    return mean(y * y);
  }
  [[nodiscard]] static std::vector<Tensor> of_loss(const Tensor& loss,
                                                   const std::vector<Tensor>& parameters) {
    const Tensors gradients = grad(std::span(&loss, 1), parameters);
    return {gradients.begin(), gradients.end()};
  }
  [[nodiscard]] static std::vector<float> gradients(const std::vector<Tensor>& of) {
    std::vector<float> all;
    for (const Tensor& gradient : of) {
      const std::vector<float> some = gradient.to_vector<float>();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  nn::Sequential net{nn::make<nn::Linear>(kFeatures, 64), nn::make<nn::ReLU>(),
                     nn::make<nn::LayerNorm>(Shape{64}), nn::make<nn::Linear>(64, kFeatures)};
};

TEST_F(OneModel, ServesThreadsThatEachAutocastToADTypeOfTheirOwn) {
  const std::array<DType, 2> dtypes{DType::bf16, DType::f16};
  std::array<float, kThreads> expected{};
  for (int i = 0; i < kThreads; ++i) expected.at(i) = loss_of(i, dtypes.at(i % 2)).item<float>();
  run_together(kThreads, [&](int i) {
    const NoGrad no_grad;
    for (int turn = 0; turn < times(300); ++turn)
      ASSERT_EQ(loss_of(i, dtypes.at(i % 2)).item<float>(), expected.at(i));
  });
}

TEST_F(OneModel, GivesEachThreadTheGradientsOfItsOwnLoss) {
  const std::vector<Tensor> parameters = net.parameters();
  std::array<std::vector<float>, kThreads> expected;
  for (int i = 0; i < kThreads; ++i) expected.at(i) = gradients(of_loss(loss_of(i, DType::bf16), parameters));
  run_together(kThreads, [&](int i) {
    for (int turn = 0; turn < times(200); ++turn)
      ASSERT_TRUE(gradients(of_loss(loss_of(i, DType::bf16), parameters)) == expected.at(i));
  });
}

TEST_F(OneModel, IsTrainedByShardsThatThreadsComputeAndOneSteps) {
  // Each thread's share goes into its own sum and the sums are added in order, so the bits are those of a
  // loop.
  const auto train = [&](bool on_threads) {
    manual_seed(5);
    nn::Sequential model{nn::make<nn::Linear>(kFeatures, 64), nn::make<nn::Tanh>(),
                         nn::make<nn::Linear>(64, 4)};
    optim::SGD sgd(model.parameters(), {.lr = 0.05, .momentum = 0.9});
    const std::vector<Tensor> parameters = model.parameters();
    for (int step = 0; step < times(60); ++step) {
      std::array<std::vector<Tensor>, kThreads> shares;
      const auto share = [&](int i) {
        const amp::Autocast autocast(Device::cpu(), DType::bf16);
        const Tensor y = model.forward(input(step * kThreads + i));
        shares.at(i) = of_loss(mean(y * y), parameters);
      };
      if (on_threads) {
        run_together(kThreads, share);
      } else {
        for (int i = 0; i < kThreads; ++i) share(i);
      }
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        Tensor sum_of_shares = shares[0][p];
        for (std::size_t i = 1; i < kThreads; ++i) sum_of_shares = sum_of_shares + shares.at(i)[p];
        parameters[p].set_grad(sum_of_shares);
      }
      sgd.step();
    }
    return gradients({model.parameters()[0].detach(), model.parameters()[2].detach()});
  };
  EXPECT_TRUE(train(false) == train(true));
}

TEST_F(OneModel, IsReadByStateDictsPrintsAndClonesWhileOthersUseIt) {
  const std::string text = to_string(net);
  const double expected = loss_of(0, DType::bf16).item();
  run_together({[&] {
                  for (int turn = 0; turn < times(200); ++turn) {
                    const NoGrad no_grad;
                    ASSERT_EQ(loss_of(0, DType::bf16).item(), expected);
                  }
                },
                [&] {
                  for (int turn = 0; turn < times(200); ++turn) ASSERT_EQ(to_string(net), text);
                },
                [&] {
                  for (int turn = 0; turn < times(200); ++turn) {
                    for (const auto& [name, tensor] : net.state_dict()) ASSERT_GT(tensor.numel(), 0) << name;
                  }
                }});
}

TEST(Tensors, AreMadeOnOneThreadAndEndOnAnother) {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Tensor> queue;
  const int count = times(3000);
  double total = 0;
  run_together({[&] {
                  for (int i = 0; i < count; ++i) {
                    Tensor loss = sum(full({1 + i % 2000}, 2.0, {.requires_grad = true}) * 3.0);
                    std::unique_lock lock(mutex);
                    changed.wait(lock, [&] { return queue.size() < 16; });
                    queue.push_back(std::move(loss));
                    changed.notify_all();
                  }
                },
                [&] {
                  for (int i = 0; i < count; ++i) {
                    std::unique_lock lock(mutex);
                    changed.wait(lock, [&] { return !queue.empty(); });
                    const Tensor loss = std::move(queue.front());
                    queue.pop_front();
                    changed.notify_all();
                    lock.unlock();
                    loss.backward();
                    total += loss.item();
                  }
                }});
  double expected = 0;
  for (int i = 0; i < count; ++i) expected += 6.0 * (1 + i % 2000);
  EXPECT_EQ(total, expected);
}

TEST(Tensors, RandomNumbersOfOneGeneratorAreEachHandedOutOnce) {
  Generator generator(3);
  constexpr std::int64_t kNumbers = 1000;
  const int draws = times(200);
  std::vector<std::vector<float>> drawn(static_cast<std::size_t>(kThreads) * static_cast<std::size_t>(draws));
  run_together(kThreads, [&](int thread) {
    for (int i = 0; i < draws; ++i)
      drawn[static_cast<std::size_t>(thread * draws + i)] =
          randn({kNumbers}, {}, generator).to_vector<float>();
  });
  Generator again(3);
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    expected.push_back(randn({kNumbers}, {}, again).to_vector<float>());
  std::sort(drawn.begin(), drawn.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_TRUE(drawn == expected) << "in some order";
}

TEST(Tensors, ObserversOfAThreadSeeItsOpsOnly) {
  run_together(kThreads, [](int thread) {
    for (int turn = 0; turn < times(100); ++turn) {
      const amp::Trace trace;
      const amp::PolicyOverride override_one("softmax", Category::lower_precision);
      const amp::Autocast autocast(Device::cpu(), DType::bf16);
      for (int i = 0; i <= thread; ++i) static_cast<void>(softmax(ones({4, 4}), -1));
      std::int64_t calls = 0;
      for (const amp::TraceRow& row : trace.report().rows) calls += row.op == "softmax" ? row.calls : 0;
      ASSERT_EQ(calls, thread + 1);
    }
  });
}

}  // namespace
}  // namespace mezzo
