// The one table of where the goldens' spelling differs from mezzo's: op files, arguments and values. All
// else is called by the name of the file with the arguments of the case.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mezzo/autograd/op.h"
#include "mezzo/core/dims.h"
#include "mezzo/core/value.h"

namespace mezzo::golden {

/// A golden's op in mezzo's words.
struct Call {
  std::string op;                   ///< registered name
  Value attrs;                      ///< null arguments are left out: they are defaults or absent tensors
  std::vector<std::string> absent;  ///< null arguments that are optional tensors of the op
};

/// Translates. Throws NotSupported when mezzo has no such op.
[[nodiscard]] Call translate(std::string_view golden_op, const Value& args);

/// Names under which the goldens know a registered op: file names and its own.
[[nodiscard]] std::vector<std::string> golden_names(std::string_view op);

/// The dims that an argument lists; a single number is one.
[[nodiscard]] Dims dims_of(const Value& value);

/// Op files that are several ops: written here once each, from their `expr`.
using Composite = Outputs (*)(Inputs inputs, const Value& args);
/// The composite for a file, or nullptr.
[[nodiscard]] Composite find_composite(std::string_view golden_op);

}  // namespace mezzo::golden
