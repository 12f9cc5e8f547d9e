// The names of the kinds.
#include "mezzo/io/torch_kind.h"

#include <array>
#include <cstddef>

namespace mezzo::io {

std::string_view kind_name(TorchKind kind) noexcept {
  constexpr std::array<std::string_view, 9> names{"None", "bool",  "int",  "float", "str",
                                                  "list", "tuple", "dict", "tensor"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::io
