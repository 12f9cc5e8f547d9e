// What the pages of the documentation show is true: their programs compile and run, what they print is what
// is printed, their package files are those that are built, and the policy table is the registry's.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>
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

const std::string kRoot = test::data_folder() + "/../";
const std::string kReadme = kRoot + "README.md";
const std::string kPrecision = kRoot + "docs/mixed_precision.md", kOptimizers = kRoot + "docs/optimizers.md";
const std::string kNorms = kRoot + "docs/norms.md", kUsing = kRoot + "docs/using.md";

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

/// The headings of a page as the ends of links: "#in-your-own-project".
std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  std::istringstream lines(read(page));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind('#', 0) != 0) continue;
    std::string anchor = "#";
    for (const char c : line.substr(line.find_first_not_of("# "))) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      else if (c == ' ')
        anchor += '-';
    }
    anchors.insert(anchor);
  }
  return anchors;
}

using Batches = std::vector<std::pair<Tensor, Tensor>>;

std::vector<float> train(const Batches& batches) {
  manual_seed(1);
  // clang-format off
  // loop begins
  const Device device = Device::best();  // cuda:0 when one is usable, else cpu
  nn::Sequential net{nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 64)};
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
  nn::Sequential net{nn::Linear(64, 256), nn::LayerNorm(256), nn::ReLU(), nn::Linear(256, 10)};
  std::cout << amp::summary(net, Shape{32, 64}, {.dtype = DType::f16});
  // summary ends
  // clang-format on
}

Tensor multiply_in_float8() {
  // clang-format off
  // float8 begins
  nn::Sequential net{nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 64)};
  const Tensor x = randn({32, 64});
  Tensor y;
  {
    amp::Autocast autocast(Device::cpu(), DType::bf16, {.fp8 = true});  // or {.fp8 = amp::Fp8{.skip = {"2"}}}
    y = net(x);
  }
  y.sum().backward();
  std::cout << amp::summary(net, x, {.dtype = DType::bf16, .fp8 = true});
  // float8 ends
  // clang-format on
  return net.parameters().front().grad();
}

void follow_rules() {
  // clang-format off
  // rules begins
  nn::Sequential net{nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(), nn::Linear(256, 10)};
  const amp::ModulePrecision rules(net, {{"0", amp::no_autocast}, {"4", DType::f32}, {"[1-3]", amp::fp8}});
  std::cout << amp::summary(net, Shape{32, 64}, {.dtype = DType::bf16});
  // rules ends
  // clang-format on
}

