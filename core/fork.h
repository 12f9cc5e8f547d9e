// What a child of fork() must know: of the parent's threads it has only the one that forked.
#pragma once

namespace mezzo::detail {

/// Whether this process is a child that was forked after the library was loaded, without an exec since.
[[nodiscard]] bool in_forked_child() noexcept;

}  // namespace mezzo::detail
