// Pieces are cut into parts, which threads take one by one.
#include "mezzo/io/detail/file_pieces.h"

#include <algorithm>
#include <vector>

#include "mezzo/kernels/cpu/parallel.h"

namespace mezzo::io::detail {

void read_pieces(const InputFile& file, std::span<const FilePiece> pieces) {
  constexpr std::size_t kMost = std::size_t{8} << 20U;
  std::vector<FilePiece> parts;
  parts.reserve(pieces.size());
  for (const FilePiece& piece : pieces) {
    for (std::size_t at = 0; at < piece.bytes.size(); at += kMost)
      parts.push_back({piece.bytes.subspan(at, std::min(kMost, piece.bytes.size() - at)), piece.begin + at});
  }
  // Small parts go together, so that a chunk is worth a thread.
  const auto count = static_cast<std::int64_t>(parts.size());
  std::size_t total = 0;
  for (const FilePiece& part : parts) total += part.bytes.size();
  const auto chunks = static_cast<std::int64_t>(total / kMost + 1);
  kernels::cpu::parallel_for(
      count, (count + chunks - 1) / chunks, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
          file.read_at(parts[static_cast<std::size_t>(i)].begin, parts[static_cast<std::size_t>(i)].bytes);
      });
}

}  // namespace mezzo::io::detail
