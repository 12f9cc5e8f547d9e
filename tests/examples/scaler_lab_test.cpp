// The lab of the GradScaler as a user runs it: what was injected is what it finds, at the step, the layer and
// the direction that were named, and its table, files and errors are what they should be.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "mezzo/core/cuda.h"
#include "support/child.h"

namespace {

using mezzo::test::Ran;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++times;
  return times;
}

/// Why `xml` is not well-formed, as far as tags go: opened and closed in order, attributes name="value", no
/// bare & or <. Empty when it is.
std::string xml_mistake(const std::string& xml) {
  std::vector<std::string> open;
  bool had_root = false;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] == '&' && xml.compare(at, 5, "&amp;") != 0 && xml.compare(at, 4, "&lt;") != 0 &&
        xml.compare(at, 4, "&gt;") != 0)
      return "a bare &";
    if (xml[at] != '<') {
      if (open.empty() && std::isspace(static_cast<unsigned char>(xml[at])) == 0) return "text outside";
      ++at;
      continue;
    }
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (open.empty() && had_root) return "two roots";
    had_root = true;
    const bool closed = tag.ends_with("/");
    if (closed) tag.pop_back();
    const std::size_t name_end = std::min(tag.find(' '), tag.size());
    for (std::size_t a = name_end; a < tag.size();) {
      const std::size_t equals = tag.find("=\"", a);
      if (tag[a] != ' ' || equals == std::string::npos || equals == a + 1)
        return "attributes of <" + tag + ">";
      const std::size_t quote = tag.find('"', equals + 2);
      if (quote == std::string::npos || tag.substr(a, quote - a).find('<') != std::string::npos)
        return "a value in <" + tag + ">";
      a = quote + 1;
    }
    if (!closed) open.push_back(tag.substr(0, name_end));
  }
  return open.empty() && had_root ? "" : "something stays open";
}

TEST(XmlMistake, IsFound) {
  EXPECT_EQ(xml_mistake("<a b=\"1\"><c/>x &lt; y</a>\n"), "");
  for (const char* bad :
       {"<a><b></a></b>", "<a>", "<a/><a/>", "<a b=1/>", "<a>&</a>", "<a></a>x", "<a b=\"1/>", ""})
    EXPECT_NE(xml_mistake(bad), "") << bad;
}

class ScalerLab : public ::testing::Test {
 protected:
  using Step = std::map<std::string, std::string>;  ///< a line of the CSV by its columns

