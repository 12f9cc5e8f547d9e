// State dicts as they come from JSON: whoever refuses one is as before, and whoever takes one gives the same
// when it is loaded again, and goes on working. The first byte says who it is for.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/loader.h"
#include "mezzo/io/json.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"
#include "mezzo/tests/support/algorithms.h"
#include "mezzo/train/time.h"

namespace mezzo::fuzz {

namespace {

using optim::Optimizer;

/// Somebody with a state.
struct Holder {
  virtual ~Holder() = default;
  [[nodiscard]] virtual Value state() const = 0;
  virtual void load(const Value& state) = 0;
  /// One step of what it is for.
  virtual void work() = 0;
};

/// Two groups, a step behind them, so that there are buffers.
struct Trained {
  explicit Trained(const optim::Algorithm& algorithm) {
    first.requires_grad_();
    second.requires_grad_();
    optimizer = algorithm.make_groups({optim::unnamed({first}), optim::unnamed({second})}, Value::Map{});
    step();
  }
  void step() const {
    optimizer->zero_grad();
    (sum(first * first) + sum(second)).backward();
    optimizer->step();
  }

  Tensor first = ones({3}), second = ones({2, 2});
  std::unique_ptr<Optimizer> optimizer;
};

const std::vector<optim::Algorithm>& all_algorithms() {
  static const std::vector<optim::Algorithm> all = optim::algorithms();
  return all;
}

struct ScalerHolder final : Holder {
  [[nodiscard]] Value state() const override { return scaler.state_dict(); }
  void load(const Value& state) override { scaler.load_state_dict(state); }
  void work() override {
    const Trained trained(all_algorithms().front());
    trained.optimizer->zero_grad();
    scaler.scale(sum(trained.first * trained.first)).backward();
    scaler.step(*trained.optimizer);
    scaler.update();
    static_cast<void>(scaler.report());
  }
  amp::GradScaler scaler;
};

/// A loader at its second batch, over samples that are counted or not.
struct LoaderHolder final : Holder {
  explicit LoaderHolder(bool counted) {
    if (counted) {
      loader.emplace(data::TensorDataset(arange(6)),
                     data::DataLoaderOptions{.batch_size = 2, .shuffle = true});
    } else {
      const auto six = [](std::uint64_t) {
        return [i = 0]() mutable { return i++ < 6 ? std::optional(ones({})) : std::nullopt; };
      };
      loader.emplace(data::IterableDataset<Tensor>(six), data::DataLoaderOptions{.batch_size = 2});
    }
    work();
  }
  [[nodiscard]] Value state() const override { return loader->state_dict(); }
  void load(const Value& state) override { loader->load_state_dict(state); }
  void work() override {
    for (const Tensor& batch : *loader) {
      require(batch.numel() <= 2, "a batch has the samples of a batch");
      break;
    }
  }
  std::optional<data::DataLoader<Tensor>> loader;
};

struct TimeHolder final : Holder {
  [[nodiscard]] Value state() const override { return time.state_dict(); }
  void load(const Value& state) override { time.load_state_dict(state); }
  void work() override {
    time.add_batch(2, 3);
    time.end_epoch();
    time.end_iteration();
  }
  train::Timestamp time;
};

struct LbfgsHolder final : Holder {
  LbfgsHolder() { work(); }
  [[nodiscard]] Value state() const override { return optimizer.state_dict().options; }
  void load(const Value& state) override {
    optimizer.load_state_dict({.options = state, .tensors = optimizer.state_dict().tensors});
  }
  void work() override {
    static_cast<void>(optimizer.step([this] {
      optimizer.zero_grad();
      const Tensor loss = sum(weight * weight);
      loss.backward();
      return loss;
    }));
  }
  Tensor weight = ones({3}).requires_grad_();
  optim::LBFGS optimizer{std::vector<Tensor>{weight}, {.max_iter = 2}};
};

struct OptimizerHolder final : Holder {
  explicit OptimizerHolder(std::size_t which) : trained(all_algorithms()[which]) {}
  [[nodiscard]] Value state() const override { return trained.optimizer->state_dict().options; }
  void load(const Value& state) override {
    trained.optimizer->load_state_dict(
        {.options = state, .tensors = trained.optimizer->state_dict().tensors});
  }
  void work() override { trained.step(); }
  Trained trained;
};

template <class Scheduler>
struct SchedulerHolder final : Holder {
  explicit SchedulerHolder(const typename Scheduler::Options& options)
      : scheduler(*trained.optimizer, options) {}
  [[nodiscard]] Value state() const override { return scheduler.state_dict(); }
  void load(const Value& state) override { scheduler.load_state_dict(state); }
  void work() override {
    trained.step();
    if constexpr (std::is_same_v<Scheduler, optim::ReduceLROnPlateau>) {
      scheduler.step(1.0);
    } else {
      scheduler.step();
    }
  }
  Trained trained{all_algorithms().front()};
  Scheduler scheduler;
};

using Maker = std::function<std::unique_ptr<Holder>()>;

template <class Scheduler>
Maker scheduler_maker(typename Scheduler::Options options) {
  return [options] { return std::make_unique<SchedulerHolder<Scheduler>>(options); };
}

/// Numbers of makers stand in the stored corpus: new ones come last.
std::vector<Maker> makers() {
  using namespace optim;
  std::vector<Maker> all{
      [] { return std::make_unique<ScalerHolder>(); },
      scheduler_maker<StepLR>({.step_size = 2}),
      scheduler_maker<MultiStepLR>({.milestones = {2, 4}}),
      scheduler_maker<ExponentialLR>({.gamma = 0.5}),
      scheduler_maker<CosineAnnealingLR>({.T_max = 5}),
      scheduler_maker<CosineAnnealingWarmRestarts>({.T_0 = 3, .T_mult = 2}),
      scheduler_maker<LinearLR>({}),
      scheduler_maker<PolynomialLR>({}),
      scheduler_maker<LambdaLR>(
          {.lr_lambda = [](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }}),
      scheduler_maker<ReduceLROnPlateau>({})};
  for (std::size_t i = 0; i < all_algorithms().size(); ++i)
    all.push_back([i] { return std::make_unique<OptimizerHolder>(i); });
  const Schedule warmup = LinearWarmupOptions{.warmup_steps = 2}, steps = StepLROptions{.step_size = 2};
  for (const Maker& maker :
       {scheduler_maker<ConstantLR>({}), scheduler_maker<LinearWarmup>({.warmup_steps = 3}),
        scheduler_maker<WarmupCosine>({.warmup_steps = 2, .total_steps = 6}),
        scheduler_maker<WarmupStableDecay>({.warmup_steps = 2, .stable_steps = 2, .decay_steps = 3}),
        scheduler_maker<OneCycleLR>({.max_lr = 0.5, .total_steps = 5, .cycle_momentum = false}),
        scheduler_maker<ChainedScheduler>({.schedulers = {warmup, steps}}),
        scheduler_maker<SequentialLR>({.schedulers = {warmup, steps}, .milestones = {3}})})
    all.push_back(maker);
  for (const bool counted : {true, false})
    all.push_back([counted] { return std::make_unique<LoaderHolder>(counted); });
  all.push_back([] { return std::make_unique<TimeHolder>(); });
  all.push_back([] { return std::make_unique<LbfgsHolder>(); });
  return all;
}

}  // namespace

int fuzz_state(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Maker> all = makers();
  if (size == 0) return 0;
  const Maker& make = all[static_cast<std::size_t>(data[0]) % all.size()];
  Value given;
  try {
    given = io::parse_json({reinterpret_cast<const char*>(data) + 1, size - 1}, {.max_values = 10'000});
  } catch (const IoError&) {
    return 0;
  }
  const std::unique_ptr<Holder> holder = make();
  const Value before = holder->state();
  try {
    holder->load(given);
  } catch (const Error&) {
    require(holder->state() == before, "who refuses a state is as before");
    holder->work();
    return 0;
  }
  const Value after = holder->state();
  const std::unique_ptr<Holder> other = make();
  try {
    other->load(after);
  } catch (const Error& error) {
    require(false, std::string("a state that was taken is taken again: ") + error.what());
  }
  require(other->state() == after, "a state that was taken is given again");
  try {
    holder->work();
  } catch (const Error&) {  // a schedule at its end
  }
  return 0;
}

}  // namespace mezzo::fuzz
