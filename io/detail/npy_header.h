// The header of a .npy array: a dict as Python writes it, of which exactly three entries are understood.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/core/dims.h"
#include "mezzo/core/dtype.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

struct NpyHeader {
  DType dtype = DType::f32;
  bool is_unsigned = false;  ///< of unsigned integers as large as `dtype`, which mezzo has not
  bool is_big_endian = false;
  bool is_fortran = false;  ///< the first dim is innermost
  Shape shape;
  std::uint64_t size = 0;  ///< bytes of the header, with all before it
};

/// Reads what stands before the data. `what` names the array in messages ("" or " in array \"a\"").
/// Throws: IoError for what is no header of an array that mezzo has.
[[nodiscard]] NpyHeader read_npy_header(ByteSource& source, const std::string& what);
/// The header that NumPy writes for a row-major array.
/// Throws: DTypeError in the name of `op` for a dtype that NumPy does not have.
[[nodiscard]] std::string npy_header(std::string_view op, DType dtype, const Shape& shape);

}  // namespace mezzo::io::detail