  void SetUp() override {
    program_ = mezzo::test::this_program().parent_path().parent_path() / "examples/scaler_lab";
    if (!std::filesystem::exists(program_)) GTEST_SKIP() << program_ << " was not built";
    folder_ = std::filesystem::path(::testing::TempDir()) / ("scaler_lab_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Ran run(const std::string& arguments, const std::string& environment = "") const {
    return mezzo::test::run_shell(environment + " '" + program_.string() + "' " + arguments);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream stream(file(name));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Runs it and returns the CSV that it wrote.
  std::vector<Step> steps(const std::string& arguments) {
    ran_ = run(arguments + " --csv '" + file("steps.csv") + "'");
    EXPECT_EQ(ran_.status, 0) << ran_.text;
    std::istringstream lines(content("steps.csv"));
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> names = split(line, ',');
    std::vector<Step> all;
    while (std::getline(lines, line)) {
      const std::vector<std::string> cells = split(line, ',');
      EXPECT_EQ(cells.size(), names.size()) << line;
      for (std::size_t i = 0; i < std::min(cells.size(), names.size()); ++i) {
        if (i == 0) all.emplace_back();
        all.back()[names[i]] = cells[i];
      }
    }
    return all;
  }
  /// Numbers of the steps that were skipped.
  static std::vector<std::string> skipped(const std::vector<Step>& steps) {
    std::vector<std::string> numbers;
    for (const Step& step : steps) {
      if (step.at("skipped") == "1") numbers.push_back(step.at("step"));
    }
    return numbers;
  }
  static double number(const Step& step, const std::string& column) { return std::stod(step.at(column)); }
  /// What was found at a step of which nothing but the injected fault can have gone wrong.
  static void expect_found(const Step& step, const std::string& parameter, const std::string& direction,
                           const std::string& layer) {
    EXPECT_EQ(step.at("skipped"), "1");
    EXPECT_EQ(step.at("first_parameter"), parameter);
    EXPECT_EQ(step.at("first_op"), "mul_scalar");
    EXPECT_EQ(step.at("direction"), direction);
    EXPECT_EQ(step.at("place"), "Stage '" + layer + "'");
    EXPECT_EQ(step.at("injected"), "overflow " + direction + " at " + layer);
  }
  void expect_refused(const std::string& arguments, int status, const std::string& part) const {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.status, status) << arguments << '\n' << ran.text;
    EXPECT_NE(ran.text.find(part), std::string::npos) << '"' << part << "\" is not in\n" << ran.text;
    EXPECT_EQ(count(ran.text, "\n"), 1U) << ran.text;
  }

  std::filesystem::path program_, folder_;
  Ran ran_;
};

using Numbers = std::vector<std::string>;
const std::vector<std::string> kLayers = {"embed", "hidden1", "hidden2", "head"};
// Without growth, the scale changes by what is injected only.
const std::string kSmall = "--device cpu --steps 12 --batch-size 16 --growth-interval 1000 ";

TEST_F(ScalerLab, AForwardOverflowSkipsItsStep) {
  for (const std::string& layer : kLayers) {
    const std::vector<Step> all = steps(kSmall + "--overflow 5:" + layer);
    ASSERT_EQ(all.size(), 12U);
    EXPECT_EQ(skipped(all), Numbers{"5"});
    // The loss is NaN, so the gradient that backward makes first is.
    expect_found(all.at(4), "head.fc.bias", "forward", layer);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(std::isfinite(number(all[i], "loss")), i != 4) << i + 1;
      EXPECT_EQ(number(all[i], "scale"), i <= 4 ? 65536 : 32768) << i + 1;
    }
  }
}

TEST_F(ScalerLab, ABackwardOverflowStartsAtItsLayer) {
  for (const std::string& layer : kLayers) {
    const std::vector<Step> all = steps(kSmall + "--overflow 5:" + layer + ":backward");
    EXPECT_EQ(skipped(all), Numbers{"5"});
    expect_found(all.at(4), layer + ".fc.bias", "backward", layer);
    EXPECT_TRUE(std::isfinite(number(all.at(4), "loss")));
  }
}

TEST_F(ScalerLab, OfTwoFaultsTheFirstInTimeIsNamed) {
  const std::vector<Step> all =
      steps(kSmall + "--overflow 2-4:hidden1:backward --overflow 3:hidden2:backward 4:head:forward");
  EXPECT_EQ(skipped(all), (Numbers{"2", "3", "4"}));
  EXPECT_EQ(number(all.at(4), "scale"), 65536 / 8);
  EXPECT_EQ(all.at(1).at("place"), "Stage 'hidden1'");
  EXPECT_EQ(all.at(2).at("place"), "Stage 'hidden2'");  // backward comes to it earlier
  EXPECT_EQ(all.at(2).at("injected"), "overflow backward at hidden1; overflow backward at hidden2");
  EXPECT_EQ(all.at(3).at("place"), "Stage 'head'");
  EXPECT_EQ(all.at(3).at("direction"), "forward");
}

