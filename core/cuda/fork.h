// What a child of fork() must know: the driver's state in it is its parent's, and of no use.
#pragma once

namespace mezzo::detail {

/// Whether this process is a child that was forked after the library was loaded, without an exec since.
[[nodiscard]] bool in_forked_child() noexcept;

}  // namespace mezzo::detail
