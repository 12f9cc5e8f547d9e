// The kinds of values in PyTorch's files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mezzo::io {

/// A kind of value of Python's.
enum class TorchKind : std::uint8_t { none, boolean, integer, real, string, list, tuple, map, tensor };

/// "None", "bool", "int", "float", "str", "list", "tuple", "dict" or "tensor", as Python calls it.
[[nodiscard]] constexpr std::string_view kind_name(TorchKind kind) noexcept {
  constexpr std::array<std::string_view, 9> kNames{"None", "bool",  "int",  "float", "str",
                                                   "list", "tuple", "dict", "tensor"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::io
