// Many bytes of a file, read right to where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

/// Memory to be filled with the bytes of a file from `begin` on.
struct FilePiece {
  std::span<std::byte> bytes;
  std::uint64_t begin = 0;
};

/// Fills the pieces, on as many threads as get_num_threads() says: finding pages for new memory takes longer
/// than copying into them. Throws: IoError when the file ends before.
void read_pieces(const InputFile& file, std::span<const FilePiece> pieces);

}  // namespace mezzo::io::detail
