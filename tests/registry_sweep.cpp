// The registry sweep: every registered op, on its samples and on what the sweep derives from them, through
// every check of sweep/checks.h. One test per op; what was covered and what was left out prints at the end.
#include <gtest/gtest.h>

#include <iostream>

#include "sweep/checks.h"

namespace mezzo {

/// How GoogleTest shows the parameter: by name, where it would print an address.
void PrintTo(const RegistryEntry* entry, std::ostream* stream) { *stream << entry->info().name.value; }

namespace sweep {
namespace {

/// What all tests of this process covered; printed when they are done.
class Coverage : public testing::Environment {
 public:
  static Findings& total() {
    static Findings findings;
    return findings;
  }
  static int& ops() {
    static int count = 0;
    return count;
  }
  void TearDown() override {
    if (ops() == 0) return;
    std::int64_t checks = 0;
    for (std::size_t i = 0; i < kCheckNames.size(); ++i) checks += total().count(static_cast<Check>(i));
    std::cout << "sweep: " << ops() << " ops, " << checks << " checks\n ";
    for (std::size_t i = 0; i < kCheckNames.size(); ++i)
      std::cout << " " << kCheckNames[i] << " " << total().count(static_cast<Check>(i));
    std::cout << "\nsweep: " << total().notes().size() << " opt-outs\n";
    for (const std::string& note : total().notes()) std::cout << "  " << note << "\n";
  }
};
const auto* const coverage = testing::AddGlobalTestEnvironment(new Coverage);

class RegistrySweep : public testing::TestWithParam<const RegistryEntry*> {};

TEST_P(RegistrySweep, KeepsEveryPromise) {
  const Findings findings = sweep(*GetParam());
  Coverage::total().merge(findings);
  ++Coverage::ops();
  for (const Finding& finding : findings.failures())
    ADD_FAILURE() << "[" << name_of(finding.check) << "] " << finding.text;
}

std::string test_name(const testing::TestParamInfo<const RegistryEntry*>& param) {
  return std::string(param.param->info().name.value);
}
INSTANTIATE_TEST_SUITE_P(Ops, RegistrySweep, testing::ValuesIn(all_ops()), test_name);

TEST(RegistrySweepItself, FindsOpsToSweep) { EXPECT_GT(all_ops().size(), 20U); }

}  // namespace
}  // namespace sweep
}  // namespace mezzo
