// The names of Python's functions, types and constants that files of torch.save have: all that an unpickler
// of state dicts needs to tell apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mezzo/core/dtype.h"

namespace mezzo::io::detail {

/// The meaning of a name.
enum class PickleName : std::uint8_t {
  ordered_dict,
  counter,
  set,
  size,
  device,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  rebuild_parameter_with_state,
  rebuild_from_type,
  tensor_type,
  parameter_type,
  storage_type,  ///< with a dtype, or of bytes
  dtype,
};

struct KnownPickleName {
  PickleName kind;
  std::optional<DType> dtype;  ///< of a storage or a dtype, where mezzo has it
  std::string text;            ///< "torch.float32"
};

/// The meaning of "module" and "name", or nothing for a name that is not known.
[[nodiscard]] std::optional<KnownPickleName> known_pickle_name(std::string_view module,
                                                               std::string_view name);

}  // namespace mezzo::io::detail
