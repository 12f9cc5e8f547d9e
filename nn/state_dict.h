// State dicts, which pass between modules and files: tensors by path, how they are loaded, and what loading
// found. Separate from Module so that it can be named without it.
#pragma once

#include <string>
#include <vector>

#include "mezzo/core/named_tensors.h"

namespace mezzo::nn {

/// Tensors by path, in order.
using mezzo::NamedTensors;

/// How a state dict is loaded.
struct LoadOptions {
  bool strict = true;  ///< refuse missing and unexpected names
  bool cast = false;   ///< convert values to the module's dtypes instead of refusing others
};

/// The findings of a load.
struct LoadReport {
  std::vector<std::string> missing;     ///< paths of the module that the state does not have
  std::vector<std::string> unexpected;  ///< names of the state that the module does not have
  std::vector<std::string> mismatched;  ///< one line for each tensor that does not fit
  [[nodiscard]] bool is_exact() const;
};

/// "2 missing (fc.bias, fc.weight), 1 unexpected (w)", five names of each kind; "nothing" when exact.
[[nodiscard]] std::string to_string(const LoadReport& report);

}  // namespace mezzo::nn
