// Identity, Flatten and Unflatten: layers that change no value, for use in Sequential.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// x itself: stands in for a layer that was taken out.
class Identity final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override { return x; }
};

/// `flatten` (ops/shape.h): dims start_dim to end_dim as one, by default all but the batch. Throws: what
/// `flatten` throws.
class Flatten final : public Layer {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1)
      : start_dim_(start_dim), end_dim_(end_dim) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  std::int64_t start_dim_, end_dim_;
};

/// Dim `dim` as several, of sizes `unflattened_size`, one of which may be -1: what is left. Throws:
/// ValueError for no sizes, those below -1, and -1 twice; forward throws ShapeError, naming the layer's path,
/// when the sizes do not make up the dim, and IndexError for a dim that is not there.
class Unflatten final : public Layer {
 public:
  Unflatten(std::int64_t dim, const Shape& unflattened_size);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  std::int64_t dim_;
  Shape sizes_;
};

}  // namespace mezzo::nn
