// What the adviser says of steps whose cause is known: its order on made-up measurements, and what it finds
// in real runs, of which only the 20 ms of a loader are a time that counts.
#include "mezzo/profile/advise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/profile/advise/measurements.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::amp {
namespace {

using detail::Measurements;

// --- the order, on made-up measurements of 10 steps of 10 ms each

profile::OpRow op(const char* name, const char* dtype, double ms_a_step, std::int64_t calls = 20,
                  std::int64_t flop = 0) {
  profile::OpRow row;
  row.op = name;
  row.phase = "forward";
  row.dtype = dtype;
  row.calls = 10 * calls;
  row.seconds = ms_a_step * 1e-2;
  row.flop = flop;
  return row;
}

profile::Report report(std::vector<profile::OpRow> ops) {
  profile::Report result;
  result.steps = 10;
  result.seconds = 0.1;
  result.ops = std::move(ops);
  return result;
}

/// Products have 8 of 10 ms, and autocast is as fast as f32.
Measurements plain() {
  Measurements m;
  m.f32_seconds = m.seconds = 10e-3;
  m.call_seconds = 1e-6;
  m.f32 = report({op("linear", "f32", 8, 20, 1000), op("gelu", "f32", 1)});
  m.autocast =
      report({op("linear", "bf16", 7, 20, 1000), op("gelu", "bf16", 1), op("to_dtype", "f32 -> bf16", 1)});
  m.watched.device = Device::cpu();
  m.watched.dtype = DType::bf16;
  m.watched.casts = 20;
  m.watched.bytes = 1000;
  return m;
}

detail::Trial trial(AdviceKind kind, double before_ms, double after_ms, bool is_above_noise = true) {
  detail::Trial trial{.kind = kind, .what = "what", .write = "that"};
  trial.before = before_ms * 1e-3;
  trial.after = after_ms * 1e-3;
  trial.is_above_noise = is_above_noise;
  return trial;
}

AdviceKind first(Measurements m) { return judge(std::move(m)).advice.at(0).kind; }

TEST(AdviseJudge, HasNothingToSayOfAStepWithoutACause) {
  const Advisory advisory = judge(plain());
  EXPECT_TRUE(advisory.advice.empty()) << advisory;
  EXPECT_NE(to_string(advisory).find("Nothing to gain here."), std::string::npos);
}

TEST(AdviseJudge, NamesTheCauseFirst) {
  Measurements loader = plain();
  loader.autocast.phases = {{.phase = "loader", .calls = 10, .seconds = 0.06}};
  loader.trials = {trial(AdviceKind::islands, 10, 8)};
  EXPECT_EQ(first(loader), AdviceKind::loader);
  EXPECT_NEAR(*judge(loader).advice[0].gain, 10.0 / 4, 1e-9);
  EXPECT_FALSE(judge(loader).advice[0].tried);

  Measurements program = plain();
  program.autocast.phases = {{.phase = "other", .seconds = 0.05}};
  EXPECT_EQ(first(program), AdviceKind::program);

  Measurements reads = plain();
  reads.device = Device::cuda();
  reads.autocast.waits = {{.call = "item", .place = "the step", .calls = 10, .seconds = 0.04}};
  EXPECT_EQ(first(reads), AdviceKind::host_reads);
  EXPECT_NE(judge(reads).advice[0].text.find("item in the step 1.0 times"), std::string::npos);

  Measurements muon = plain();
  profile::OpRow update = op("mul", "f32", 3, 50);
  update.phase = "step";
  muon.autocast.ops.push_back(update);
  EXPECT_EQ(first(muon), AdviceKind::optimizer);
  EXPECT_NE(judge(muon).advice[0].text.find(" ops of its own in a step"), std::string::npos);

  Measurements elementwise = plain();
  elementwise.f32 = report({op("linear", "f32", 2, 20, 1000), op("exp", "f32", 8)});
  elementwise.autocast = report({op("linear", "bf16", 1, 20, 1000), op("exp", "f32", 9)});
  EXPECT_EQ(first(elementwise), AdviceKind::bound);
  EXPECT_NEAR(*judge(elementwise).advice[0].gain, 10.0 / 8, 1e-9);
  EXPECT_NE(judge(elementwise).advice[0].text.find("exp in forward 90 %"), std::string::npos);

  Measurements images = plain();
  images.trials = {trial(AdviceKind::islands, 10, 9.5), trial(AdviceKind::memory_format, 10, 8)};
  EXPECT_EQ(first(images), AdviceKind::memory_format);
  EXPECT_EQ(judge(images).advice.at(1).kind, AdviceKind::islands);
}

TEST(AdviseJudge, NamesSmallOpsWithTheBatchAtWhichAutocastPays) {
  Measurements m = plain();
  m.seconds = 11e-3;
  m.call_seconds = 100e-6;  // 20 calls of 0.35 ms are small, and those of 0.05 ms more so
  m.samples = 32;
  m.batches = {{64, 2, 1.0, 1.1}, {128, 4, 2.0, 1.6}};
  const Advisory advisory = judge(m);
  ASSERT_EQ(advisory.advice.at(0).kind, AdviceKind::small_ops);
  EXPECT_NE(
      advisory.advice[0].text.find("autocast begins to pay at a batch of 128, 4 times this one: 1.25 x"),
      std::string::npos)
      << advisory;
  m.call_seconds = 1e-6;
  EXPECT_EQ(first(m), AdviceKind::batch);
  m.batches.pop_back();
  EXPECT_TRUE(judge(m).advice.empty());
  EXPECT_NE(judge(m).in_vain.at(0).find("does not pay at a batch of 64"), std::string::npos);
}

TEST(AdviseJudge, CountsWhatPaddingBringsTheWholeStep) {
  Measurements m = plain();
  detail::Trial padding = trial(AdviceKind::sizes, 2, 1);
  padding.per_step = 5;  // 5 of 10 ms
  m.trials = {padding};
  ASSERT_EQ(first(m), AdviceKind::sizes);
  EXPECT_NEAR(*judge(m).advice[0].gain, 2, 1e-9);
  EXPECT_TRUE(judge(m).advice[0].tried);
  m.trials[0].after = 1.99e-3;  // a two-hundredth of the step
  EXPECT_TRUE(judge(m).advice.empty());
  EXPECT_EQ(judge(m).in_vain.size(), 1U);
}

TEST(AdviseJudge, ProposesNothingWithinTheNoise) {
  Measurements m = plain();
  m.trials = {trial(AdviceKind::islands, 10, 8, false)};
  EXPECT_TRUE(judge(m).advice.empty());
  EXPECT_EQ(judge(m).in_vain.size(), 1U);
}

TEST(AdviseJudge, PutsAMissingRegionAndMissingInstructionsBeforeOtherCauses) {
  Measurements m = plain();
  m.trials = {trial(AdviceKind::islands, 10, 4)};
  m.has_instructions = false;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    m.dtype = dtype;
    EXPECT_EQ(first(m), AdviceKind::hardware);
  }
  Measurements waits = m;
  waits.autocast.phases = {{.phase = "loader", .calls = 10, .seconds = 0.09}};
  EXPECT_EQ(first(waits), AdviceKind::loader);
  m.f32_seconds = 20e-3;  // it is faster all the same
  EXPECT_EQ(first(m), AdviceKind::islands);
  m.watched.dtype = std::nullopt;
  EXPECT_EQ(first(m), AdviceKind::no_region);
}

