// What a profiler says of a training whose numbers are known: calls, bytes, FLOP, places, phases, waits.
#include "mezzo/profile/profiler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/core/activity.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/profile/recorder.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::profile {
namespace {

struct Net final : nn::Layer {
  nn::Child<nn::Linear> fc1{*this, "fc1", nn::Linear(48, 64)};
  nn::Child<nn::Linear> fc2{*this, "fc2", nn::Linear(64, 10)};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

/// A training of a Net under a scaler.
struct Training {
  void step() {
    optimizer.zero_grad();
    Tensor loss;
    {
      const amp::Autocast region(Device::cpu(), DType::bf16);
      loss = mse_loss(net(x), y);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    static_cast<void>(optim::clip_grad_norm_(net.parameters(), 1.0));
    scaler.step(optimizer);
    scaler.update();
  }

  std::uint64_t seed = (manual_seed(1), 1);
  Net net;
  Tensor x = randn({32, 48}), y = randn({32, 10});
  optim::AdamW optimizer{net, {.lr = 1e-3}};
  amp::GradScaler scaler;
};

template <class F>
Report profiled(ProfilerOptions options, F step) {
  Profiler profiler(options);
  while (!profiler.is_done()) {
    const auto open = profiler.step();
    step();
  }
  return profiler.report();
}

const OpRow* find(const Report& report, std::string_view op, std::string_view phase) {
  for (const OpRow& row : report.ops) {
    if (row.op == op && row.phase == phase) return &row;
  }
  return nullptr;
}
const PhaseRow* find_phase(const Report& report, std::string_view phase) {
  for (const PhaseRow& row : report.phases) {
    if (row.phase == phase) return &row;
  }
  return nullptr;
}
const ModuleRow* find_module(const Report& report, std::string_view path) {
  for (const ModuleRow& row : report.modules) {
    if (row.path == path) return &row;
  }
  return nullptr;
}
double sum_of_phases(const Report& report) {
  double sum = 0;
  for (const PhaseRow& row : report.phases) sum += row.seconds;
  return sum;
}

TEST(Profiler, CountsCallsBytesAndFlopOfOps) {
  Training training;
  const Report report =
      profiled({.model = training.net, .warmup = 1, .steps = 3, .rates = false}, [&] { training.step(); });
  EXPECT_EQ(report.steps, 3);
  const OpRow* const forward = find(report, "linear", "forward");
  ASSERT_NE(forward, nullptr);
  EXPECT_EQ(forward->calls, 6);
  EXPECT_EQ(forward->dtype, "bf16");
  EXPECT_EQ(forward->flop, 3 * 2 * 32 * (48 * 64 + 64 * 10));
  const std::int64_t elements = (32 * 48 + 64 * 48 + 64 + 32 * 64) + (32 * 64 + 10 * 64 + 10 + 32 * 10);
  EXPECT_EQ(forward->bytes, 3 * 2 * elements);
  // The gradient of the second layer's input by matmul, and of both weights: as many products as forward's.
  std::int64_t flop = 0;
  for (const OpRow& row : report.ops) flop += row.phase == "backward" ? row.flop : 0;
  EXPECT_EQ(flop, 3 * 2 * 32 * (48 * 64 + 2 * 64 * 10));
  const OpRow* const cast = find(report, "to_dtype", "forward");
  ASSERT_NE(cast, nullptr);
  EXPECT_EQ(cast->dtype, "f32 -> bf16");
  double shares = 0;
  for (const OpRow& row : report.ops) {
    shares += row.share;
    if (!row.op.starts_with("(")) {
      EXPECT_GT(row.seconds, 0) << row.op;
    }
    EXPECT_EQ(row.seconds, row.host_seconds) << "on the CPU";
    EXPECT_FALSE(row.reached.has_value());
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  for (const char* const phase : {"step", "clip", "unscale", "update"}) {
    const OpRow* const kernels = find(report, "(" + std::string(phase) + ")", phase);
    ASSERT_NE(kernels, nullptr) << phase;
    EXPECT_EQ(kernels->calls, 3);
    EXPECT_LE(kernels->seconds, find_phase(report, phase)->seconds);
  }
}

TEST(Profiler, CountsNoBytesOfViews) {
  const Tensor x = randn({16, 32});
  const Report report = profiled({.warmup = 0, .steps = 2}, [&] {
    static_cast<void>(x.reshape({32, 16}));
    static_cast<void>(x.reshape({32, 16}).transpose(0, 1).contiguous());
  });
  EXPECT_EQ(find(report, "reshape", "forward")->bytes, 0);
  EXPECT_FALSE(find(report, "reshape", "forward")->reached.has_value());
  EXPECT_EQ(find(report, "clone", "forward")->bytes, 2 * 2 * 16 * 32 * 4);
}

TEST(Profiler, SaysHowMuchOfTheMachinesRateIsReached) {
  const Tensor a = randn({256, 256});
  const Report report = profiled({.warmup = 1, .steps = 3}, [&] { static_cast<void>(matmul(a, a)); });
  ASSERT_EQ(report.ops.size(), 1U);
  ASSERT_TRUE(report.ops[0].reached.has_value());
  EXPECT_GT(*report.ops[0].reached, 0.001);
  EXPECT_LT(*report.ops[0].reached, 50);  // of a machine that does other things, too
}

TEST(Profiler, PhasesAreTheTimeOfTheSteps) {
  Training training;
  const Report report =
      profiled({.model = training.net, .warmup = 2, .steps = 4, .rates = false}, [&] { training.step(); });
  EXPECT_NEAR(sum_of_phases(report), report.seconds, 0.05 * report.seconds);
  for (const char* const phase : {"backward", "unscale", "clip", "step", "update", "zero_grad"}) {
    const PhaseRow* const row = find_phase(report, phase);
    ASSERT_NE(row, nullptr) << phase;
    EXPECT_EQ(row->calls, 4) << phase;
    EXPECT_GT(row->seconds, 0) << phase;
    EXPECT_LT(row->seconds, report.seconds) << phase;
  }
  ASSERT_NE(find_phase(report, "forward"), nullptr);
  EXPECT_GT(find_phase(report, "forward")->seconds, 0);
  EXPECT_LE(report.shortest, report.seconds / 4);
  EXPECT_GE(report.longest, report.seconds / 4);
  // Ops of forward are a part of forward.
  double ops = 0;
  for (const OpRow& row : report.ops) ops += row.phase == "forward" ? row.seconds : 0;
  EXPECT_LE(ops, find_phase(report, "forward")->seconds);
}

TEST(Profiler, ModulesHaveTheirChildrensTime) {
  Training training;
  const Report report =
      profiled({.model = training.net, .warmup = 1, .steps = 5, .rates = false}, [&] { training.step(); });
  ASSERT_EQ(report.modules.size(), 3U);
  const ModuleRow* const model = find_module(report, "");
  const ModuleRow* const fc1 = find_module(report, "fc1");
  const ModuleRow* const fc2 = find_module(report, "fc2");
  ASSERT_TRUE(model != nullptr && fc1 != nullptr && fc2 != nullptr);
  EXPECT_EQ(fc1->type, "Linear");
  EXPECT_EQ(fc1->depth, 1);
  for (const ModuleRow* const row : {model, fc1, fc2}) {
    EXPECT_EQ(row->calls, 5);
    EXPECT_GT(row->forward_seconds, 0);
    EXPECT_GT(row->backward_seconds, 0);
  }
  EXPECT_GE(model->forward_seconds, fc1->forward_seconds + fc2->forward_seconds);
  EXPECT_GE(model->backward_seconds, fc1->backward_seconds + fc2->backward_seconds);
}

TEST(Profiler, SaysWhatModulesKeepForBackward) {
  Net net;
  const Tensor x = randn({32, 48});
  const Report report =
      profiled({.model = net, .warmup = 0, .steps = 2, .rates = false}, [&] { sum(net(x)).backward(); });
  // fc1 keeps its input, relu its result, which fc2 has for an input.
  EXPECT_EQ(find_module(report, "fc1")->kept_bytes, 32 * 48 * 4);
  EXPECT_EQ(find_module(report, "fc2")->kept_bytes, 0);
  EXPECT_EQ(find_module(report, "")->kept_bytes, 32 * 48 * 4 + 32 * 64 * 4);
  EXPECT_GT(report.peak_bytes, 0);
  EXPECT_FALSE(report.peak_place.empty());
}

TEST(Profiler, KnowsTheModuleOfAGradient) {
  Net net;
  net.fc1->requires_grad_(false);
  const Tensor x = randn({32, 48});
  const Report report =
      profiled({.model = net, .warmup = 0, .steps = 2, .rates = false}, [&] { sum(net(x)).backward(); });
  EXPECT_EQ(find_module(report, "fc1")->backward_seconds, 0);
  EXPECT_GT(find_module(report, "fc2")->backward_seconds, 0);
}

TEST(Profiler, CountsARecomputationInBackward) {
  nn::Sequential net(nn::Sequential(nn::Linear(16, 16), nn::Tanh(), nn::Linear(16, 16)), nn::Linear(16, 4));
  nn::checkpoint_layers(net, [](const nn::Module& module) { return module.path() == "0"; });
  const Tensor x = randn({8, 16}, {.requires_grad = true});
  const Report report =
      profiled({.model = net, .warmup = 0, .steps = 2, .rates = false}, [&] { sum(net(x)).backward(); });
  EXPECT_EQ(find_module(report, "0")->calls, 2);
  EXPECT_EQ(find_module(report, "0.0")->calls, 2);
  ASSERT_NE(find(report, "tanh", "backward"), nullptr) << "it is computed again";
  EXPECT_EQ(find(report, "tanh", "backward")->calls, 2);
  EXPECT_EQ(find(report, "tanh", "forward")->calls, 2);
}

TEST(Profiler, SplitsOpsByShapes) {
  Training training;
  const Report report =
      profiled({.model = training.net, .warmup = 1, .steps = 2, .shapes = true, .rates = false},
               [&] { training.step(); });
  std::vector<std::string> shapes;
  for (const OpRow& row : report.ops) {
    if (row.op == "linear") shapes.push_back(row.shapes);
  }
  std::sort(shapes.begin(), shapes.end());
  EXPECT_EQ(shapes, (std::vector<std::string>{"[32, 48] [64, 48] [64]", "[32, 64] [10, 64] [10]"}));
}

// --- waits, loaders, threads

TEST(Profiler, SaysWhereTheHostReads) {
  struct Reads final : nn::Layer {
    nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(4, 4)};
    Tensor forward(const Tensor& x) override {
      const Tensor y = fc(x);
      return sum(y).item<double>() > 1e9 ? x : y;
    }
  };
  Reads net;
  const Report report = profiled({.model = net, .warmup = 0, .steps = 3, .rates = false}, [&] {
    const Tensor y = net(randn({2, 4}));
    static_cast<void>(y.to_vector<float>());
    static_cast<void>(y.to_vector<float>());
  });
  ASSERT_EQ(report.waits.size(), 2U);
  EXPECT_EQ(report.waits[0].call, "to_vector");
  EXPECT_EQ(report.waits[0].place, "the step");
  EXPECT_EQ(report.waits[0].calls, 6);
  EXPECT_EQ(report.waits[1].call, "item");
  EXPECT_EQ(report.waits[1].place, "Reads");
  EXPECT_EQ(report.waits[1].calls, 3);
}

struct SlowData {
  [[nodiscard]] std::int64_t size() const { return 64; }
  [[nodiscard]] data::Example get(std::int64_t index) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return {full({4}, static_cast<double>(index)), full({}, 1.0)};
  }
};

TEST(Profiler, SeesTheLoaderBetweenSteps) {
  data::DataLoader loader(SlowData{}, {.batch_size = 4});
  Profiler profiler({.warmup = 1, .steps = 4, .rates = false});
  for (const auto& [x, y] : loader) {
    const auto step = profiler.step();
    static_cast<void>(sum(x));
  }
  const Report report = profiler.report();
  ASSERT_EQ(report.steps, 4);
  const PhaseRow* const row = find_phase(report, "loader");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->calls, 4);
  EXPECT_GE(row->seconds, 4 * 4 * 0.003);
  EXPECT_GT(row->seconds, 0.5 * report.seconds);
}

/// Of two workers each makes one sample of a pair: neither ends before both have begun.
struct PairedData {
  std::shared_ptr<std::array<std::atomic<bool>, 32>> begun =
      std::make_shared<std::array<std::atomic<bool>, 32>>();
  [[nodiscard]] std::int64_t size() const { return 32; }
  [[nodiscard]] data::Example get(std::int64_t index) const {
    const auto place = static_cast<std::size_t>(index);
    (*begun)[place] = true;
    while (!(*begun)[place ^ 1]) std::this_thread::yield();
    return {full({4}, static_cast<double>(index)), full({}, 1.0)};
  }
};

TEST(Profiler, HasATrackForEachWorker) {
  data::DataLoader loader(PairedData{}, {.num_workers = 2});
  Profiler profiler({.warmup = 0, .steps = 32, .rates = false});
  for ([[maybe_unused]] const data::Example& example : loader) const auto step = profiler.step();
  std::vector<std::string> names;
  for (const ThreadRow& row : profiler.report().threads) {
    if (row.thread.starts_with("loader worker")) names.push_back(row.thread);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"loader worker 1", "loader worker 2"}));
}

