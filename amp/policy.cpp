// The dispatch table, read from the op registry and written as text or Markdown. Overrides form a stack
// per thread; the innermost one of an op counts.
#include "mezzo/amp/policy.h"

#include <algorithm>
#include <utility>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"

namespace mezzo::amp {

namespace {

thread_local std::vector<std::pair<const OpInfo*, Category>> overrides;

constexpr std::array kListed{Category::lower_precision, Category::fp32, Category::promote, Category::banned};

std::string ops_of(const std::vector<PolicyRow>& rows, Category category, std::string_view quote) {
  std::string list;
  for (const PolicyRow& row : rows) {
    if (row.category != category) continue;
    list.append(list.empty() ? "" : ", ").append(quote).append(row.op).append(quote);
    if (row.overridden) list += " (overridden)";
  }
  return list.empty() ? "-" : list;
}

std::string rest_of(const std::vector<PolicyRow>& rows) {
  const auto count = std::count_if(
      rows.begin(), rows.end(), [](const PolicyRow& row) { return row.category == Category::passthrough; });
  return "all other ops (" + std::to_string(count) + ")";
}

}  // namespace

std::vector<PolicyRow> policy() {
  std::vector<PolicyRow> rows;
  for (const RegistryEntry* entry : all_ops()) {
    const Category category = effective_category(entry->info());
    rows.push_back(
        {std::string(entry->info().name.value), category, category != entry->info().category.value});
  }
  return rows;
}

std::string_view describe(Category category) {
  switch (category) {
    case Category::lower_precision:
      return "f32, f16 and bf16 inputs are cast to the region's dtype";
    case Category::fp32:
      return "f16 and bf16 inputs are computed in f32, and the result is f32";
    case Category::promote:
      return "inputs are cast to the widest of their dtypes; f16 with bf16 gives f32";
    case Category::banned:
      return "refused inside a region";
    case Category::passthrough:
      break;
  }
  return "runs in the dtypes of its inputs";
}

std::string to_string(const std::vector<PolicyRow>& rows) {
  std::string text;
  for (const Category category : kListed) {
    text.append(kEnumNames<Category>[static_cast<std::size_t>(category)])
        .append(": ")
        .append(ops_of(rows, category, ""))
        .append("\n");
  }
  return text + "passthrough: " + rest_of(rows) + "\n";
}

std::string to_markdown(const std::vector<PolicyRow>& rows) {
  std::string text = "| category | what autocast does | ops |\n| --- | --- | --- |\n";
  const auto add_row = [&](Category category, const std::string& ops) {
    text.append("| `").append(kEnumNames<Category>[static_cast<std::size_t>(category)]).append("` | ");
    text.append(describe(category)).append(" | ").append(ops).append(" |\n");
  };
  for (const Category category : kListed) add_row(category, ops_of(rows, category, "`"));
  add_row(Category::passthrough, rest_of(rows));
  return text;
}

PolicyOverride::PolicyOverride(std::string_view op, Category category) {
  const RegistryEntry* entry = find_op(op);
  if (entry == nullptr) {
    throw ValueError("PolicyOverride", "the name of a registered op", "\"" + std::string(op) + "\"",
                     "amp::policy() lists them");
  }
  overrides.emplace_back(&entry->info(), category);
}

PolicyOverride::~PolicyOverride() { overrides.pop_back(); }

Category effective_category(const OpInfo& info) {
  for (auto it = overrides.rbegin(); it != overrides.rend(); ++it) {
    if (it->first == &info) return it->second;
  }
  return info.category.value;
}

}  // namespace mezzo::amp
