// docs/ops.md: one line about every registered op, found by asking the registry and running the ops' samples.
#pragma once

#include <string>

namespace mezzo::op_table {

/// The whole file, for the source tree at `root`. The same text on every machine and in every build.
[[nodiscard]] std::string to_markdown(const std::string& root);

/// The command that writes the file.
inline constexpr const char* kRenew = "build/release/tools/op_table";

}  // namespace mezzo::op_table