TEST(AdviseJudge, NamesWeightsThatAreCastInEachStep) {
  Measurements m = plain();
  m.watched.weights = {{.place = "Linear 'fc'", .casts = 4, .bytes = 900}};
  const Advisory advisory = judge(m);  // 0.9 of the casts' 1 ms
  ASSERT_EQ(advisory.advice.at(0).kind, AdviceKind::weight_casts);
  EXPECT_NEAR(*advisory.advice[0].gain, 10 / 9.1, 1e-9);
  EXPECT_NE(advisory.advice[0].text.find("cache_enabled"), std::string::npos);
}

TEST(AdviseJudge, WritesRulesForGradientsThatABf16LayerKeeps) {
  Measurements m = plain();
  m.scale = 1024;
  m.gradients = {{.path = "head", .share = 0.8, .share_in_bf16 = 0},
                 {.path = "body", .share = 0.2, .share_in_bf16 = 0.2}};
  const Advisory advisory = judge(m);
  ASSERT_EQ(advisory.advice.at(0).kind, AdviceKind::gradients);
  EXPECT_FALSE(advisory.advice[0].gain.has_value());
  EXPECT_NE(advisory.advice[0].text.find("rules(net, {{\"head\", DType::bf16}})"), std::string::npos)
      << advisory;
}

