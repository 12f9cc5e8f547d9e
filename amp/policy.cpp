// The dispatch table, read from the op registry and written as text or Markdown. Overrides are kept by
// thread; the newest one of an op counts.
#include "mezzo/amp/policy.h"

#include <algorithm>
#include <list>
#include <ostream>
#include <vector>

#include "mezzo/autograd/region.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/memory/scope_list.h"

namespace mezzo::amp {

namespace {

using Entry = PolicyOverride::Entry;
using Overrides = mezzo::detail::ScopeList<Entry>;
constinit mezzo::detail::PerThread<Overrides> overrides;

/// The scope if it is an override that counts, else nullptr.
const mezzo::detail::Scope<Entry>* counted(const mezzo::detail::Scope<Entry>* scope) noexcept {
  return scope != nullptr && scope->value.op != nullptr ? scope : nullptr;
}
/// The newest override of this thread; nullptr: none.
const mezzo::detail::Scope<Entry>* newest_override() noexcept {
  Overrides* const mine = overrides.find();
  return mine != nullptr ? counted(mine->newest()) : nullptr;
}

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

std::string float8_ops(const std::vector<PolicyRow>& rows, std::string_view quote) {
  std::string list;
  for (const PolicyRow& row : rows) {
    if (row.float8) list.append(list.empty() ? "" : ", ").append(quote).append(row.op).append(quote);
  }
  return list.empty() ? "-" : list;
}

std::string rest_of(const std::vector<PolicyRow>& rows) {
  const auto count = std::count_if(
      rows.begin(), rows.end(), [](const PolicyRow& row) { return row.category == Category::passthrough; });
  return "all other ops (" + std::to_string(count) + ")";
}

/// The overrides of a thread, newest first, kept for a region of the graph that is computed again.
struct KeptOverrides final : RefCounted {
  std::vector<Entry> list;
};

Ref<RefCounted> take_overrides() {
  const mezzo::detail::Scope<Entry>* scope = newest_override();
  if (scope == nullptr) return {};
  const auto kept = make_ref<KeptOverrides>();
  for (; scope != nullptr; scope = counted(scope->older)) kept->list.push_back(scope->value);
  return kept;
}

/// Puts kept overrides in the place of the thread's own while it lives.
class InstalledOverrides final : public RefCounted {
 public:
  explicit InstalledOverrides(const Ref<RefCounted>& kept) {
    push({});
    if (!kept) return;
    const std::vector<Entry>& list = static_cast<const KeptOverrides&>(*kept).list;
    std::for_each(list.rbegin(), list.rend(), [this](const Entry& entry) { push(entry); });
  }
  ~InstalledOverrides() override {
    for (mezzo::detail::Scope<Entry>& scope : scopes_) overrides.get().pop(scope);
  }

 private:
  void push(const Entry& entry) {
    scopes_.push_front({.own = entry});
    overrides.get().push(scopes_.front());
  }
  std::list<mezzo::detail::Scope<Entry>> scopes_;  // newest first
};

Ref<RefCounted> install_overrides(const Ref<RefCounted>& kept) {
  if (!kept && newest_override() == nullptr) return {};
  return make_ref<InstalledOverrides>(kept);
}

[[maybe_unused]] const bool overrides_are_kept = [] {
  autograd::set_region_thread_state({take_overrides, install_overrides});
  return true;
}();

}  // namespace

std::vector<PolicyRow> policy() {
  std::vector<PolicyRow> rows;
  for (const RegistryEntry* entry : all_ops()) {
    const Category category = effective_category(entry->info());
    rows.push_back({std::string(entry->info().name.value), category, category != entry->info().category.value,
                    entry->info().runs_in_float8 && category == Category::lower_precision});
  }
  return rows;
}

std::string_view describe(Category category) {
  constexpr std::array<std::string_view, kEnumNames<Category>.size()> kTexts{
      "f32, f16 and bf16 inputs are cast to the region's dtype",
      "f16 and bf16 inputs are computed in f32, and the result is f32",
      "inputs are cast to the widest of their dtypes; f16 with bf16 gives f32", "refused inside a region",
      "runs in the dtypes of its inputs"};
  return kTexts[static_cast<std::size_t>(category)];
}

std::string to_string(const std::vector<PolicyRow>& rows) {
  std::string text;
  for (const Category category : kListed) {
    text.append(kEnumNames<Category>[static_cast<std::size_t>(category)])
        .append(": ")
        .append(ops_of(rows, category, ""))
        .append("\n");
  }
  return text + "passthrough: " + rest_of(rows) + "\nin float8 under fp8: " + float8_ops(rows, "") + "\n";
}

std::ostream& operator<<(std::ostream& stream, const std::vector<PolicyRow>& rows) {
  return stream << to_string(rows);
}

std::string to_markdown(const std::vector<PolicyRow>& rows) {
  std::string text = "| category | what autocast does | ops |\n| --- | --- | --- |\n";
  const auto add_row = [&](Category category, const std::string& ops) {
    text.append("| `").append(kEnumNames<Category>[static_cast<std::size_t>(category)]).append("` | ");
    text.append(describe(category)).append(" | ").append(ops).append(" |\n");
  };
  for (const Category category : kListed) add_row(category, ops_of(rows, category, "`"));
  add_row(Category::passthrough, rest_of(rows));
  return text + "\nUnder `fp8` these products run in float8: " + float8_ops(rows, "`") + ".\n";
}

PolicyOverride::PolicyOverride(std::string_view op, Category category) {
  const RegistryEntry* entry = find_op(op);
  if (entry == nullptr) {
    throw ValueError("PolicyOverride", "the name of a registered op", "\"" + std::string(op) + "\"",
                     "amp::policy() lists them");
  }
  scope_ = overrides.get().begin({&entry->info(), category});
}

PolicyOverride::~PolicyOverride() { overrides.get().end(scope_); }

std::optional<Category> category_override(const OpInfo& info) {
  for (const auto* scope = newest_override(); scope != nullptr; scope = counted(scope->older)) {
    // By name, which is unique: an op may have a second descriptor, as relu has one with a mask.
    if (scope->value.op->name.value == info.name.value) return scope->value.category;
  }
  return std::nullopt;
}

Category effective_category(const OpInfo& info) {
  return category_override(info).value_or(info.category.value);
}

}  // namespace mezzo::amp
