// docs/ops.md is what tools/op_table would write, and the table says what it should about some ops.
#include <gtest/gtest-spi.h>

#include "docs/generated.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "op_table/table.h"
#include "support/data_folder.h"

namespace mezzo {
namespace {

const std::string kRoot = test::data_folder() + "/..";

bool has_line(const std::string& table, const std::string& line) {
  return table.find("\n" + line + "\n") != std::string::npos;
}

TEST(OpTable, IsCurrent) {
  docs::expect_current("docs/ops.md", docs::read(kRoot + "/docs/ops.md"), op_table::to_markdown(kRoot),
                       std::string("renew it: ") + op_table::kRenew);
}

TEST(OpTable, TellsWhatDescriptorsHeadersAndSamplesSay) {
  const std::string table = op_table::to_markdown(kRoot);
  EXPECT_TRUE(
      has_line(table, "| `linear(x, weight, bias?) -> T` | lower_precision | all | cpu, cuda | any |"));
  EXPECT_TRUE(has_line(
      table, "| `gather(x, index: i64, dim: int = 0) -> T` | passthrough | all | cpu, cuda | any |"));
  EXPECT_TRUE(
      has_line(table,
               "| `argmax(x, dim: int?, keepdim: bool = false) -> i64` | passthrough | all | cpu, cuda | "
               "none: the result is an index |"));
  EXPECT_TRUE(has_line(table,
                       "| `mse_loss(x, target, reduction: none/mean/sum = mean) -> T` | fp32, reads 16 bit | "
                       "floating | cpu, cuda | any |"));
  EXPECT_NE(table.find("| banned: drop the sigmoid"), std::string::npos);
}

// Ops that nobody registers.
Outputs copy_of(const ForwardArgs<NoAttrs>& args) { return clone(args.in(0)); }
Outputs copy_on_cpu(const ForwardArgs<NoAttrs>& args) {
  if (!args.in(0).device().is_cpu()) throw DeviceError("copy", "a tensor on the CPU", "another", "move it");
  return copy_of(args);
}
detail::TypedEntry<NoAttrs> entry_of(const Op<NoAttrs>& op) { return detail::TypedEntry<NoAttrs>(op); }
constexpr Op<NoAttrs> op_of(Op<NoAttrs>::Forward forward) {
  return {.info = {.name = "copy", .category = Category::passthrough},
          .samples = [] { return std::vector<Sample<NoAttrs>>{{{op_samples::real({2})}}}; },
          .forward = forward,
          .vjp = NotDifferentiable{"it is only called"}};
}

TEST(OpTable, DevicesAreThoseThatRunTheOp) {
  static constexpr Op<NoAttrs> both = op_of(copy_of), one = op_of(copy_on_cpu);
  const std::string has_both = "\n| `copy(x) -> T` | passthrough | all | cpu, cuda | any |\n",
                    has_one = "\n| `copy(x) -> T` | passthrough | all | cpu | any |\n";
  if (Device::best().is_cuda()) {
    EXPECT_EQ(op_table::devices_of(entry_of(both), has_one), "cpu, cuda");
    EXPECT_EQ(op_table::devices_of(entry_of(one), has_both), "cpu");
    return;
  }
  EXPECT_EQ(op_table::devices_of(entry_of(both), has_one), "cpu") << "nobody can try it here";
  EXPECT_EQ(op_table::devices_of(entry_of(one), has_both), "cpu, cuda");
  EXPECT_EQ(op_table::devices_of(entry_of(both), ""), "cpu, cuda");
}

TEST(OpTable, ComparisonNamesTheLineAndTheCommand) {
  EXPECT_NONFATAL_FAILURE(docs::expect_current("a file", "1\n2\n", "1\n3\n", "run this"),
                          "a file is stale, line 2:\n- 2\n+ 3\nrun this");
  EXPECT_NONFATAL_FAILURE(docs::expect_current("a file", "1\n", "1\n2\n", "run this"), "line 2");
  EXPECT_NONFATAL_FAILURE(docs::expect_current("a file", "1\n", "1", "run this"), "at its end");
}

}  // namespace
}  // namespace mezzo
