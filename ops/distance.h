// How far apart tensors are, and scaling by norms.
//
// Common contract. Dtypes: floating (DTypeError) -> the inputs' common one, f32 under autocast. 16-bit values
// are computed in f32 and rounded once. Norms are those of ops/reduction.h, with their conventions for
// gradients: 0 where a norm or an element is 0. Differentiable to any order.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/reduction.h"

namespace mezzo {

/// sum of a b / (max(|a|, eps) max(|b|, eps)) along `dim` of the broadcast shape, with Euclidean norms.
/// Source: torch.nn.functional.cosine_similarity.
[[nodiscard]] Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim = 1,
                                       double eps = 1e-8);
/// x / max(|x|_p, eps) with the norm over `dim`, one or several. Source: torch.nn.functional.normalize.
[[nodiscard]] Tensor normalize(const Tensor& x, double p = 2, const ReducedDims& dim = 1, double eps = 1e-12);
/// x with every slice along `dim` whose p-norm exceeds maxnorm scaled by maxnorm / (norm + 1e-7). Throws:
/// ShapeError for fewer than 2 dims, ValueError unless p > 0 and maxnorm >= 0.
[[nodiscard]] Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);
/// The p-norms between the rows of a and the rows of b. All differences are formed, so it takes memory for P
/// R M elements.
/// Shapes: a [.., P, M], b [.., R, M] -> [.., P, R]; dims before broadcast.
/// Throws: ShapeError for fewer than 2 dims and for rows of different length, ValueError for a negative p.
[[nodiscard]] Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);
/// The p-norms between all pairs of rows of x in the order (0, 1), (0, 2), ..., (N - 2, N - 1): one pass per
/// row, for at most 32768 rows (ValueError).
/// Shapes: [N, M] -> [N (N - 1) / 2].
/// Throws: ShapeError unless x has 2 dims, ValueError for a negative p. Source: torch.nn.functional.pdist.
[[nodiscard]] Tensor pdist(const Tensor& x, double p = 2);

}  // namespace mezzo
