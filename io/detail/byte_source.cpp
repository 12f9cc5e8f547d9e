// The base of all sources of bytes, and the source of plain files.
#include "mezzo/io/detail/byte_source.h"

#include <algorithm>

#include "mezzo/core/error.h"

namespace mezzo::io::detail {

void ByteSource::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const std::size_t count = read_some(out);
    if (count == 0) {
      throw IoError(op_, std::to_string(out.size()) + " more bytes", "the end of the file",
                    "fetch or write the file again");
    }
    out = out.subspan(count);
  }
}

void ByteSource::expect_end(std::uint64_t size) {
  std::byte next{};
  if (read_some({&next, 1}) == 0) return;
  throw IoError(op_, "the end after " + std::to_string(size) + " bytes", "more",
                "fetch or write the file again");
}

std::size_t FileRange::read_some(std::span<std::byte> out) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), rest_));
  if (count == 0) return 0;
  if (!is_there_) file_.seek(begin_);
  is_there_ = true;
  file_.read(out.first(count));
  rest_ -= count;
  return count;
}

}  // namespace mezzo::io::detail
