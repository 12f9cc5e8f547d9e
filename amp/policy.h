// The autocast dispatch table as data: the category of each op, its meaning, and overrides for a scope.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/autograd/op.h"
#include "mezzo/core/scope.h"

namespace mezzo::amp {

/// One row of the table.
struct PolicyRow {
  std::string op;
  Category category = Category::passthrough;
  bool overridden = false;  ///< by a PolicyOverride of this thread
  bool float8 = false;      ///< runs in float8 where the region asks for it (amp/float8.h)
};

/// The table as it is on this thread now: every registered op, sorted by name. One table serves all devices.
[[nodiscard]] std::vector<PolicyRow> policy();

/// The table as text, one line per category with its ops; passthrough (all others) is counted, not listed.
/// A line more names those that run in float8.
[[nodiscard]] std::string to_string(const std::vector<PolicyRow>& rows);
/// `std::cout << amp::policy()`.
std::ostream& operator<<(std::ostream& stream, const std::vector<PolicyRow>& rows);
/// The policy as a Markdown table, which docs/mixed_precision.md shows.
[[nodiscard]] std::string to_markdown(const std::vector<PolicyRow>& rows);

/// What autocast does to a category's inputs, in one sentence.
[[nodiscard]] std::string_view describe(Category category);

/// Gives an op another category on this thread while it lives; the newest override wins. They may end in any
/// order, and on any thread. It also takes the place of an op's `cast_inputs`.
///   amp::PolicyOverride keep("softmax", Category::lower_precision);
/// Throws: ValueError for a name that is not registered.
class PolicyOverride : mezzo::detail::NoCopy {
 public:
  PolicyOverride(std::string_view op, Category category);
  ~PolicyOverride();

  /// What one override says; without an op: older ones do not count.
  struct Entry {
    const OpInfo* op = nullptr;
    Category category = Category::passthrough;
  };

 private:
  mezzo::detail::OpenScope<Entry>* scope_;
};

/// The category that this thread's newest PolicyOverride of an op gives it, if there is one.
[[nodiscard]] std::optional<Category> category_override(const OpInfo& info);
/// The category that holds for an op on this thread: category_override(), else the op's own.
[[nodiscard]] Category effective_category(const OpInfo& info);

}  // namespace mezzo::amp
