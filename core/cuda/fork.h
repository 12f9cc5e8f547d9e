// CUDA cannot be used in a child of fork() whose parent has used it: the driver's state is the parent's.
#pragma once

namespace mezzo::detail {

/// Whether this process is a child that was forked after the library was loaded, without an exec since.
[[nodiscard]] bool in_forked_child() noexcept;

}  // namespace mezzo::detail