TEST(Profiler, SeesAStepThatRunsOnTwoThreads) {
  Net net;
  const Tensor x = randn({32, 48});
  const Report report = profiled({.model = net, .warmup = 0, .steps = 3, .rates = false}, [&] {
    std::thread other([&] { sum(net(x)).backward(); });
    other.join();
    static_cast<void>(net(x));
  });
  EXPECT_EQ(find_module(report, "fc1")->calls, 6);
  std::int64_t elsewhere = 0;
  for (const OpRow& row : report.ops) {
    if (row.op == "linear" && row.phase.starts_with("thread ")) elsewhere += row.calls;
  }
  EXPECT_EQ(elsewhere, 6);
  EXPECT_EQ(find(report, "linear", "forward")->calls, 6);
  EXPECT_NEAR(sum_of_phases(report), report.seconds, 0.05 * report.seconds);
}

// --- it changes nothing

TEST(Profiler, ChangesNoBits) {
  Training plain, watched;
  for (int i = 0; i < 6; ++i) plain.step();
  const Report report =
      profiled({.model = watched.net, .warmup = 1, .steps = 5, .shapes = true}, [&] { watched.step(); });
  EXPECT_EQ(report.steps, 5);
  const auto expected = plain.net.named_parameters(), got = watched.net.named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(got[i].second.to_vector<float>(), expected[i].second.to_vector<float>()) << got[i].first;
}

