// The loops of attention by panels: what stands between products, for each instruction set.
#include "mezzo/kernels/attention/cpu_panel_loops.h"

#include <algorithm>
#include <limits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/transpose.h"
#include "mezzo/kernels/cpu/vector_loop.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

MEZZO_ALWAYS_INLINE void copy_word(const float* from, float* to) { __builtin_memcpy(to, from, sizeof *to); }

// --- passes over panels

/// The loops of half a panel: rows of 16 numbers, kPanel apart. Sums of weights are taken by fours of rows,
/// side by side, which bounds their rounding errors and the time that an addition waits for another.
struct SoftmaxOfHalf {
  static constexpr int kSums = 4;

  MEZZO_ALWAYS_INLINE static void scale_row(float* row, float scale, float* most) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kVector; ++j) {
      row[j] *= scale;
      most[j] = row[j] > most[j] ? row[j] : most[j];
    }
  }
  MEZZO_ALWAYS_INLINE static void weigh_row(float* row, const float* shift, float* total) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kVector; ++j) {
      const float weight = math::exp_nonpositive(row[j] - shift[j]);
      row[j] = weight;
      total[j] += weight;
    }
  }

  static void run(float* scores, std::int64_t n, float scale, float* largest, float* sum, float* factor) {
    float most[kVector], shift[kVector], totals[kSums][kVector] = {};
    for (float& x : most) x = kMinusInfinity;
    for (std::int64_t i = 0; i < n; ++i) scale_row(scores + i * kPanel, scale, most);
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kVector; ++j) {
      const float before = largest[j], now = most[j] > before ? most[j] : before;
      largest[j] = now;
      shift[j] = attention_shift(now);
      factor[j] = math::exp_nonpositive(before - shift[j]);
    }
    std::int64_t i = 0;
    for (; i + kSums <= n; i += kSums) {
      for (int s = 0; s < kSums; ++s) weigh_row(scores + (i + s) * kPanel, shift, totals[s]);
    }
    for (; i < n; ++i) weigh_row(scores + i * kPanel, shift, totals[0]);
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kVector; ++j)
      sum[j] = sum[j] * factor[j] + ((totals[0][j] + totals[1][j]) + (totals[2][j] + totals[3][j]));
  }
};

struct FinishOfPanel {
  static void run(const float* largest, const float* sum, float* factor, float* logsumexp) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kPanel; ++j) {
      const bool nothing = sum[j] == 0.0F;
      factor[j] = nothing ? 0.0F : 1.0F / sum[j];
      logsumexp[j] = nothing ? kMinusInfinity : attention_shift(largest[j]) + math::log(sum[j]);
    }
  }
};

struct ScaleRows {
  static void run(const float* x, std::int64_t ldx, const float* factors, float* out, std::int64_t ldo,
                  std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = 0; r < rows; ++r, x += ldx, out += ldo) {
      const float factor = factors[r];
      MEZZO_INDEPENDENT_LOOP
      for (std::int64_t c = 0; c < cols; ++c) out[c] = x[c] * factor;
    }
  }
};

struct MaskOfPanel {
  static void run(float* scores, std::int64_t n, float scale, const float* mask) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) scores[i] = scores[i] * scale + mask[i];
  }
};
struct ChoiceOfPanel {
  static void run(float* scores, std::int64_t n, float scale, const float* mask) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) scores[i] = mask[i] == 0.0F ? kMinusInfinity : scores[i] * scale;
  }
};

struct MultiplyPanel {
  static void run(float* weights, const float* factors, std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) weights[i] *= factors[i];
  }
};

struct GradientsOfPanel {
  static void run(PanelGradients p) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const float shift = attention_shift(p.logsumexp[r]), mean = p.means[r];
      float* const products = p.products + r * kPanel;
      float* const through = p.through + r * kPanel;
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kPanel; ++j) {
        const float weight = math::exp_nonpositive(products[j] * p.left - shift);
        products[j] = weight;
        through[j] = weight * (through[j] - mean) * p.scale;
      }
    }
  }
};

}  // namespace

void transpose_to_panel(TileRows<const float> rows, std::int64_t count, std::int64_t cols, float* panel) {
  std::int64_t r = 0;
  for (; r + 4 <= count; r += 4) {
    const float* const from = rows.data + r * rows.ld;
    std::int64_t c = 0;
    for (; c + 4 <= cols; c += 4)
      detail::transpose_square(reinterpret_cast<const std::uint32_t*>(from + c), rows.ld,
                               reinterpret_cast<std::uint32_t*>(panel + c * kPanel + r), kPanel);
    for (; c < cols; ++c) {
      for (int i = 0; i < 4; ++i) copy_word(from + i * rows.ld + c, panel + c * kPanel + r + i);
    }
  }
  if (r == kPanel) return;
  for (std::int64_t c = 0; c < cols; ++c) {
    float* const to = panel + c * kPanel;
    for (std::int64_t i = r; i < count; ++i) copy_word(rows.data + i * rows.ld + c, to + i);
    std::fill_n(to + count, kPanel - count, 0.0F);
  }
}

void PanelSoftmax::clear() {
  std::fill_n(largest, kPanel, kMinusInfinity);
  std::fill_n(sum, kPanel, 0.0F);
}
void PanelSoftmax::step(float* scores, std::int64_t n, float scale) {
  for (std::int64_t at = 0; at < kPanel; at += kVector)
    run_isa<SoftmaxOfHalf>(scores + at, n, scale, largest + at, sum + at, factor + at);
}
void PanelSoftmax::finish(float* logsumexp, std::int64_t count) {
  float all[kPanel];
  run_isa<FinishOfPanel>(static_cast<const float*>(largest), static_cast<const float*>(sum),
                         static_cast<float*>(factor), static_cast<float*>(all));
  std::copy_n(all, count, logsumexp);
}

void scale_rows(TileRows<const float> x, const float* factors, TileRows<float> out, std::int64_t rows,
                std::int64_t cols) {
  run_isa<ScaleRows>(x.data, x.ld, factors, out.data, out.ld, rows, cols);
}
void mask_panel(float* scores, std::int64_t rows, float scale, const float* mask, bool selects) {
  if (selects) return run_isa<ChoiceOfPanel>(scores, rows * kPanel, scale, mask);
  run_isa<MaskOfPanel>(scores, rows * kPanel, scale, mask);
}
void multiply_panel(float* weights, const float* factors, std::int64_t rows) {
  run_isa<MultiplyPanel>(weights, factors, rows * kPanel);
}

void panel_gradients(const PanelGradients& panel) { run_isa<GradientsOfPanel>(panel); }

}  // namespace mezzo::kernels::cpu

#undef MEZZO_KEEP_LOOP
