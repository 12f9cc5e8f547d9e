// The matrix products that are timed, A [m, k] times B [k, n]: by every library the same.
#pragma once

#include <cstdint>

namespace bench {

struct Product {
  const char* name;
  std::int64_t m, k, n;
};
inline constexpr Product kProducts[] = {
    {"512x1024x1024", 512, 1024, 1024},   {"512x4096x4096", 512, 4096, 4096},
    {"2048x4096x4096", 2048, 4096, 4096}, {"8192x8192x8192", 8192, 8192, 8192},
    {"128x512x512", 128, 512, 512},       {"32x64x64", 32, 64, 64}};

}  // namespace bench
