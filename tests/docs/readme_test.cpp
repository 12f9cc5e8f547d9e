// What the README says is true: its loop compiles and trains, its summary is what is printed, its package
// files are those that are built, and its policy table is the registry's.
#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include "docs/generated.h"
#include "mezzo/mezzo.h"
#include "support/child.h"
#include "support/data_folder.h"

namespace mezzo {
namespace {

using docs::read;

const std::string kReadme = test::data_folder() + "/../README.md";

/// Lines without leading blanks, so that indentation does not matter.
std::string stripped(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos) result += line.substr(first) + "\n";
  }
  return result;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  const std::size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

using Batches = std::vector<std::pair<Tensor, Tensor>>;

std::vector<float> train(const Batches& batches) {
  manual_seed(1);
  // clang-format off
  // loop begins
  const Device device = Device::best();  // cuda:0 when one is usable, else cpu
  nn::Sequential net(nn::make<nn::Linear>(64, 64), nn::make<nn::ReLU>(), nn::make<nn::Linear>(64, 64));
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3, .momentum = 0.9});
  amp::GradScaler scaler;

  for (const auto& [input, target] : batches) {
    Tensor loss;
    {
      amp::Autocast autocast(device, DType::f16);
      loss = mse_loss(net(input), target);  // linear ran in f16, the loss in f32
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    scaler.step(optimizer);  // skipped on the device when a gradient is not finite
    scaler.update();
    optimizer.zero_grad();
  }
  // loop ends
  // clang-format on
  return net.parameters().front().to_vector<float>();
}

/// The learning rate at the end.
double train_by_schedule(const Batches& batches) {
  const Device device = Device::best();
  nn::Linear net(64, 64);
  net.to(device);
  amp::GradScaler scaler;
  // clang-format off
  // schedule begins
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-4, .weight_decay = 0.1});
  optim::SequentialLR schedule(optimizer, {.schedulers = {optim::LinearWarmupOptions{.warmup_steps = 100},
                                                          optim::CosineAnnealingLROptions{.T_max = 900}},
                                           .milestones = {100}});
  for (const auto& [input, target] : batches) {
    Tensor loss;
    {
      amp::Autocast autocast(device, DType::f16);
      loss = mse_loss(net(input), target);
    }
    scaler.scale(loss).backward();
    schedule.step(scaler.step(optimizer));  // a skipped step is not counted
    scaler.update();
    optimizer.zero_grad();
  }
  // schedule ends
  // clang-format on
  return optimizer.lr();
}

void print_summary() {
  // clang-format off
  // summary begins
  nn::Sequential net(nn::make<nn::Linear>(64, 256), nn::make<nn::LayerNorm>(256), nn::make<nn::ReLU>(), nn::make<nn::Linear>(256, 10));
  std::cout << amp::summary(net, Shape{32, 64}, {.dtype = DType::f16});
  // summary ends
  // clang-format on
}

void operate() {
  // clang-format off
  // surgery begins
  nn::Sequential net(nn::make<nn::Linear>(64, 256), nn::make<nn::LayerNorm>(256), nn::make<nn::ReLU>(), nn::make<nn::Linear>(256, 10));
  optim::AdamW optimizer(net.parameters());
  std::cout << amp::apply_low_precision_layernorm(net, "amp_bf16", {&optimizer});
  // surgery ends
  // clang-format on
}

/// What `program` prints to std::cout.
std::string printed_by(void (*program)()) {
  std::ostringstream printed;
  std::streambuf* const console = std::cout.rdbuf(printed.rdbuf());
  program();
  std::cout.rdbuf(console);
  return printed.str();
}

/// What the README has behind `mark`.
std::string behind(const std::string& mark) {
  const std::string text = read(kReadme);
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? std::string() : text.substr(at);
}

/// The README's block behind `mark` is the part of this file called `part`.
void expect_same_code(const std::string& part, const std::string& mark) {
  const std::string here = between(read(test::data_folder() + "/docs/readme_test.cpp"),
                                   "// " + part + " begins\n", "  // " + part + " ends");
  const std::string there = between(behind(mark), " -->\n```cpp\n", "```");
  ASSERT_FALSE(there.empty()) << "no " << part << " in " << kReadme;
  EXPECT_EQ(stripped(here), stripped(there));
}

