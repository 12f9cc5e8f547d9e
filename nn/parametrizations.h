// Weights that are computed in every forward from other parameters: weight_norm and spectral_norm, for one
// layer and for all layers of a model. Names and state dicts are those of torch.nn.utils.parametrizations.
#pragma once

#include <memory>
#include <optional>

#include "mezzo/nn/conv.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/surgery.h"

namespace mezzo::nn {

/// w = g v / |v|, with the norm over all dims but `dim` (all dims for -1): direction and length are learned
/// apart. At "parametrizations.weight" after weight_norm. Autocast regions leave the formula alone.
/// Source: Salimans and Kingma, arXiv:1602.07868.
class NormedWeight final : public Module {
 public:
  /// `weight` becomes v, and its norm g, so that w is `weight`. Throws: IndexError for a dim that is not
  /// there.
  NormedWeight(const Tensor& weight, std::int64_t dim);
  [[nodiscard]] Tensor forward();
  [[nodiscard]] std::string extra_repr() const override;

  Param original0;  ///< g, of size 1 but in `dim`
  Param original1;  ///< v

 private:
  std::int64_t dim_;
};

/// Options of spectral_norm.
struct SpectralNormOptions {
  std::int64_t n_power_iterations = 1;  ///< in each forward in training
  double eps = 1e-12;                   ///< least norm of u and v
  std::optional<std::int64_t> dim =
      {};                          ///< whose positions are the matrix's rows; 1 for ConvTranspose, else 0
  Generator* generator = nullptr;  ///< of the first u and v; nullptr: the default one
};

/// The vectors of spectral_norm, the module at "parametrizations.weight.0".
struct SingularVectors final : Module {
  SingularVectors(const Tensor& u, const Tensor& v);
  Buffer u, v;  ///< "_u" and "_v"
};

/// w = weight / sigma, where sigma = u^T W v is the largest singular value of weight as a matrix W, whose
/// vectors u and v are followed by power iteration in training. The module at "parametrizations.weight" after
/// spectral_norm. Autocast regions leave the formula alone. Source: Miyato et al., arXiv:1802.05957.
class SpectralWeight final : public Module {
 public:
  /// Throws: ValueError for fewer than one iteration and for an eps that is not positive, IndexError for a
  /// dim that is not there.
  SpectralWeight(const Tensor& weight, std::int64_t dim, const SpectralNormOptions& options);
  [[nodiscard]] Tensor forward();

  Param original;
  Child<SingularVectors> vectors;  ///< "0"; empty for a weight of one dim, which is normalized

 private:
  [[nodiscard]] Tensor as_matrix(const Tensor& weight) const;
  /// u and v after more iterations.
  void iterate(const Tensor& matrix, std::int64_t count);

  std::int64_t dim_, iterations_;
  double eps_;
};

namespace detail {

/// "parametrizations" of a layer.
template <class P>
struct Parametrizations final : Module {
  explicit Parametrizations(const std::shared_ptr<P>& of_weight) : weight(*this, "weight", of_weight) {}
  [[nodiscard]] std::string type_name() const override { return "Parametrizations"; }
  Child<P> weight;
};

/// A layer L whose weight P computes; its own slot `weight` is empty.
template <class L, class P>
class Parametrized final : public L {
 public:
  /// A layer with the same tensors and children. Only while a module is copied (Cloning).
  explicit Parametrized(const L& layer) : L(layer) {}
  [[nodiscard]] std::string type_name() const override;
  /// A layer L with the weight that is computed now.
  [[nodiscard]] std::shared_ptr<L> plain();

  Child<Parametrizations<P>> parametrizations{*this, "parametrizations"};

 protected:
  [[nodiscard]] Tensor computed_weight() const override { return (*parametrizations).weight(); }
};

/// Throws: ValueError in the name of `op` for a class derived from the layer's and for a layer without
/// weight.
void require_plain(const char* op, const Module& layer, const std::type_info& expected, const Tensor& weight);

template <class L>
[[nodiscard]] std::shared_ptr<L> weight_normed(const L& layer, std::int64_t dim);
template <class L>
[[nodiscard]] std::shared_ptr<L> spectral_normed(const L& layer, const SpectralNormOptions& options);

}  // namespace detail

/// The layers that weight_norm and spectral_norm take.
template <class L>
concept Parametrizable = std::same_as<L, Linear> || std::same_as<L, Embedding> || std::same_as<L, Conv1d> ||
    std::same_as<L, Conv2d> || std::same_as<L, Conv3d> || std::same_as<L, ConvTranspose1d> ||
    std::same_as<L, ConvTranspose2d> || std::same_as<L, ConvTranspose3d>;

/// The layer with its weight computed by NormedWeight, or by SpectralWeight; it takes the tensors of the
/// given layer, which is not to be used any more. `nn::Sequential net(nn::weight_norm(nn::Linear(4, 8)))`.
/// Throws: ValueError for a layer of a derived class, or that has a parametrization; IndexError.
template <Parametrizable L>
[[nodiscard]] std::shared_ptr<L> weight_norm(const std::shared_ptr<L>& layer, std::int64_t dim = 0) {
  return detail::weight_normed(*layer, dim);
}
template <class L>
requires Parametrizable<L>
[[nodiscard]] std::shared_ptr<L> weight_norm(L&& layer, std::int64_t dim = 0) {
  return detail::weight_normed(layer, dim);
}
template <Parametrizable L>
[[nodiscard]] std::shared_ptr<L> spectral_norm(const std::shared_ptr<L>& layer,
                                               const SpectralNormOptions& options = {}) {
  return detail::spectral_normed(*layer, options);
}
template <class L>
requires Parametrizable<L>
[[nodiscard]] std::shared_ptr<L> spectral_norm(L&& layer, const SpectralNormOptions& options = {}) {
  return detail::spectral_normed(layer, options);
}

/// weight_norm or spectral_norm of every Linear, Conv and ConvTranspose below `model`; layers of derived
/// classes stay. The report's parameter_pairs tell optimizers what is new (optim::remap).
surgery::Report apply_weight_norm(Module& model, std::int64_t dim = 0);
surgery::Report apply_spectral_norm(Module& model, const SpectralNormOptions& options = {});
/// Puts plain layers in the place of parametrized layers, with the weights that these compute now.
surgery::Report remove_parametrizations(Module& model);

}  // namespace mezzo::nn
