// Elements of up to eight bytes, reversed in place.
#include "mezzo/io/detail/byte_order.h"

#include <algorithm>

namespace mezzo::io::detail {

void reverse_elements(std::span<std::byte> bytes, std::size_t size) noexcept {
  if (size < 2) return;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const std::span<std::byte> element = bytes.subspan(i, size);
    std::reverse(element.begin(), element.end());
  }
}

}  // namespace mezzo::io::detail