void operate() {
  // clang-format off
  // surgery begins
  nn::Sequential net{nn::Linear(64, 256), nn::LayerNorm(256), nn::ReLU(), nn::Linear(256, 10)};
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

/// What the page has behind `mark`.
std::string behind(const std::string& page, const std::string& mark) {
  const std::string text = read(page);
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? std::string() : text.substr(at);
}

/// The page's block behind `mark` is the part of this file called `part`.
void expect_same_code(const std::string& part, const std::string& page, const std::string& mark) {
  const std::string here = between(read(test::data_folder() + "/docs/pages_test.cpp"),
                                   "// " + part + " begins\n", "  // " + part + " ends");
  const std::string there = between(behind(page, mark), " -->\n```cpp\n", "```");
  ASSERT_FALSE(there.empty()) << "no " << part << " in " << page;
  EXPECT_EQ(stripped(here), stripped(there));
}

TEST(Readme, ItsProgramIsAnExampleAndItsLossFalls) {
  const std::string source = read(kRoot + "examples/quickstart/main.cpp");
  EXPECT_EQ(between(behind(kReadme, "<!-- examples/quickstart/main.cpp"), " -->\n```cpp\n", "```"), source);
  const auto program = test::this_program().parent_path().parent_path() / "examples/quickstart";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " was not built";
  const test::Ran ran = test::run_shell("'" + program.string() + "'");
  EXPECT_EQ(ran.status, 0) << ran.text;
  std::vector<double> losses;
  for (std::istringstream words(ran.text); words;) {
    std::string word;
    double loss = 0;
    while (words >> word && word != "loss") {
    }
    if (words >> loss) losses.push_back(loss);
  }
  ASSERT_EQ(losses.size(), 4U) << ran.text;
  EXPECT_LT(losses.back(), losses.front() / 4) << ran.text;
}

TEST(TrainingRuns, TheProgramIsTheExample) {
  const std::string source = read(kRoot + "examples/training_run/main.cpp");
  const std::string shown =
      between(behind(kRoot + "docs/training_runs.md", "<!-- examples/training_run/main.cpp"),
              " -->\n```cpp\n", "```");
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(stripped(between(source, "// program begins\n", "// program ends")), stripped(shown));
}

/// Whether a Sequential of the text is made of several layers between parentheses, where C++ leaves open
/// which one is made first and so gets which random numbers.
bool has_sequential_in_parentheses(const std::string& text) {
  const std::string type = "Sequential";
  for (std::size_t at = text.find(type); at != std::string::npos; at = text.find(type, at + 1)) {
    if (at >= 3 && text.compare(at - 3, 3, "nn.") == 0) continue;  // Python's, which has an order
    std::size_t i = at + type.size();
    const auto is_name = [&] {
      return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
    };
    if (i < text.size() && (text[i] == '>' || text[i] == ' ')) ++i;
    while (i < text.size() && is_name()) ++i;
    if (i >= text.size() || text[i] != '(') continue;
    int depth = 0, layers = 0;
    for (bool begins = true; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '(' || c == '{') ++depth;
      if (c == ')' || c == '}') --depth;
      if (depth == 0) break;
      if (depth == 1 && begins && std::isalpha(static_cast<unsigned char>(c)) != 0) {
        if (text.compare(i, 4, "nn::") == 0) i += 4;
        if (std::isupper(static_cast<unsigned char>(text[i])) != 0) ++layers;
        begins = false;
      }
      if (depth == 1 && c == ',') begins = true;
    }
    if (layers > 1) return true;
  }
  return false;
}

TEST(Pages, LayersOfASequentialStandBetweenBraces) {
  EXPECT_TRUE(has_sequential_in_parentheses("nn::Sequential net(nn::Linear(1, 2), nn::ReLU());"));
  EXPECT_TRUE(has_sequential_in_parentheses("make<nn::Sequential>(nn::Linear(1, 2),\n  ReLU())"));
  EXPECT_FALSE(
      has_sequential_in_parentheses("nn::Sequential net{nn::Linear(1, 2), nn::ReLU()}; f(a, B(c));"));
  EXPECT_FALSE(
      has_sequential_in_parentheses("void f(nn::Sequential& net, Tensor x); nn::Sequential(layers)"));
  int files = 0;
  for (const std::string folder : {"docs", "examples"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot + folder)) {
      const std::string end = entry.path().extension().string();
      if (end != ".md" && end != ".h" && end != ".cpp") continue;
      EXPECT_FALSE(has_sequential_in_parentheses(read(entry.path()))) << entry.path();
      ++files;
    }
  }
  EXPECT_FALSE(has_sequential_in_parentheses(read(kReadme)));
  EXPECT_GT(files, 50);
}

TEST(Pages, LinksLeadToFilesAndHeadings) {
  int links = 0;
  for (const std::string folder :
       {"", "docs/", "bench/", "examples/", "examples/amp/", "tests/", "tools/", "core/", "autograd/",
        "kernels/", "ops/", "nn/", "amp/", "optim/", "io/", "data/", "dist/", "train/"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + folder)) {
      if (entry.path().extension() != ".md") continue;
      const std::string text = read(entry.path());
      for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
        const std::string link = text.substr(at + 2, text.find(')', at) - at - 2);
        if (link.rfind("http", 0) == 0 || link.find(' ') != std::string::npos) continue;
        const std::size_t hash = std::min(link.find('#'), link.size());
        const auto file = hash == 0 ? entry.path() : entry.path().parent_path() / link.substr(0, hash);
        EXPECT_TRUE(std::filesystem::exists(file)) << entry.path() << ": " << link;
        if (hash < link.size()) {
          EXPECT_EQ(anchors_of(file).count(link.substr(hash)), 1U) << entry.path() << ": " << link;
        }
        ++links;
      }
    }
  }
  EXPECT_GE(links, 40);
}

TEST(MixedPrecisionPage, ItsLoopIsTheOneThatIsCompiledHere) {
  expect_same_code("loop", kPrecision, "run by tests/docs/pages_test.cpp.");
}