TEST(Readme, ItsLoopIsTheOneThatIsCompiledHere) {
  expect_same_code("loop", "run by tests/docs/readme_test.cpp.");
}

TEST(Readme, ItsSummaryIsTheOneThatIsPrintedHere) {
  expect_same_code("summary", "run by tests/docs/readme_test.cpp too.");
  docs::expect_current("README.md's summary", between(read(kReadme), "```text\n", "```"),
                       printed_by(print_summary) + "\n",
                       "print_summary in tests/docs/readme_test.cpp prints the text");
}

TEST(Readme, ItsScheduleIsTheOneThatIsFollowedHere) {
  expect_same_code("schedule", "run by tests/docs/readme_test.cpp, behind the loop above.");
  const Device device = Device::best();
  manual_seed(2);
  const Batches batches(4, {randn({8, 64}, {.device = device}), randn({8, 64}, {.device = device})});
  // Four steps of the warm-up: the rate of the fifth.
  EXPECT_NEAR(train_by_schedule(batches), 3e-4 * 5 / 100, 1e-15);
}

TEST(Readme, ItsRecipePrintsWhatItShows) {
  const auto program = test::this_program().parent_path().parent_path() / "examples/amp/two_optimizers";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " was not built";
  const std::string shown =
      between(read(kReadme), "```console\n$ build/release/examples/amp/two_optimizers\n", "```");
  const test::Ran ran = test::run_shell("'" + program.string() + "' --device cpu");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.text, shown);
}

TEST(Readme, ItsSurgeryIsTheOneThatIsDoneHere) {
  constexpr const char* kMark = "run by tests/docs/readme_test.cpp as well.";
  expect_same_code("surgery", kMark);
  docs::expect_current("README.md's surgery", between(behind(kMark), "```console\n", "```"),
                       printed_by(operate), "operate in tests/docs/readme_test.cpp prints the text");
}

TEST(Readme, ItsLoopTrains) {
  manual_seed(7);
  Batches batches;
  const Device device = Device::best();
  for (int i = 0; i < 8; ++i) {
    batches.emplace_back(randn({16, 64}, {.device = device}), randn({16, 64}, {.device = device}));
  }
  const std::vector<float> before = train({});
  const std::vector<float> after = train(batches);
  EXPECT_NE(before, after);
  for (const float value : after) ASSERT_TRUE(std::isfinite(value));
}

/// A consumer's CMakeLists.txt without the comment on top, with `own` exchanged for `common`.
std::string consumer_file(const std::string& kind, const std::string& own, const std::string& common) {
  std::string file = read(test::data_folder() + "/../examples/consumers/" + kind + "/CMakeLists.txt");
  file.erase(0, file.find('\n') + 1);
  const std::size_t at = file.find(own);
  return at == std::string::npos ? file : file.replace(at, own.size(), common);
}

std::string package_block(const std::string& kind) {
  return between(read(kReadme), "<!-- examples/consumers/" + kind + "/CMakeLists.txt -->\n```cmake\n", "```");
}

TEST(Readme, ItsPackageFilesAreTheConsumersThatTheTestsBuild) {
  const std::string whole = package_block("find_package");
  const std::string find = "find_package(mezzo 0.1 REQUIRED)\n";
  ASSERT_NE(whole.find(find), std::string::npos) << whole;
  EXPECT_EQ(whole, read(test::data_folder() + "/../examples/consumers/find_package/CMakeLists.txt"));
  const std::string without_comment = whole.substr(whole.find('\n') + 1);
  for (const std::string kind : {"add_subdirectory", "fetch_content"}) {
    const std::string block = package_block(kind);
    ASSERT_FALSE(block.empty()) << kind;
    EXPECT_EQ(consumer_file(kind, block, find), without_comment) << kind;
  }
}

TEST(Readme, ItsPolicyTableIsTheRegistrys) {
  const std::string table = between(read(kReadme), "checked by tests/docs/readme_test.cpp -->\n",
                                    "<!-- end of the policy table -->");
  docs::expect_current("README.md's policy table", table, amp::to_markdown(amp::policy()),
                       "amp::to_markdown(amp::policy()) is the text");
}

}  // namespace
}  // namespace mezzo