TEST(Profiler, ListensOnlyWhileItRecords) {
  Training training;
  Profiler profiler({.model = training.net, .warmup = 1, .steps = 1});
  EXPECT_EQ(activity_listener(), nullptr);
  {
    const auto step = profiler.step();
    EXPECT_EQ(activity_listener(), nullptr);
  }
  EXPECT_NE(activity_listener(), nullptr) << "what a loop does between its steps is recorded";
  { const auto step = profiler.step(); }
  EXPECT_EQ(activity_listener(), nullptr);
  EXPECT_EQ(process_op_observer(), nullptr);
  { const auto step = profiler.step(); }
  EXPECT_EQ(profiler.report().steps, 1);
  {
    Profiler ended({.warmup = 0});
    const auto step = ended.step();
    EXPECT_NE(activity_listener(), nullptr);
  }
  EXPECT_EQ(activity_listener(), nullptr) << "it ends with its profiler";
}

TEST(Profiler, LeavesAChildOfForkAlone) {
  Profiler profiler({.warmup = 0, .steps = 2, .rates = false});
  { const auto step = profiler.step(); }
  const pid_t child = fork();
  if (child == 0) {
    const bool listens = activity_listener() != nullptr || process_op_observer() != nullptr;
    Profiler own({.warmup = 0, .steps = 1, .rates = false});
    {
      const auto step = own.step();
      static_cast<void>(ones({4}) + 1.0);
    }
    _exit(!listens && own.report().steps == 1 && !own.report().ops.empty() ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  {
    const auto step = profiler.step();
    static_cast<void>(ones({4}) + 1.0);
  }
  EXPECT_EQ(profiler.report().steps, 2);
  EXPECT_FALSE(profiler.report().ops.empty());
}

// --- bad use

TEST(Profiler, GoesOnAfterAStepThatThrows) {
  Training training;
  Profiler profiler({.model = training.net, .warmup = 0, .steps = 3, .rates = false});
  for (int i = 0; i < 3; ++i) {
    try {
      const auto step = profiler.step();
      if (i == 1) static_cast<void>(training.net(randn({2, 3})));
      training.step();
    } catch (const ShapeError&) {
    }
  }
  const Report report = profiler.report();
  EXPECT_EQ(report.steps, 3);
  EXPECT_EQ(find_module(report, "fc1")->calls, 3);
  EXPECT_EQ(find_phase(report, "step")->calls, 2);
  EXPECT_NEAR(sum_of_phases(report), report.seconds, 0.05 * report.seconds);
}

TEST(Profiler, TakesTurnsWithOthers) {
  const test::CaughtWarnings warnings;
  Profiler outer({.warmup = 0, .steps = 2}), inner({.warmup = 0, .steps = 1});
  {
    const auto step = outer.step();
    const auto within = inner.step();
    static_cast<void>(randn({4}));
  }
  EXPECT_EQ(warnings.text_of("profiler_beside_another"),
            "Profiler.step: expected one profiler that records at a time, got a second one, which records "
            "nothing; let the first one end");
  EXPECT_EQ(inner.report().steps, 0);
  { const auto step = outer.step(); }
  EXPECT_EQ(outer.report().steps, 2);
  Profiler next({.warmup = 0, .steps = 1});
  { const auto step = next.step(); }
  EXPECT_EQ(next.report().steps, 1);
}

TEST(Profiler, WarnsOfStepsThatAreNone) {
  const test::CaughtWarnings warnings;
  Profiler profiler({.warmup = 0, .steps = 2});
  {
    const auto step = profiler.step();
    const auto within = profiler.step();
  }
  EXPECT_NE(warnings.text_of("profiler_step").find("a step inside another one"), std::string::npos);
  reset_warnings();
  std::thread([&] { const auto step = profiler.step(); }).join();
  EXPECT_NE(warnings.texts().back().find("a step on another thread"), std::string::npos);
  profiler.stop();
  EXPECT_EQ(profiler.report().steps, 1);
  profiler.stop();
  EXPECT_EQ(warnings.text_of("profiler_stop"),
            "Profiler.stop: expected a recording, got none, or one that has ended; call it once");
}

TEST(Profiler, NamesWhatIsWrongWithItsOptionsAndFiles) {
  EXPECT_NE(
      test::message_of<ValueError>([] { const Profiler profiler({.steps = 0}); }).find("at least 1 step"),
      std::string::npos);
  Profiler profiler({.warmup = 0, .steps = 1});
  EXPECT_NE(to_string(profiler.report()).find("Nothing is recorded yet"), std::string::npos);
  EXPECT_THROW(profiler.write_chrome_trace("trace.json"), StateError);
  { const auto step = profiler.step(); }
  EXPECT_THROW(profiler.write_chrome_trace("/nowhere/at/all/trace.json"), IoError);
  EXPECT_NE(to_string(profiler.report()).find("No op ran."), std::string::npos);

  const test::CaughtWarnings warnings;
  Profiler traced({.warmup = 0, .steps = 1, .trace = "/nowhere/at/all/trace.json"});
  { const auto step = traced.step(); }
  EXPECT_NE(warnings.text_of("profiler_end").find("/nowhere/at/all/trace.json"), std::string::npos);
  EXPECT_EQ(traced.report().steps, 1);
}

TEST(Profiler, MakesNvtxRangesWhereHeadersOfCudaAre) {
  const test::CaughtWarnings warnings;
  Training training;
  const Report report =
      profiled({.model = training.net, .warmup = 0, .steps = 1, .rates = false, .nvtx = true},
               [&] { training.step(); });
  EXPECT_EQ(report.steps, 1);
  EXPECT_EQ(warnings.text_of("profiler_nvtx").empty(), has_nvtx());
}

TEST(Profiler, HasEveryNumberInItsValue) {
  Training training;
  const Report report =
      profiled({.model = training.net, .warmup = 1, .steps = 2, .rates = false}, [&] { training.step(); });
  const Value value = report.to_value();
  EXPECT_EQ(value.at("steps").as_int(), 2);
  EXPECT_EQ(value.at("ops").as_list().size(), report.ops.size());
  EXPECT_EQ(value.at("ops").as_list()[0].at("op").as_string(), report.ops[0].op);
  EXPECT_EQ(value.at("modules").as_list()[1].at("path").as_string(), "fc1");
  EXPECT_EQ(value.at("phases").as_list().size(), report.phases.size());
  const std::string text = to_string(report);
  for (const char* const part : {"2 steps on cpu", "linear", "backward", "Linear fc1", "Kept for backward"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace mezzo::profile
