// The policy table: printing, overriding per op within a scope.
#include "mezzo/amp/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <thread>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

Category category_of(const std::string& op) {
  const std::vector<PolicyRow> rows = policy();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const PolicyRow& r) { return r.op == op; });
  EXPECT_NE(row, rows.end()) << op;
  return row == rows.end() ? Category::passthrough : row->category;
}

TEST(Policy, HoldsEveryRegisteredOpOnce) {
  EXPECT_EQ(policy().size(), all_ops().size());
  EXPECT_EQ(category_of("linear"), Category::lower_precision);
  EXPECT_EQ(category_of("softmax"), Category::fp32);
  EXPECT_EQ(category_of("dot"), Category::promote);
  EXPECT_EQ(category_of("binary_cross_entropy"), Category::banned);
  EXPECT_EQ(category_of("relu"), Category::passthrough);
}

TEST(Policy, AnOverrideHoldsForItsScopeAndThreadAndTheInnermostWins) {
  const Tensor x = randn({3, 3});
  const Autocast region(kCpu, DType::f16);
  {
    const PolicyOverride low("softmax", Category::lower_precision);
    EXPECT_EQ(softmax(x, 0).dtype(), DType::f16);
    {
      const PolicyOverride leave("softmax", Category::passthrough);
      EXPECT_EQ(softmax(x.to(DType::bf16), 0).dtype(), DType::bf16);
    }
    EXPECT_EQ(softmax(x, 0).dtype(), DType::f16);
    Category elsewhere = Category::banned;
    std::thread([&] { elsewhere = category_of("softmax"); }).join();
    EXPECT_EQ(elsewhere, Category::fp32);
    EXPECT_NE(to_string(policy()).find("softmax (overridden)"), std::string::npos);
  }
  EXPECT_EQ(softmax(x, 0).dtype(), DType::f32);
  EXPECT_EQ(to_string(policy()).find("overridden"), std::string::npos);
}

TEST(Policy, AnyOpCanBeForcedToF32) {
  const PolicyOverride keep("linear", Category::fp32);
  const Autocast region(kCpu, DType::f16);
  EXPECT_EQ(linear(randn({2, 3}).to(DType::f16), randn({4, 3})).dtype(), DType::f32);
}

TEST(Policy, OverridesEndInAnyOrderAndOnAnyThread) {
  const OpInfo& softmax = find_op("softmax")->info();
  const Category before = effective_category(softmax);
  auto first = std::make_unique<PolicyOverride>("softmax", Category::lower_precision);
  auto second = std::make_unique<PolicyOverride>("softmax", Category::promote);
  first.reset();
  EXPECT_EQ(effective_category(softmax), Category::promote);
  auto third = std::make_unique<PolicyOverride>("softmax", Category::passthrough);
  std::thread([&] { third.reset(); }).join();
  EXPECT_EQ(effective_category(softmax), Category::promote);
  second.reset();
  EXPECT_EQ(effective_category(softmax), before);
}

TEST(Policy, UnknownOpsAreRefused) { EXPECT_THROW(PolicyOverride("sofmax", Category::fp32), ValueError); }

TEST(Policy, TextListsTheFourCategoriesAndCountsTheRest) {
  const std::string text = to_string(policy());
  std::ostringstream printed;
  printed << policy();
  EXPECT_EQ(printed.str(), text);
  for (const char* part : {"lower_precision: ", "fp32: ", "promote: ", " dot, ",
                           "banned: binary_cross_entropy\n", "all other ops ("}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_NE(to_markdown(policy()).find("| `banned` |"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::amp
