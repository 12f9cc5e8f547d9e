// The loops of panel products, for each instruction set: sums of a few rows by two vectors stay in registers.
#include "mezzo/kernels/gemm/cpu_panel.h"

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/multiversion.h"

namespace mezzo::kernels::cpu {
namespace {

/// Neighbours of a row as one value, see gemm/cpu_loops.cpp.
template <int Bytes>
using Floats [[gnu::vector_size(Bytes)]] = float;

template <class V>
MEZZO_ALWAYS_INLINE void load_floats(V& value, const float* from) {
  __builtin_memcpy(&value, from, sizeof value);
}
template <class V>
MEZZO_ALWAYS_INLINE void store_floats(const V& value, float* to) {
  __builtin_memcpy(to, &value, sizeof value);
}

/// Blocks of kRows rows by up to two vectors V, whose sums stay in registers.
template <class V, int kRows>
struct PanelLoops {
  static constexpr int kLanes = static_cast<int>(sizeof(V) / sizeof(float));

  template <int Rows, int Count>
  MEZZO_ALWAYS_INLINE static void block(const PanelProduct& t, std::int64_t i, std::int64_t j) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
    const float* a = t.a + i * t.a_row;
    const float* b = t.b + j;
    V sum[Rows][Count];
    MEZZO_WRITE_OUT
    for (int r = 0; r < Rows; ++r) {
      MEZZO_WRITE_OUT
      for (int q = 0; q < Count; ++q) sum[r][q] = V{};
    }
    for (std::int64_t p = 0; p < t.k; ++p, a += t.a_step, b += t.ldb) {
      V right[Count];
      MEZZO_WRITE_OUT
      for (int q = 0; q < Count; ++q) load_floats(right[q], b + q * kLanes);
      MEZZO_WRITE_OUT
      for (int r = 0; r < Rows; ++r) {
        const float left = a[r * t.a_row];
        MEZZO_WRITE_OUT
        for (int q = 0; q < Count; ++q) sum[r][q] += left * right[q];
      }
    }
    float* const c = t.c + i * t.ldc + j;
    if (t.keep != nullptr) {
      const float* const keep = t.keep + i * t.keep_step;
      MEZZO_WRITE_OUT
      for (int r = 0; r < Rows; ++r) {
        const float factor = keep[r * t.keep_step];
        MEZZO_WRITE_OUT
        for (int q = 0; q < Count; ++q) {
          V old;
          load_floats(old, c + r * t.ldc + q * kLanes);
          sum[r][q] += factor * old;
        }
      }
    }
    MEZZO_WRITE_OUT
    for (int r = 0; r < Rows; ++r) {
      MEZZO_WRITE_OUT
      for (int q = 0; q < Count; ++q) store_floats(sum[r][q], c + r * t.ldc + q * kLanes);
    }
  }

  template <int Count>
  MEZZO_ALWAYS_INLINE static void columns(const PanelProduct& t, std::int64_t j) {
    std::int64_t i = 0;
    for (; i + kRows <= t.m; i += kRows) block<kRows, Count>(t, i, j);
    for (; i + 4 <= t.m; i += 4) block<4, Count>(t, i, j);
    for (; i + 2 <= t.m; i += 2) block<2, Count>(t, i, j);
    if (i < t.m) block<1, Count>(t, i, j);
  }

  MEZZO_ALWAYS_INLINE static void run(const PanelProduct* product) {
    const PanelProduct t = *product;
    std::int64_t j = 0;
    for (; j + 2 * kLanes <= t.n; j += 2 * kLanes) columns<2>(t, j);
    for (; j + kLanes <= t.n; j += kLanes) columns<1>(t, j);
  }
};

// g++ fuses a product and a sum by the options of the function that all is inlined into; clang by the pragma
// in block().
#if defined(__clang__)
#define MEZZO_FUSING
#else
#define MEZZO_FUSING gnu::optimize("fp-contract=fast"),
#endif

#if defined(__x86_64__)
[[ MEZZO_TARGET_V3, MEZZO_FUSING gnu::flatten, gnu::noinline ]] void panel_product_v3(const PanelProduct* t) {
  PanelLoops<Floats<32>, 6>::run(t);
}
[[ MEZZO_TARGET_V4, MEZZO_FUSING gnu::flatten, gnu::noinline ]] void panel_product_v4(const PanelProduct* t) {
  PanelLoops<Floats<64>, 8>::run(t);
}
#elif defined(__aarch64__)
[[ MEZZO_FUSING gnu::flatten, gnu::noinline ]] void panel_product_arm(const PanelProduct* t) {
  PanelLoops<Floats<16>, 8>::run(t);
}
#endif
#undef MEZZO_FUSING

}  // namespace

void panel_product(const PanelProduct& product) {
#if defined(__x86_64__)
  if constexpr (!detail::kOneVariant) {
    switch (isa()) {
      case Isa::v4:
        return panel_product_v4(&product);
      case Isa::v3:
        return panel_product_v3(&product);
      case Isa::base:
        break;
    }
  }
#endif
#if defined(__aarch64__)
  panel_product_arm(&product);
#else
  detail::run_base<PanelLoops<Floats<16>, 4>>(&product);
#endif
}

}  // namespace mezzo::kernels::cpu