// --- real runs, of what they contain

constexpr AdviseOptions kFew{.warmup = 1, .steps = 2};

const Advice* find(const Advisory& advisory, AdviceKind kind) {
  for (const Advice& advice : advisory.advice) {
    if (advice.kind == kind) return &advice;
  }
  return nullptr;
}
bool is_named(const Advisory& advisory, std::string_view what) {
  return to_string(advisory).find(what) != std::string::npos;
}

void expect_consistent(const Advisory& advisory) {
  EXPECT_GT(advisory.f32_seconds, 0);
  EXPECT_GT(advisory.seconds, 0);
  EXPECT_EQ(advisory.f32.steps, kFew.steps);
  EXPECT_EQ(advisory.autocast.steps, kFew.steps);
  for (const Advice& advice : advisory.advice) {
    EXPECT_FALSE(advice.text.empty());
    EXPECT_GE(advice.gain.value_or(1), 1) << advice.text;
  }
  std::size_t begin = 0;
  const std::string text = to_string(advisory) + "\n";
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 110U) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

nn::Sequential mlp(std::int64_t in, std::int64_t hidden) {
  return nn::Sequential(nn::Linear(in, hidden), nn::ReLU(), nn::Linear(hidden, 16));
}

TEST(Advise, LeavesModelAndGeneratorAsTheyAre) {
  nn::Sequential net(nn::Linear(16, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 4));
  const Tensor x = randn({8, 16});
  net(x).sum().backward();
  std::vector<std::vector<float>> before;
  for (const auto& [name, tensor] : net.state_dict())
    before.push_back(tensor.to(DType::f32).to_vector<float>());
  const auto random = default_generator().state();
  const Tensor gradient = net.parameters()[0].grad();
  const auto values = gradient.to_vector<float>();
  const Advisory advisory = advise(net, x, kFew);
  expect_consistent(advisory);
  std::size_t i = 0;
  for (const auto& [name, tensor] : net.state_dict())
    EXPECT_EQ(tensor.to(DType::f32).to_vector<float>(), before[i++]) << name;
  EXPECT_EQ(net.parameters()[0].grad().to_vector<float>(), values);
  EXPECT_EQ(default_generator().state().offset, random.offset);
  EXPECT_EQ(advisory.dtype, DType::bf16);
  EXPECT_TRUE(is_named(advisory, "a call costs"));
}

TEST(Advise, TriesSizesThatAreNoMultiples) {
  nn::Sequential odd = mlp(64, 509), even = mlp(64, 512);
  const Advisory advisory = advise(odd, randn({32, 64}), kFew);
  EXPECT_TRUE(is_named(advisory, "509 as"));
  EXPECT_TRUE(is_named(advisory, "Linear '0'"));
  EXPECT_FALSE(is_named(advise(even, randn({32, 64}), kFew), "_features"));
  AdviseOptions untried = kFew;
  untried.trials = false;
  const Advisory bounds = advise(odd, randn({32, 64}), untried);
  EXPECT_TRUE(bounds.in_vain.empty());
  EXPECT_TRUE(
      std::none_of(bounds.advice.begin(), bounds.advice.end(), [](const Advice& a) { return a.tried; }));
  EXPECT_TRUE(std::any_of(bounds.untried.begin(), bounds.untried.end(),
                          [](const std::string& text) { return text.find("509") != std::string::npos; }));
}

TEST(Advise, NamesNormsThatStayInF32) {
  nn::Sequential net(nn::Linear(32, 64), nn::LayerNorm({64}), nn::Linear(64, 32));
  const Advisory advisory = advise(net, randn({16, 32}), kFew);
  expect_consistent(advisory);
  EXPECT_TRUE(is_named(advisory, "layer_norm stays in f32"));
  EXPECT_TRUE(is_named(advisory, "LayerNorm '1'"));
}

TEST(Advise, NamesOpsThatStayInF32) {
  struct Net final : nn::Layer {
    nn::Child<nn::Linear> a{*this, "a", nn::Linear(32, 32)}, b{*this, "b", nn::Linear(32, 32)};
    Tensor forward(const Tensor& x) override { return b(softmax(a(x), 1)); }
  };
  Net net;
  EXPECT_TRUE(is_named(advise(net, randn({16, 32}), kFew), "softmax stays in f32"));
}

