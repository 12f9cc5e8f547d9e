// The kinds of values in PyTorch's files.
#pragma once

#include <cstdint>
#include <string_view>

namespace mezzo::io {

/// A kind of value of Python's.
enum class TorchKind : std::uint8_t { none, boolean, integer, real, string, list, tuple, map, tensor };

/// "None", "bool", "int", "float", "str", "list", "tuple", "dict" or "tensor", as Python calls it.
[[nodiscard]] std::string_view kind_name(TorchKind kind) noexcept;

}  // namespace mezzo::io