TEST(MixedPrecisionPage, ItsSummaryIsTheOneThatIsPrintedHere) {
  expect_same_code("summary", kPrecision, "run by tests/docs/pages_test.cpp too.");
  docs::expect_current("mixed_precision.md's summary", between(read(kPrecision), "```text\n", "```"),
                       printed_by(print_summary),
                       "print_summary in tests/docs/pages_test.cpp prints the text");
}

TEST(MixedPrecisionPage, ItsFloat8IsTheOneThatIsMultipliedHere) {
  expect_same_code("float8", kPrecision, "run by tests/docs/pages_test.cpp as the part float8.");
  const std::string shown = printed_by([] { EXPECT_TRUE(multiply_in_float8().defined()); });
  EXPECT_NE(shown.find("f8"), std::string::npos) << shown;
}

TEST(MixedPrecisionPage, ItsRulesAreTheOnesThatAreFollowedHere) {
  expect_same_code("rules", kPrecision, "run by tests/docs/pages_test.cpp as the part rules.");
  const std::string shown = printed_by(follow_rules);
  for (const std::string cell : {"f32 (rule: no autocast)", "f8 (rule: fp8)", "f32 (rule: f32)"})
    EXPECT_NE(shown.find(cell), std::string::npos) << cell << " in\n" << shown;
}

TEST(OptimizersPage, ItsScheduleIsTheOneThatIsFollowedHere) {
  expect_same_code("schedule", kOptimizers, "run by tests/docs/pages_test.cpp, behind the loop above.");
  const Device device = Device::best();
  manual_seed(2);
  const Batches batches(4, {randn({8, 64}, {.device = device}), randn({8, 64}, {.device = device})});
  // Four steps of the warm-up: the rate of the fifth.
  EXPECT_NEAR(train_by_schedule(batches), 3e-4 * 5 / 100, 1e-15);
}

TEST(MixedPrecisionPage, ItsRecipePrintsWhatItShows) {
  const auto program = test::this_program().parent_path().parent_path() / "examples/amp/two_optimizers";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " was not built";
  const std::string shown =
      between(read(kPrecision), "```console\n$ build/release/examples/amp/two_optimizers\n", "```");
  const test::Ran ran = test::run_shell("'" + program.string() + "' --device cpu");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.text, shown);
}

TEST(NormsPage, ItsSurgeryIsTheOneThatIsDoneHere) {
  constexpr const char* kMark = "run by tests/docs/pages_test.cpp as well.";
  expect_same_code("surgery", kNorms, kMark);
  docs::expect_current("norms.md's surgery", between(behind(kNorms, kMark), "```console\n", "```"),
                       printed_by(operate), "operate in tests/docs/pages_test.cpp prints the text");
}

TEST(MixedPrecisionPage, ItsLoopTrains) {
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

std::string package_block(const std::string& page, const std::string& kind) {
  return between(read(page), "<!-- examples/consumers/" + kind + "/CMakeLists.txt -->\n```cmake\n", "```");
}

TEST(Readme, ItsPackageFilesAreTheConsumersThatTheTestsBuild) {
  const std::string whole = package_block(kReadme, "find_package");
  const std::string find = "find_package(mezzo 0.1 REQUIRED)\n";
  ASSERT_NE(whole.find(find), std::string::npos) << whole;
  EXPECT_EQ(whole, read(test::data_folder() + "/../examples/consumers/find_package/CMakeLists.txt"));
  const std::string without_comment = whole.substr(whole.find('\n') + 1);
  for (const std::string kind : {"add_subdirectory", "fetch_content"}) {
    const std::string block = package_block(kUsing, kind);
    ASSERT_FALSE(block.empty()) << kind;
    EXPECT_EQ(consumer_file(kind, block, find), without_comment) << kind;
  }
}

TEST(MixedPrecisionPage, ItsPolicyTableIsTheRegistrys) {
  const std::string table = between(read(kPrecision), "checked by tests/docs/pages_test.cpp -->\n",
                                    "<!-- end of the policy table -->");
  docs::expect_current("mixed_precision.md's policy table", table, amp::to_markdown(amp::policy()),
                       "amp::to_markdown(amp::policy()) is the text");
}

}  // namespace
}  // namespace mezzo
