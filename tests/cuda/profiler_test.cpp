// A profiler on a device: times between events, captured steps, waits; the step stays asynchronous.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cuda/device_fixture.h"
#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

struct Training {
  explicit Training() { net.to(Device::cuda()); }

  Tensor step() {
    optimizer.zero_grad();
    Tensor loss;
    {
      const amp::Autocast region(Device::cuda(), DType::f16);
      loss = mse_loss(net(x), y);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    return loss;
  }

  std::uint64_t seed = (manual_seed(4), 4);
  nn::Sequential net{nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 8)};
  Tensor x = randn({24, 16}, {.device = Device::cuda()}), y = randn({24, 8}, {.device = Device::cuda()});
  optim::AdamW optimizer{(net.to(Device::cuda()), net), {.lr = 1e-3}};
  amp::GradScaler scaler;
};

const profile::OpRow* find(const profile::Report& report, std::string_view op, std::string_view phase) {
  for (const profile::OpRow& row : report.ops) {
    if (row.op == op && row.phase == phase) return &row;
  }
  return nullptr;
}
const profile::PhaseRow* find_phase(const profile::Report& report, std::string_view phase) {
  for (const profile::PhaseRow& row : report.phases) {
    if (row.phase == phase) return &row;
  }
  return nullptr;
}

class CudaProfiler : public test::CudaTest {};

TEST_F(CudaProfiler, TimesOpsByEventsOfTheStream) {
  Training training;
  profile::Profiler profiler({.model = training.net, .warmup = 1, .steps = 3});
  for (int i = 0; i < 4; ++i) {
    const auto step = profiler.step();
    static_cast<void>(training.step());
  }
  const profile::Report report = profiler.report();
  EXPECT_TRUE(report.device == Device::cuda());
  EXPECT_TRUE(report.waits.empty()) << "a step reads nothing back, profiled or not";
  const profile::OpRow* const linear = find(report, "linear", "forward");
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(linear->calls, 6);
  EXPECT_EQ(linear->dtype, "f16");
  double work = 0, backward = 0;
  for (const profile::OpRow& row : report.ops) {
    EXPECT_GE(row.seconds, 0) << row.op;
    work += row.seconds;
  }
  EXPECT_GT(work, 0);
  EXPECT_GT(find_phase(report, "step")->device_seconds, 0);
  for (const profile::ModuleRow& row : report.modules) {
    if (row.depth == 1) backward += row.backward_seconds;
  }
  EXPECT_NEAR(report.modules[0].backward_seconds, backward, 1e-9 + backward * 1e-6)
      << "a Sequential has no ops of its own";
  EXPECT_NE(to_string(report).find("Device ms"), std::string::npos);
}

TEST_F(CudaProfiler, HasATrackForTheDevice) {
  Training training;
  const std::string path = (std::filesystem::path(::testing::TempDir()) /
                            ("mezzo_cuda_trace_" + std::to_string(::getpid()) + ".json"))
                               .string();
  profile::Profiler profiler({.model = training.net, .warmup = 1, .steps = 2, .rates = false, .trace = path});
  for (int i = 0; i < 3; ++i) {
    const auto step = profiler.step();
    static_cast<void>(training.step());
  }
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  int track = -1, products = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("name") == "thread_name" && event.at("args").at("name") == "cuda:0") track = event.at("tid");
  }
  ASSERT_GE(track, 0);
  double before = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("tid") != track) continue;
    EXPECT_GE(event.at("ts").get<double>(), before - 1) << "work of a stream is in order";
    before = event.at("ts");
    products += event.at("name") == "linear" ? 1 : 0;
  }
  EXPECT_EQ(products, 4);
}

TEST_F(CudaProfiler, SeesTheOpsOfACapturedStepInOneEagerStep) {
  Training plain, watched;
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i) losses.push_back(plain.step().item());
  amp::CapturedStep captured(
      Device::cuda(), [&] { return watched.step(); }, 2);
  profile::Profiler profiler({.model = watched.net, .warmup = 4, .steps = 3, .rates = false});
  for (const double loss : losses) {
    const auto step = profiler.step();
    EXPECT_EQ(captured().item(), loss);
  }
  const profile::Report report = profiler.report();
  EXPECT_EQ(report.replays, 2);
  ASSERT_NE(find_phase(report, "replay"), nullptr);
  EXPECT_GT(find_phase(report, "replay")->device_seconds, 0);
  ASSERT_NE(find(report, "linear", "forward"), nullptr);
  EXPECT_EQ(find(report, "linear", "forward")->calls, 2);
  ASSERT_EQ(report.waits.size(), 1U);
  EXPECT_EQ(report.waits[0].call, "item");
  EXPECT_EQ(report.waits[0].calls, 3);
}

TEST_F(CudaProfiler, NamesWaitsForTheDevice) {
  Training training;
  const cuda::Stream stream;
  profile::Profiler profiler({.model = training.net, .warmup = 0, .steps = 1, .rates = false});
  {
    const auto step = profiler.step();
    const Tensor loss = training.step();
    synchronize(Device::cuda());
    stream.synchronize();
    static_cast<void>(loss.to(Device::cpu()));
  }
  std::string calls;
  const profile::Report report = profiler.report();
  for (const profile::WaitRow& row : report.waits) calls += row.call + " at " + row.place + "; ";
  for (const char* const call :
       {"synchronize at the step", "Stream.synchronize at the step", "to at copy to host"})
    EXPECT_NE(calls.find(call), std::string::npos) << calls;
}

}  // namespace
}  // namespace mezzo
