// Warnings: once per name, whoever is told, and the way to be quiet.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/child.h"

namespace mezzo {
namespace {

using Texts = std::vector<std::string>;

TEST(Warning, IsSaidOncePerName) {
  const test::CaughtWarnings caught;
  warn_once("test_first", "one");
  warn_once("test_first", "another text of the same");
  warn_once("test_second", "two");
  EXPECT_EQ(caught.names(), (Texts{"test_first", "test_second"}));
  EXPECT_EQ(caught.texts(), (Texts{"one", "two"}));
  reset_warnings();
  warn_once("test_first", "again");
  EXPECT_EQ(caught.texts().back(), "again");
}

TEST(Warning, APlaceWarnsOnceUntilAReset) {
  const test::CaughtWarnings caught;
  static WarningSite site("test_site");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(site.is_fresh(), i == 0);
    if (site.is_fresh()) site.warn("op", "this", "that", "mend it");
  }
  EXPECT_EQ(caught.texts(), Texts{"op: expected this, got that; mend it"});
  reset_warnings();
  EXPECT_TRUE(site.is_fresh());
}

TEST(Warning, IsSaidOnceByManyThreads) {
  const test::CaughtWarnings caught;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([] { warn_once("test_threads", "text"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught.names().size(), 1U);
}

TEST(Warning, AHandlerMayThrowWarnAndBeReplaced) {
  const test::CaughtWarnings caught;
  const WarningHandler before = set_warning_handler([](std::string_view name, std::string_view text) {
    if (name == "test_outer") warn_once("test_inner", text);
    throw std::runtime_error(std::string(text));
  });
  EXPECT_TRUE(static_cast<bool>(before));
  EXPECT_THROW(warn_once("test_outer", "an error"), std::runtime_error);
  EXPECT_NO_THROW(warn_once("test_inner", "was said"));
  set_warning_handler(before);
  warn_once("test_after", "text");
  EXPECT_EQ(caught.names(), Texts{"test_after"});
}

// Run in a process of its own by the test below.
TEST(WarningChild, DISABLED_Warns) {
  set_warning_handler({});
  warn_once("test_child", "op: expected this, got that; mend it");
}

TEST(Warning, GoesToStderrUnlessTheEnvironmentSaysNo) {
  const std::string line = "mezzo: warning: op: expected this, got that; mend it\n";
  const std::string disabled = "GTEST_ALSO_RUN_DISABLED_TESTS=1 ";
  const std::string filter = "WarningChild.DISABLED_Warns";
  EXPECT_NE(test::run_tests(filter, disabled + "MEZZO_WARNINGS=1").text.find(line), std::string::npos);
  EXPECT_EQ(test::run_tests(filter, disabled + "MEZZO_WARNINGS=0").text.find("warning"), std::string::npos);
}

}  // namespace
}  // namespace mezzo
