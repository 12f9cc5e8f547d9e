// How many multiplications an op takes, from the shapes of its inputs and results.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/autograd/op.h"

namespace mezzo::nn {

/// The multiplications, each with its addition, of the matrix products, convolutions, attention and recurrent
/// cells: k for each element of a sum of k products. Nothing else counts: no biases, factors, norms or
/// activations (torchinfo counts parameters per place instead, biases and norms too; for Linear layers of
/// matrices and for convolutions, both without bias, the numbers are the same). Multiplications with
/// padding's zeros count, and those that a causal or other mask leaves out. So do those of gradients, but of
/// recurrent sequences. 0 for all other ops; nullopt for
/// einsum, chain_matmul and multi_dot, for which shapes do not say.
[[nodiscard]] std::optional<std::int64_t> mult_adds(const OpInfo& info, Inputs inputs,
                                                    const Outputs& outputs);

}  // namespace mezzo::nn
