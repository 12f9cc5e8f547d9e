// What the ops' headers say about them: which family an op belongs to, and what its tensors are called.
// Descriptors carry neither, and a second list would go stale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mezzo::op_table {

/// A function that takes tensors and returns some.
struct Declaration {
  std::string name;
  std::vector<std::string> tensors;  ///< names of its tensors; a list of any length ends in "..."
};

/// A header of ops/, in the order of ops/ops.h.
struct Family {
  std::string path;   ///< "ops/indexing.h"
  std::string title;  ///< the first sentence of its comment
  std::vector<Declaration> declarations;
};

/// The families under a source tree. Throws std::runtime_error where there is none.
[[nodiscard]] std::vector<Family> read_families(const std::string& root);

/// The family that declares `op`, or else a function whose name `op` begins with (`add` for `add_scalar`);
/// nullptr when there is none.
[[nodiscard]] const Family* family_of(const std::vector<Family>& families, std::string_view op);

/// Whether such a name stands for a list.
[[nodiscard]] inline bool is_list(const std::string& name) { return name.back() == '.'; }

/// The names of an op's inputs, of which there are `count`, or any number of if it `takes_list`; x0, x1, ...
/// when no header tells.
[[nodiscard]] std::vector<std::string> input_names(const std::vector<Family>& families, std::string_view op,
                                                   std::size_t count, bool takes_list);

}  // namespace mezzo::op_table
