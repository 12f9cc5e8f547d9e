// The content of a safetensors file: tensors as bytes, and strings about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mezzo::io {

/// Strings about the file as a whole (`__metadata__`), in order of their keys.
using Metadata = std::map<std::string, std::string, std::less<>>;

/// One tensor: row-major, little-endian bytes at an address that need not be aligned to the element size.
struct TensorEntry {
  std::string name;
  std::string dtype;                       ///< as the format spells it, "F32"
  std::vector<std::int64_t> shape;         ///< empty for a scalar; sizes may be 0
  std::span<const std::byte> bytes;        ///< of the owning SafeTensors, or of the caller when writing
  std::shared_ptr<const void> owner = {};  ///< of the bytes, in an entry taken out of a temporary SafeTensors
};

}  // namespace mezzo::io
