// Shortest forms by std::to_chars.
#include "mezzo/train/logging/number.h"

#include <array>
#include <charconv>
#include <cmath>

#include "mezzo/core/parallel/float_environment.h"

namespace mezzo::train::detail {

void append_number(std::string& out, double value, DType dtype) {
  if (std::isnan(value)) value = std::abs(value);  // a NaN has a sign, which is not to be written
  // Where a program flushes them to zero, subnormal numbers would be written as 0.
  const mezzo::detail::WithFloatEnvironment standard(mezzo::detail::FloatEnvironment::standard());
  std::array<char, 32> text{};  // the longest shortest form of a double has 24 characters
  char* const begin = text.data();
  char* const end = begin + text.size();
  const bool narrow = dtype == DType::f32 || is_16bit(dtype);
  out.append(begin, narrow ? std::to_chars(begin, end, static_cast<float>(value)).ptr
                           : std::to_chars(begin, end, value).ptr);
}

}  // namespace mezzo::train::detail
