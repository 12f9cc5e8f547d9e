// The pickle inside a file of torch.save, read by an unpickler that knows what state dicts need and nothing
// else: tensors, dicts, lists, tuples, numbers and strings. It calls nothing and imports nothing; the names
// of Python's functions in a file are compared with a list, and any other is refused by its name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/io/detail/torch/pickled.h"

namespace mezzo::io::detail {

/// Reads a pickle of protocol 2 to 5, called `pickle` in messages, which is all of `bytes`, or begins them
/// where `used` is to say its length. Throws: IoError, beginning with `op`, for malformed bytes, for opcodes
/// and names that are not known, for more than kMaxTorchValues values or kMaxTorchDepth levels, for values
/// that contain themselves, and for keys of a dict that occur twice or are no strings or integers. Whether
/// tensors fit into their storages is not checked. Takes at most 160 bytes of memory for each byte of the
/// pickle, and for each value.
[[nodiscard]] Pickled unpickle(const std::string& op, std::span<const std::byte> bytes,
                               std::string_view pickle = "data.pkl", std::size_t* used = nullptr);

}  // namespace mezzo::io::detail
