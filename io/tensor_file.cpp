// Parts of a file by the beginnings of their names. Reading and writing are in save_load.cpp.
#include "mezzo/io/tensor_file.h"

namespace mezzo::io {

void TensorFile::add(std::string_view prefix, const NamedTensors& named) {
  for (const auto& [name, tensor] : named) tensors.emplace_back(std::string(prefix) + name, tensor);
}

TensorFile::NamedTensors TensorFile::with_prefix(std::string_view prefix) const {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  }
  return result;
}

}  // namespace mezzo::io
