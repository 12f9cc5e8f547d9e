// Tensors and one safetensors file: dtype names, the limit on dims, bools as 0 or 1.
#pragma once

#include <string>

#include "mezzo/io/detail/file.h"
#include "mezzo/io/tensor_file.h"

namespace mezzo::io::detail {

/// See TensorFile::save.
void write_one_file(const TensorFile& file, const std::string& path);
/// Into a file that is open, which is still to be committed.
void write_one_file(const TensorFile& file, AtomicFile& to);
/// See TensorFile::load.
[[nodiscard]] TensorFile read_one_file(const std::string& path, Device device, const LoadOptions& options);

}  // namespace mezzo::io::detail
