// Norm layers in 16 bits: the layers, and the calls that put them into a model.
//   amp::apply_low_precision_layernorm(net, "amp_bf16");
#pragma once

#include <vector>

#include "mezzo/amp/precision.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/surgery.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::amp {

/// How a low-precision norm takes its parameters inside of a region.
enum class NormParameters : std::uint8_t {
  autocast,  ///< in the region's dtype, the copies that autocast keeps
  f32,       ///< as they are
};

// Common to the layers. Inside an autocast region for the input's device: input and parameters in the
// region's dtype, statistics in f32, one rounding, result in the region's dtype; gradients of f32 parameters
// are computed and arrive in f32. Outside of a region, and for f64: the layer that was replaced. Each shares
// the parameters of the layer it is made from and is derived from that layer's class, so it fits into the
// same slot.

/// nn::LayerNorm or nn::GroupNorm in low precision.
template <class Norm>
class LPNorm final : public Norm {
 public:
  explicit LPNorm(const Norm& original, NormParameters parameters = NormParameters::autocast)
      : Norm(original, nn::ShareTensors{}), parameters_(parameters) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string type_name() const override;
  [[nodiscard]] std::string extra_repr() const override;
  [[nodiscard]] NormParameters norm_parameters() const noexcept { return parameters_; }

 private:
  NormParameters parameters_;
};
extern template class LPNorm<nn::LayerNorm>;
extern template class LPNorm<nn::GroupNorm>;
using LPLayerNorm = LPNorm<nn::LayerNorm>;
using LPGroupNorm = LPNorm<nn::GroupNorm>;

/// nn::LayerNorm in one kernel, which reads input and parameters in the dtypes they have and writes the
/// region's dtype, so no cast comes before it. (An f32 input is normalized as f32, where LPLayerNorm rounds
/// it first.)
class FusedLayerNorm final : public nn::LayerNorm {
 public:
  explicit FusedLayerNorm(const nn::LayerNorm& original);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// Optimizers of the model's parameters. In each optimizer new parameters take the place of replaced ones
/// (`optim::remap`).
using Optimizers = std::vector<optim::Optimizer*>;

struct NormSurgeryOptions {
  NormParameters parameters = NormParameters::autocast;  ///< of low-precision norms; fused ones do not ask
  /// Replace modules of classes derived from the norm too, which loses what they override.
  nn::surgery::Subclasses subclasses = nn::surgery::Subclasses::keep;
};

/// Replace every nn::LayerNorm (or nn::GroupNorm) below `model` by its low-precision or fused form; a norm
/// that has one of these forms already can get another. Parameters stay the same tensors, so optimizers and
/// checkpoints stay valid; parameters that a derived class adds are taken out of the `optimizers`. Norms with
/// f64 parameters stay. amp_fp16 and amp_bf16 are alike: the dtype is the one of the region that a norm runs
/// in. The precisions fp32 and fp16 change nothing; the report says why, and so it does when there is nothing
/// to replace. Throws: as surgery::replace and optim::remap, and ValueError for a null pointer; the model is
/// as it was then.
nn::surgery::Report apply_low_precision_layernorm(nn::Module& model, const NormPrecision& precision = {},
                                                  const Optimizers& optimizers = {},
                                                  const NormSurgeryOptions& options = {});
nn::surgery::Report apply_low_precision_groupnorm(nn::Module& model, const NormPrecision& precision = {},
                                                  const Optimizers& optimizers = {},
                                                  const NormSurgeryOptions& options = {});
nn::surgery::Report apply_fused_layernorm(nn::Module& model, const NormPrecision& precision = {},
                                          const Optimizers& optimizers = {},
                                          const NormSurgeryOptions& options = {});

}  // namespace mezzo::amp
