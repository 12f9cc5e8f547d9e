// The body of a loop, called once per chunk.
#pragma once

#include <cstdint>

namespace mezzo::detail {

using ChunkFunction = void (*)(void* context, std::int64_t chunk);

}  // namespace mezzo::detail