TEST_F(ScalerLab, UnderflowDependsOnTheScale) {
  std::vector<double> shares;
  for (const char* scale : {"1", "256", "65536"}) {
    const std::vector<Step> all = steps(kSmall + "--underflow 3-4:hidden1 --init-scale " + scale);
    EXPECT_EQ(skipped(all), Numbers{});
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].at("zero_share").empty(), i != 2 && i != 3);
    shares.push_back(number(all.at(2), "zero_share"));
    // 2^-20 of a gradient of a mean over 16 samples, whose elements are below 2^-4.
    EXPECT_GT(number(all.at(2), "zero_share_at_scale_1"), 0.9);
    if (shares.size() == 1) {
      EXPECT_EQ(shares[0], number(all.at(2), "zero_share_at_scale_1"));
    }
  }
  EXPECT_GT(shares[0], shares[1]);
  EXPECT_GT(shares[1], shares[2]);
  EXPECT_LT(shares[2], 0.1);
}

TEST_F(ScalerLab, WithoutFaultsOnlyAScaleThatIsTooLargeSkips) {
  EXPECT_EQ(skipped(steps("--device cpu --no-faults --steps 60 --batch-size 16")), Numbers{});
  // The gradient of the scores is (p - y) / 16 times the scale, with p about 1/10 at first: it leaves f16
  // (65504) at 2^21 and not at 2^20.
  const std::vector<Step> all = steps(kSmall + "--no-faults --init-scale 8388608");
  EXPECT_EQ(skipped(all), (Numbers{"1", "2", "3"}));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.at(i).at("first_op"), "cross_entropy");
    EXPECT_EQ(all[i].at("direction"), "backward");
    EXPECT_EQ(all[i].at("place"), "") << "called outside of all modules";
    EXPECT_EQ(all[i].at("first_parameter"), "head.fc.bias");
    EXPECT_EQ(all[i].at("injected"), "");
  }
}

TEST_F(ScalerLab, TheScaleGrows) {
  const std::vector<Step> all =
      steps("--device cpu --no-faults --steps 12 --batch-size 16 --growth-interval 5");
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(number(all[i], "scale"), 65536 << (i / 5)) << "step " << i + 1;
}

TEST_F(ScalerLab, TableAndFilesAgree) {
  const std::vector<Step> all =
      steps(kSmall + "--every 1 --overflow 4:hidden2 6-7:hidden1:backward --underflow 9:head --json '" +
            file("steps.json") + "'");
  const nlohmann::json json = nlohmann::json::parse(content("steps.json"), nullptr, false);
  ASSERT_EQ(json.size(), all.size());
  std::vector<std::string> lines;
  for (const std::string& line : split(ran_.text, '\n')) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin > 0 && begin < line.size() && std::isdigit(line[begin]) != 0) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), all.size()) << ran_.text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::istringstream words(lines[i]);
    std::string step, loss, scale, rest;
    words >> step >> loss >> scale;
    std::getline(words, rest);
    const bool skips = all[i].at("skipped") == "1";
    EXPECT_EQ(step, all[i].at("step") + (all[i].at("injected").empty() ? "" : "*"));
    EXPECT_EQ(scale, all[i].at("scale"));
    if (loss == "nan")
      EXPECT_EQ(all[i].at("loss"), "nan");
    else
      EXPECT_NEAR(std::stod(loss), number(all[i], "loss"), 0.5001e-4);  // four digits are printed
    EXPECT_EQ(rest.find("yes") != std::string::npos, skips) << rest;
    EXPECT_EQ(json[i]["skipped"], skips);
    EXPECT_EQ(json[i]["scale"], number(all[i], "scale"));
    EXPECT_EQ(rest.find('%') != std::string::npos, !all[i].at("zero_share").empty()) << rest;
    if (!skips) continue;
    EXPECT_NE(rest.find(all[i].at("first_op") + ", " + all[i].at("direction") + ", " + all[i].at("place")),
              std::string::npos)
        << rest;
    EXPECT_NE(rest.find(all[i].at("first_parameter")), std::string::npos) << rest;
    EXPECT_EQ(json[i]["place"], all[i].at("place"));
  }
  EXPECT_NE(ran_.text.find("\n3 of 12 steps skipped; scale between 8192 and 65536, at the end 8192\n"),
            std::string::npos)
      << ran_.text;
}

