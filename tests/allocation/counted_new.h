// Every call of operator new in this program, its own and the library's, is counted. Apart from the other
// tests because the counting operators are the whole program's.
#pragma once

#include <cstdint>

namespace mezzo::test {

/// Calls since the start.
[[nodiscard]] std::uint64_t news();
/// Bytes that were asked for since the start, whether or not they are held still.
[[nodiscard]] std::uint64_t bytes_asked();
/// Bytes that are held now, as malloc rounds them.
[[nodiscard]] std::uint64_t bytes_held();
/// The most that were held since the last `start_peak`.
[[nodiscard]] std::uint64_t peak_bytes();
void start_peak();

}  // namespace mezzo::test
