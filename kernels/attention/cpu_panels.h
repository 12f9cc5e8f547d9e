// Attention in f32 by panels: all calls but small calls, f64 and a few queries. A panel is 32 rows of scores
// side by side, of queries forward and of keys backward, so that what stands between the products works on
// whole vectors; the products with them follow the diagonal within 8 rows. Products are loops of our own
// (cpu_panel_loops.cpp): their tiles are too small to pay for an engine's call and packing.
#pragma once

#include <cstdint>

#include "mezzo/kernels/attention/cpu_heads.h"

namespace mezzo::kernels::cpu {

/// Whether a call goes by panels. Not those whose products are small, which have the same bits on every
/// instruction set, nor calls of a few queries, which would waste a panel of 32.
[[nodiscard]] bool goes_by_panels(const Attention& attention);
void attention_by_panels(const Attention& attention, const View& out, float* logsumexp);
void attention_backward_by_panels(const Attention& attention, const GradientViews& gradients,
                                  const View& grad, const View& out, const float* logsumexp);

}  // namespace mezzo::kernels::cpu