TEST(Advise, NamesWeightsOfAParametrization) {
  nn::Sequential net(nn::weight_norm(nn::Linear(32, 64)), nn::ReLU(), nn::Linear(64, 16));
  const Advisory advisory = advise(net, randn({16, 32}), kFew);
  EXPECT_TRUE(is_named(advisory, "weights that are not computed in every step"));
}

TEST(Advise, TriesChannelsLastImages) {
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::ReLU(), nn::Conv2d(8, 8, 3, {.padding = 1}));
  const Tensor images = randn({2, 3, 8, 8});
  EXPECT_TRUE(is_named(advise(net, images, kFew), "channels-last images"));
  EXPECT_FALSE(is_named(advise(net, images.to(MemoryFormat::channels_last), kFew), "channels-last"));
}

TEST(Advise, SaysThatF16OnACpuIsStorage) {
  nn::Sequential net = mlp(64, 64);
  AdviseOptions f16 = kFew;
  f16.dtype = DType::f16;
  const Advisory advisory = advise(net, randn({32, 64}), f16);
  expect_consistent(advisory);
  EXPECT_EQ(advisory.dtype, DType::f16);
  EXPECT_TRUE(is_named(advisory, "bf16 in place of f16"));
}

TEST(Advise, FindsGradientsThatF16Loses) {
  nn::Sequential net(nn::Linear(16, 16), nn::Linear(16, 4));
  AdviseOptions f16 = kFew;
  f16.dtype = DType::f16;
  const auto tiny = [](const Tensor& y, const Tensor& /*target*/) { return y.to(DType::f32).sum() * 1e-13; };
  const Tensor x = randn({8, 16});
  const Advisory advisory = advise(net, x, x, tiny, f16);
  const Advice* const advice = find(advisory, AdviceKind::gradients);
  ASSERT_NE(advice, nullptr) << advisory;
  EXPECT_NE(advice->text.find("100 % of 0"), std::string::npos) << advice->text;
  EXPECT_EQ(find(advise(net, x, f16), AdviceKind::gradients), nullptr);
}

TEST(Advise, TakesLosses) {
  nn::Sequential net = mlp(16, 16);
  const Tensor x = randn({4, 16}), classes = randint(0, 16, {4});
  const auto has = [](const Advisory& advisory, std::string_view op) {
    return std::any_of(advisory.f32.ops.begin(), advisory.f32.ops.end(),
                       [&](const auto& row) { return row.op == op; });
  };
  EXPECT_TRUE(has(advise(net, x, x, mse_loss, kFew), "mse_loss"));
  EXPECT_TRUE(has(advise(net, x, classes, cross_entropy, kFew), "cross_entropy"));
  EXPECT_TRUE(has(advise(net, x, classes, nn::CrossEntropyLoss(), kFew), "cross_entropy"));
  EXPECT_TRUE(has(advise(
                      net, x, x, [](const Tensor& y, const Tensor& t) { return l1_loss(y, t); }, kFew),
                  "l1_loss"));
}

TEST(Advise, SaysWhatIsKeptForBackward) {
  nn::Sequential net = mlp(64, 64);
  const Advisory advisory = advise(net, randn({32, 64}), kFew);
  ASSERT_NE(find(advisory, AdviceKind::memory), nullptr);
  EXPECT_EQ(advisory.advice.back().kind, AdviceKind::memory);
  EXPECT_LT(advisory.autocast.modules.at(0).kept_bytes, advisory.f32.modules.at(0).kept_bytes);
}

// --- functions

TEST(Advise, TellsAFunctionWhetherToCast) {
  nn::Sequential net = mlp(32, 32);
  const Tensor x = randn({16, 32});
  int with = 0, without = 0;
  const Advisory advisory = advise(
      [&](bool autocast) {
        ++(autocast ? with : without);
        const Autocast region(Device::cpu(), DType::bf16, {.enabled = autocast});
        const Tensor loss = net(x).to(DType::f32).sum();
        EXPECT_EQ(loss.item() > 1e30, false);
        net.zero_grad();
        loss.backward();
      },
      kFew);
  expect_consistent(advisory);
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
  const Advice* const reads = find(advisory, AdviceKind::host_reads);
  ASSERT_NE(reads, nullptr) << advisory;
  EXPECT_NE(reads->text.find("item in the step 1.0 times"), std::string::npos) << reads->text;
  EXPECT_TRUE(is_named(advisory, "other batches"));
}