TEST_F(ScalerLab, ThePlotShowsEverySkip) {
  for (const std::string faults :
       {"--overflow 4:hidden2 6-7:hidden1:backward --underflow 9-10:head --underflow 12:embed", "--no-faults",
        "--overflow 1-12:embed"}) {
    const std::size_t skips = skipped(steps(kSmall + faults + " --svg '" + file("plot.svg") + "'")).size();
    const std::string svg = content("plot.svg");
    EXPECT_EQ(xml_mistake(svg), "") << svg;
    EXPECT_EQ(count(svg, "class=\"skip\""), skips) << svg;
    EXPECT_EQ(count(svg, "class=\"underflow\""), faults.find("underflow") == std::string::npos ? 0U : 2U)
        << svg;
    EXPECT_EQ(count(svg, "viewBox=\""), 1U);
    EXPECT_EQ(count(svg, "http"), 1U) << "more than the name of the language";
    EXPECT_EQ(count(svg, "nan"), 0U);
  }
}

TEST_F(ScalerLab, TheSameOnAnyNumberOfThreads) {
  const Ran one = run("--device cpu", "OMP_NUM_THREADS=1"), two = run("--device cpu", "OMP_NUM_THREADS=2");
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(one.text, two.text);
  EXPECT_NE(one.text.find("2 of 120 steps skipped"), std::string::npos) << one.text;  // the tour
}

TEST_F(ScalerLab, OnAGpu) {
  if (!mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  const std::vector<Step> all = steps(
      "--device cuda --steps 6 --batch-size 4 --overflow 2:hidden1 --overflow 4:hidden2:backward --underflow "
      "6:embed");
  EXPECT_EQ(skipped(all), (Numbers{"2", "4"}));
  expect_found(all.at(1), "head.fc.bias", "forward", "hidden1");
  expect_found(all.at(3), "hidden2.fc.bias", "backward", "hidden2");
  EXPECT_LT(number(all.at(5), "zero_share"), number(all.at(5), "zero_share_at_scale_1"));
}

TEST_F(ScalerLab, WrongFlagsAreRefused) {
  expect_refused("--overflow 3:hidden3", 2,
                 "a layer out of embed, hidden1, hidden2, head, got \"3:hidden3\"");
  expect_refused("--underflow 3:", 2, "a layer out of embed");
  expect_refused("--overflow 121:head", 2, "steps from 1 to 120");
  expect_refused("--overflow 0:head", 2, "steps from 1 to 120");
  expect_refused("--underflow 9-3:head", 2, "rising order");
  for (const char* malformed : {"head", "3", "x:head", "3:head:sideways", "3:head:forward:", "1-2-3:head",
                                "3-:head", "3.5:head", "99999999999999999999:head", "''"})
    expect_refused("--overflow " + std::string(malformed), 2, "STEP[-STEP]:LAYER[:forward or :backward]");
  expect_refused("--underflow 3:head:backward", 2, "STEP[-STEP]:LAYER, got");
  expect_refused("--no-faults --overflow 3:head", 2, "leave one out");
  expect_refused("--steps 0", 2, "--steps from 1");
  expect_refused("--batch-size 0", 2, "--batch-size of at least 1");
  expect_refused("--growth-interval 0", 2, "growth_interval");
  expect_refused("--init-scale 0", 2, "init_scale");
  expect_refused("--every -1", 2, "--every");
  expect_refused("--layers 3", 2, "--help");
}

TEST_F(ScalerLab, FilesThatCannotBeWrittenAreRefusedAtOnce) {
  for (const char* flag : {"--csv", "--svg", "--json"})
    expect_refused(std::string(flag) + " /nonexistent/file", 1, "/nonexistent/file");
}

TEST_F(ScalerLab, HelpNamesTheLayers) {
  const Ran ran = run("--help");
  EXPECT_EQ(ran.status, 0);
  EXPECT_NE(ran.text.find("embed, hidden1, hidden2, head"), std::string::npos) << ran.text;
}

}  // namespace
