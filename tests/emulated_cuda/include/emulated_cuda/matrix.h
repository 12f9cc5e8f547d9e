// What the matrix units of a GPU do for a warp (PTX: mma, ldmatrix), in the fragments that PTX gives to
// lanes. All 32 lanes have to come to the same call.
#pragma once

#include <cstdint>

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

namespace emulated_cuda {

enum class HalfType : unsigned char { float16, bfloat16 };

/// C += A B over 16 or 8 `terms` (PTX: mma.sync.m16n8k<terms>.row.col.f32.<type>.<type>.f32). Of this lane:
/// a[4] and b[2], or a[2] and b[1], with two elements each, c0[2] and c1[2]. Products are exact and added one
/// by one in f32, by rising k. Aborts where the devices' compute capability has no such instruction.
void multiply_add_16x8(HalfType type, unsigned terms, float* c0, float* c1, const std::uint32_t* a,
                       const std::uint32_t* b, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE());

/// The places that all lanes give: of[lane].
void share_places(int place, int (&of)[32], const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace emulated_cuda

#pragma GCC visibility pop
