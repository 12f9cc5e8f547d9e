// docs/ops.md: one line about every registered op, found by asking the registry and running the ops' samples.
#pragma once

#include <string>

#include "mezzo/autograd/registry.h"

namespace mezzo::op_table {

/// The whole file, for the source tree at `root`. The same text on every machine and in every build, as long
/// as the file there tells what a CUDA device runs.
[[nodiscard]] std::string to_markdown(const std::string& root);

/// The devices on which a sample of the op runs, "cpu, cuda". Where there is no CUDA device to try it on,
/// what `written`, the file's text so far, says of it; an op that has no line yet counts as running there.
[[nodiscard]] std::string devices_of(const RegistryEntry& op, const std::string& written);

/// The command that writes the file.
inline constexpr const char* kRenew = "build/release/tools/op_table";

}  // namespace mezzo::op_table
