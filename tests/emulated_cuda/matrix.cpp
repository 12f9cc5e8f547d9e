// The matrix units: the last lane to come multiplies what all of them hold.
#include "emulated_cuda/matrix.h"

#include <algorithm>
#include <array>

#include "block.h"
#include "emulated_cuda/device.h"
#include "mezzo/core/float16.h"

namespace emulated_cuda {
namespace {

/// What a lane brings to a product.
struct Fragments {
  HalfType type;
  unsigned terms;
  float *c0, *c1;
  const std::uint32_t *a, *b;
};

float number(HalfType type, std::uint32_t pair, unsigned which) {
  const auto bits = static_cast<std::uint16_t>(pair >> 16 * which);
  return type == HalfType::float16 ? static_cast<float>(mezzo::Half::from_bits(bits))
                                   : static_cast<float>(mezzo::BFloat16::from_bits(bits));
}

/// With g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point
/// type" and "for mma.m16n8k8", which has h = 0 only): a[i + 2 h] holds row g + 8 i, columns 8 h + 2 t and
/// the next; b[h] rows 8 h + 2 t and the next, column g; c0[j] and c1[j] rows g and g + 8, column 2 t + j.
void multiply(const std::array<void*, kLanes>& of_lanes) {
  std::array<std::array<float, 16>, 16> a;
  std::array<std::array<float, 8>, 16> b;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto& own = *static_cast<const Fragments*>(of_lanes[lane]);
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned h = 0; h < own.terms / 8; ++h) {
      for (unsigned which = 0; which < 2; ++which) {
        const unsigned k = 8 * h + 2 * t + which;
        for (unsigned i = 0; i < 2; ++i) a[g + 8 * i][k] = number(own.type, own.a[i + 2 * h], which);
        b[k][g] = number(own.type, own.b[h], which);
      }
    }
  }
  const unsigned terms = static_cast<const Fragments*>(of_lanes[0])->terms;
  for (unsigned row = 0; row < 16; ++row) {
    const unsigned first_lane = row % 8 * 4;
    const auto element = [&](unsigned column) -> float& {
      const auto& of = *static_cast<const Fragments*>(of_lanes[first_lane + column / 2]);
      return (row < 8 ? of.c0 : of.c1)[column % 2];
    };
    std::array<float, 8> sums;
    for (unsigned column = 0; column < 8; ++column) sums[column] = element(column);
    for (unsigned k = 0; k < terms; ++k)
      for (unsigned column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    for (unsigned column = 0; column < 8; ++column) element(column) = sums[column];
  }
}

/// What a lane brings to a load of matrices.
struct Places {
  int own;
  int* all;
};

void gather(const std::array<void*, kLanes>& of_lanes) {
  std::array<int, kLanes> places;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    places[lane] = static_cast<const Places*>(of_lanes[lane])->own;
  for (void* const lane : of_lanes) std::copy(places.begin(), places.end(), static_cast<Places*>(lane)->all);
}

}  // namespace

void multiply_add_16x8(HalfType type, unsigned terms, float* c0, float* c1, const std::uint32_t* a,
                       const std::uint32_t* b, const char* file, int line) {
  const int needed = type == HalfType::float16 && terms == 8 ? 75 : 80;
  if (compute_capability() < needed) {
    fail("a product of matrices at %s:%d: expected compute capability %d, got %d", file, line, needed,
         compute_capability());
  }
  Fragments own{type, terms, c0, c1, a, b};
  detail::together(multiply, &own, file, line);
}

void share_places(int place, int (&of)[32], const char* file, int line) {
  Places own{place, of};
  detail::together(gather, &own, file, line);
}

}  // namespace emulated_cuda