TEST(Advise, RunsAFunctionWithItsOwnRegionInF32) {
  nn::Sequential net = mlp(32, 32);
  const Tensor x = randn({16, 32});
  std::vector<DType> dtypes;
  const Advisory advisory = advise(
      [&] {
        const Autocast region(Device::cpu(), DType::bf16, {.cache_enabled = false});
        const Tensor y = net(x);
        dtypes.push_back(y.dtype());
        y.to(DType::f32).sum().backward();
      },
      kFew);
  EXPECT_EQ(advisory.dtype, DType::bf16);
  EXPECT_NE(std::find(dtypes.begin(), dtypes.end(), DType::f32), dtypes.end());
  EXPECT_NE(std::find(dtypes.begin(), dtypes.end(), DType::bf16), dtypes.end());
  for (const PolicyRow& row : policy()) EXPECT_FALSE(row.overridden) << row.op;
  const Advisory none = advise([&] { net(x).sum().backward(); }, kFew);
  ASSERT_FALSE(none.advice.empty());
  EXPECT_EQ(none.advice[0].kind, AdviceKind::no_region);
}

struct SlowData {
  [[nodiscard]] std::int64_t size() const { return 1000; }
  [[nodiscard]] data::Example get(std::int64_t index) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return {full({32}, static_cast<double>(index)), full({}, 1.0)};
  }
};

TEST(Advise, NamesALoaderFirst) {
  data::DataLoader loader(SlowData{}, {.batch_size = 1});
  auto batch = loader.begin();
  nn::Sequential net = mlp(32, 32);
  const Advisory advisory = advise(
      [&](bool autocast) {
        ++batch;
        const Autocast region(Device::cpu(), DType::bf16, {.enabled = autocast});
        net(batch->data).sum().backward();
      },
      {.warmup = 1, .steps = 1});
  ASSERT_FALSE(advisory.advice.empty());
  EXPECT_EQ(advisory.advice[0].kind, AdviceKind::loader) << advisory;
  EXPECT_GE(advisory.seconds, 0.02);
}

// --- bad use

TEST(Advise, RefusesWhatItCannotRun) {
  nn::Sequential net = mlp(16, 16);
  const Tensor x = randn({4, 16});
  const auto refused = [](const auto& f) { return test::message_of<Error>(f); };
  EXPECT_EQ(refused([&] { static_cast<void>(advise(net, Tensor())); }),
            "advise: expected a batch, got an undefined tensor; pass the model's input");
  EXPECT_EQ(refused([&] { static_cast<void>(advise(net, x, {.dtype = DType::f32})); }),
            "advise: expected dtype f16 or bf16, got f32; name one, or leave it to the device");
  EXPECT_EQ(refused([&] { static_cast<void>(advise(net, x, {.steps = 0})); }),
            "advise: expected at least 1 step, got 0; leave .steps = 5");
  EXPECT_EQ(refused([&] { static_cast<void>(advise(net, x, {.warmup = -1})); }),
            "advise: expected a warmup of at least 0, got -1; leave .warmup = 2");
  EXPECT_EQ(refused([&] { static_cast<void>(advise(mezzo::detail::Function<void()>())); }),
            "advise: expected a function that makes a step, got an empty one; pass step or step(autocast)");
  EXPECT_EQ(refused([&] { static_cast<void>(advise(mezzo::detail::Function<void(bool)>())); }),
            "advise: expected a function that makes a step, got an empty one; pass step or step(autocast)");
  EXPECT_EQ(refused([&] { static_cast<void>(advise(net, x, Tensor(), nn::MSELoss())); }),
            "advise: expected a target, got an undefined tensor; pass what the loss compares with");
  profile::Profiler profiler({.warmup = 0});
  const auto step = profiler.step();
  EXPECT_EQ(
      refused([&] { static_cast<void>(advise(net, x, kFew)); }),
      "advise: expected no profile::Profiler that records, got one that does; call it before or after the "
      "profiled steps");
}

TEST(Advise, SaysThatAModelHasNothingToRunIn16Bits) {
  nn::Sequential net(nn::ReLU(), nn::LayerNorm({16}));
  const Advisory advisory = advise(net, randn({4, 16}), kFew);
  ASSERT_FALSE(advisory.advice.empty());
  EXPECT_EQ(advisory.advice[0].kind, AdviceKind::no_region);
}

}  // namespace
}  // namespace mezzo::amp
