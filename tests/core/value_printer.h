// Lets GoogleTest show a Value as JSON when an expectation fails. Shared by all tests that compare values.
#pragma once

#include <ostream>

#include "mezzo/core/value.h"

namespace mezzo {

inline void PrintTo(const Value& value, std::ostream* out) { *out << value.to_string(); }

}  // namespace mezzo
