// Numbers as text in the files of sinks.
#pragma once

#include <string>

#include "mezzo/core/dtype.h"

namespace mezzo::train::detail {

/// Appends the shortest text that reads back as the number in its dtype (f32 for 16-bit ones): 0.1 for an f32
/// 0.1; "nan", "inf", "-inf". Independent of locale and of how the processor rounds.
void append_number(std::string& out, double value, DType dtype);

}  // namespace mezzo::train::detail
