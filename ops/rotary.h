// Rotary positions: pairs of features turned by angles that depend on where they stand. Tables of angles for
// a model are made by nn::RotaryEmbedding (nn/positions.h).
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

/// Turns each pair (a, b) of features to (a cos - b sin, a sin + b cos). The first 2 R features are R pairs:
/// feature r with feature r + R, as in LLaMA's files for Hugging Face, or if `interleaved` 2 r with 2 r + 1,
/// as in the paper. The features behind them stay.
/// Shapes: x [.., D] with D of at least 2 R; cos and sin of one shape [.., R], which broadcasts to x's but
/// for the last dim, [L, R] for x [N, H, L, D] say -> x's. Dtypes: floating, each its own -> x's. Computed in
/// f32 (f64 for an f64 x) and rounded once; autocast leaves them.
///
/// Differentiable to any order, in cos and sin too.
/// Throws: DTypeError, ShapeError. Source: Su et al., "RoFormer", 2021.
[[nodiscard]] Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin,
                                  bool interleaved = false);

}  // namespace mezzo
