// Random tensors. Every value comes from a counter of a Philox sequence (core/random.h), so a seed gives the
// same bits on every device and for any number of threads.
//
// Which words: of the four of each block, an element of a dtype up to 32 bits takes one (block i / 4, word
// i % 4) and an element of f64 or a random integer takes two (block i / 2), where i is its row-major index. A
// call reserves ceil(n / 4) or ceil(n / 2) blocks. Values are computed in f32 (f64 for f64; integers exactly)
// and rounded once for 16-bit dtypes.
#pragma once

#include <optional>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/factory.h"

namespace mezzo {

/// How a random tensor is made, and by which numbers: `randn({3}, {.generator = &g})`.
struct RandomOptions {
  std::optional<DType> dtype = {};  ///< f32 unless given, of integers i64
  Device device = Device::cpu();
  bool requires_grad = false;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  Generator* generator = nullptr;  ///< nullptr: the one that is the last argument
};

/// low + (high - low) * u with u uniform in [0, 1), a multiple of 2^-24 (2^-53 in f64). Where rounding would
/// lead out of [low, high) the result is the nearest value of the dtype inside, if there is one.
/// Dtypes: floating (DTypeError).
/// Throws: ValueError unless low <= high and their distance is finite in f32.
[[nodiscard]] Tensor uniform(double low, double high, const Shape& shape, const RandomOptions& options = {},
                             Generator& generator = default_generator());
/// uniform(0, 1).
[[nodiscard]] Tensor rand(const Shape& shape, const RandomOptions& options = {},
                          Generator& generator = default_generator());
/// mean + std * z with z standard normal (Box and Muller's transform, kernels/random/random_math.h).
/// Dtypes: floating (DTypeError).
/// Throws: ValueError unless std >= 0, both finite.
[[nodiscard]] Tensor normal(double mean, double std, const Shape& shape, const RandomOptions& options = {},
                            Generator& generator = default_generator());
/// normal(0, 1).
[[nodiscard]] Tensor randn(const Shape& shape, const RandomOptions& options = {},
                           Generator& generator = default_generator());
// With a dtype or a device in the place of options: `randn({2, 3}, DType::f16)`.
template <detail::OneOption O>
[[nodiscard]] Tensor rand(const Shape& shape, O option, Generator& generator = default_generator()) {
  return rand(shape, detail::only<RandomOptions>(option), generator);
}
template <detail::OneOption O>
[[nodiscard]] Tensor randn(const Shape& shape, O option, Generator& generator = default_generator()) {
  return randn(shape, detail::only<RandomOptions>(option), generator);
}
/// rand and randn of x's shape, dtype and device.
[[nodiscard]] Tensor rand_like(const Tensor& x, Generator& generator = default_generator());
[[nodiscard]] Tensor randn_like(const Tensor& x, Generator& generator = default_generator());
/// Uniform integers in [low, high), i64 unless another dtype is given; no value is favoured by more than
/// (high - low) / 2^64. Throws: ValueError for an empty range or one that the dtype does not hold exactly.
[[nodiscard]] Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                             const RandomOptions& options = {}, Generator& generator = default_generator());
/// A random order of 0 .. n-1 (Fisher and Yates), i64 unless another dtype is given. Made on the host, so not
/// in a captured step (StateError). Throws: ValueError for n below 0, OutOfMemoryError where no memory holds
/// n numbers.
[[nodiscard]] Tensor randperm(std::int64_t n, const RandomOptions& options = {},
                              Generator& generator = default_generator());

/// Bools that are true with the given probability, a multiple of 2^-32, each from one word. Throws:
/// ValueError outside of [0, 1].
[[nodiscard]] Tensor random_mask(double probability, const Shape& shape, Device device = Device::cpu(),
                                 Generator& generator = default_generator());

/// Overwrites x, of any layout, with the values that `uniform` or `normal` would give for its shape and
/// dtype, or, exponential_, with -log(1 - u) / lambda, u of rand; returns x. Never recorded, and allowed on
/// leaves that require grad: for initialisers. Throws: AutogradError for a result of recorded ops while
/// recording is on; ValueError unless lambda is above 0.
const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1,
                       Generator& generator = default_generator());
const Tensor& normal_(const Tensor& x, double mean = 0, double std = 1,
                      Generator& generator = default_generator());
const Tensor& exponential_(const Tensor& x, double lambda = 1, Generator& generator = default_generator());

// --- dropout (pointwise/dropout.cu)

/// While training, x with each element zeroed with probability p and the others divided by 1 - p
/// (torch.nn.functional.dropout); x itself when not training or with p = 0. inf and NaN stay NaN where they
/// are zeroed. One random_mask of x's shape is drawn and kept for the gradient.
/// Shapes: x's.
/// Dtypes: floating (DTypeError) -> x's.
/// Throws: ValueError unless p is in [0, 1]. Source: Srivastava et al., "Dropout", JMLR 15 (2014).
[[nodiscard]] Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
                             Generator& generator = default_generator());
/// Dropout that keeps mean 0 and variance 1, for networks of selu: with probability p an element becomes
/// selu's limit -1.7581, and all are scaled and shifted so that both moments stay. feature_alpha_dropout
/// draws once for each channel of each sample. Contract: dropout's. Source:
/// torch.nn.functional.alpha_dropout; Klambauer et al., arXiv:1706.02515.
[[nodiscard]] Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                                   Generator& generator = default_generator());
[[nodiscard]] Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                                           Generator& generator = default_generator());
/// dropout with a given mask: x * mask / (1 - p), zeros for p = 1. Differentiable to any order.
/// Shapes: x and mask broadcast.
/// Dtypes: x floating, mask bool (DTypeError) -> x's.
[[nodiscard]] Tensor dropout(const Tensor& x, const Tensor& mask, double p);

}  // namespace mezzo
