// The trace file, read by nlohmann_json: the fields of the trace event format, tracks, and events that nest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"

namespace mezzo::profile {
namespace {

using Json = nlohmann::json;

/// Of three steps of a small training with a loader of two workers.
Json trace_of_training() {
  struct Data {
    [[nodiscard]] std::int64_t size() const { return 64; }
    [[nodiscard]] data::Example get(std::int64_t /*index*/) const {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return {ones({16}), ones({4})};
    }
  };
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 4));
  optim::SGD optimizer(net, {.lr = 0.1});
  data::DataLoader loader(Data{}, {.batch_size = 8, .num_workers = 2});
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("mezzo_trace_" + std::to_string(::getpid()) + ".json"))
          .string();
  Profiler profiler({.model = net, .warmup = 1, .steps = 3, .shapes = true, .trace = path});
  for (const auto& [x, y] : loader) {
    const auto step = profiler.step();
    optimizer.zero_grad();
    mse_loss(net(x), y).backward();
    optimizer.step();
  }
  std::ifstream file(path);
  const Json json = Json::parse(file);
  std::filesystem::remove(path);
  return json;
}

TEST(ChromeTrace, HasTheFieldsOfItsFormat) {
  const Json json = trace_of_training();
  EXPECT_EQ(json.at("displayTimeUnit"), "ms");
  std::set<std::string> names, tracks;
  for (const Json& event : json.at("traceEvents")) {
    ASSERT_TRUE(event.at("name").is_string());
    ASSERT_TRUE(event.at("pid").is_number_integer());
    ASSERT_TRUE(event.at("tid").is_number_integer());
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") tracks.insert(event.at("args").at("name"));
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    ASSERT_GE(event.at("ts").get<double>(), 0);
    ASSERT_GE(event.at("dur").get<double>(), 0);
    names.insert(event.at("name"));
  }
  for (const char* const name :
       {"step 0", "step 2", "Sequential", "0", "2", "linear", "backward", "step", "zero_grad", "loader",
        "loader worker", "linear_backward", "gradient of linear"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("step 3"));
  for (const char* const track : {"steps", "loader worker 1"}) EXPECT_TRUE(tracks.contains(track)) << track;
}

TEST(ChromeTrace, NestsOnEachTrack) {
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  const Json json = trace_of_training();
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("ph") == "X")
      tracks[event.at("tid")].emplace_back(event.at("ts"),
                                           event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  ASSERT_GE(tracks.size(), 2U);
  for (auto& [track, spans] : tracks) {
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    for (const auto& [begin, end] : spans) {
      while (!open.empty() && open.back() <= begin + 1e-3) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back() + 1e-3) << "track " << track << " at " << begin;
      }
      open.push_back(end);
    }
  }
}

TEST(ChromeTrace, SaysWhatAnOpWas) {
  const Json json = trace_of_training();
  int found = 0;
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("name") != "linear" || event.at("args").at("module") != "0") continue;
    ++found;
    EXPECT_EQ(event.at("cat"), "op");
    EXPECT_EQ(event.at("args").at("dtype"), "f32");
    EXPECT_EQ(event.at("args").at("flop"), 2 * 8 * 16 * 32);
    EXPECT_EQ(event.at("args").at("bytes"), 4 * (8 * 16 + 32 * 16 + 32 + 8 * 32));
    EXPECT_EQ(event.at("args").at("shapes"), "[8, 16] [32, 16] [32]");
  }
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace mezzo::profile
