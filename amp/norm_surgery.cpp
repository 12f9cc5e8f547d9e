// The apply_ calls as one replacement over all norms of a model: which norms stay and why, then the call
// that tells the optimizers. If an optimizer refuses, the model is restored.
#include "mezzo/amp/norm_surgery.h"

#include <algorithm>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/norm.h"
#include "mezzo/optim/remap.h"

namespace mezzo::amp {

namespace {

using nn::surgery::Decision;
using nn::surgery::Report;
using nn::surgery::Subclasses;

/// The arguments of the three functions.
struct Request {
  std::string_view name;  ///< of the function, for messages
  nn::Module& model;
  const NormPrecision& precision;
  const Optimizers& optimizers;
  const NormSurgeryOptions& options;
};

bool has_f64(const nn::Module& module) {
  const auto slots = module.param_slots();
  return std::any_of(slots.begin(), slots.end(), [](const nn::Param* slot) {
    return slot->defined() && slot->get().dtype() == DType::f64;
  });
}

/// Whether nothing is lost when a norm of class Norm or derived from it goes: it overrides nothing, or
/// nothing but what these surgeries put there.
template <class Norm>
bool may_go(const Norm& norm) {
  const std::type_info& type = typeid(norm);
  return type == typeid(Norm) || type == typeid(LPLayerNorm) || type == typeid(LPGroupNorm) ||
         type == typeid(FusedLayerNorm);
}

/// Puts the new parameters into the optimizers. When one refuses, the model is as it was.
void remap(Report& report, const Optimizers& optimizers) {
  if (report.parameter_pairs().empty()) return;
  if (optimizers.empty()) {
    report.add_note("parameters have changed: tell the optimizers with optim::remap");
    return;
  }
  try {
    static_cast<void>(optim::remap(optimizers, report.parameter_pairs()));
  } catch (...) {
    static_cast<void>(report.undo());
    throw;
  }
}

/// Replaces every Norm by make(norm), except those that have that form already (`is_done`).
template <class Norm, class IsDone, class Make>
Report apply(const Request& request, const std::string& done, const IsDone& is_done, const Make& make) {
  for (const optim::Optimizer* optimizer : request.optimizers) {
    if (optimizer == nullptr)
      throw ValueError(request.name, "optimizers", "a null pointer", "pass the address of each");
  }
  Report report;
  if (!request.precision.acts()) {
    report.add_note(request.precision.why_not());
    return report;
  }
  std::size_t already = 0;
  report = nn::surgery::replace<Norm>(
      request.model,
      [&](Norm& norm) -> Decision {
        if (is_done(norm)) {
          ++already;
          return Decision::keep(done);
        }
        if (has_f64(norm)) return Decision::keep("is in f64, which autocast leaves alone");
        if (!may_go(norm) && request.options.subclasses == Subclasses::keep)
          return Decision::keep(nn::surgery::detail::subclass_reason(typeid(Norm)));
        return make(norm);
      },
      {}, Subclasses::replace);
  remap(report, request.optimizers);
  if (!report.empty() && !request.precision.value())
    report.add_note("no precision was given: the norms follow the autocast region they run in");
  if (report.empty() && already > 0 && already == report.kept().size())
    report.add_note("nothing to do: the norms were replaced before");
  return report;
}

template <class Low, class Norm>
Report apply_low_precision(const Request& request) {
  const NormParameters parameters = request.options.parameters;
  return apply<Norm>(
      request, "runs in low precision already",
      [&](const Norm& norm) {
        const auto* const low = dynamic_cast<const Low*>(&norm);
        return low != nullptr && low->norm_parameters() == parameters;
      },
      [&](const Norm& norm) { return nn::make<Low>(norm, parameters); });
}

}  // namespace

Report apply_low_precision_layernorm(nn::Module& model, const NormPrecision& precision,
                                     const Optimizers& optimizers, const NormSurgeryOptions& options) {
  return apply_low_precision<LPLayerNorm, nn::LayerNorm>(
      {"apply_low_precision_layernorm", model, precision, optimizers, options});
}

Report apply_low_precision_groupnorm(nn::Module& model, const NormPrecision& precision,
                                     const Optimizers& optimizers, const NormSurgeryOptions& options) {
  return apply_low_precision<LPGroupNorm, nn::GroupNorm>(
      {"apply_low_precision_groupnorm", model, precision, optimizers, options});
}

Report apply_fused_layernorm(nn::Module& model, const NormPrecision& precision, const Optimizers& optimizers,
                             const NormSurgeryOptions& options) {
  return apply<nn::LayerNorm>(
      {"apply_fused_layernorm", model, precision, optimizers, options}, "is fused already",
      [](const nn::LayerNorm& norm) { return dynamic_cast<const FusedLayerNorm*>(&norm) != nullptr; },
      [](const nn::LayerNorm& norm) { return nn::make<FusedLayerNorm>(norm); });
}

// --- the norm layers: which dtypes they choose inside of an autocast region

namespace {

/// norm(x, weight, bias) of tensors in the region's dtype, the parameters as `kept` says, with autocast off.
template <class Norm>
Tensor in_region(const Tensor& x, const Tensor& weight, const Tensor& bias, NormParameters kept,
                 const Norm& norm) {
  const auto parameter = [&](const Tensor& tensor) {
    return kept == NormParameters::autocast ? cast_to_region(tensor) : tensor;
  };
  const Tensor in = cast_to_region(x), factors = parameter(weight), summands = parameter(bias);
  const Autocast off(x.device(), {}, {.enabled = false});
  return norm(in, factors, summands);
}

template <class Norm>
constexpr bool kIsLayerNorm = std::is_same_v<Norm, nn::LayerNorm>;

}  // namespace

template <class Norm>
Tensor LPNorm<Norm>::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return Norm::forward(x);
  if constexpr (kIsLayerNorm<Norm>)
    this->require_shape(x);
  else
    this->require_channels(x);
  return in_region(x, this->weight, this->bias, parameters_,
                   [this](const Tensor& in, const Tensor& factors, const Tensor& summands) {
                     if constexpr (kIsLayerNorm<Norm>)
                       return layer_norm(in, this->normalized_shape(), factors, summands, this->eps());
                     else
                       return group_norm(in, this->num_groups(), factors, summands, this->eps());
                   });
}

template <class Norm>
std::string LPNorm<Norm>::type_name() const {
  return kIsLayerNorm<Norm> ? "LPLayerNorm" : "LPGroupNorm";
}

template <class Norm>
std::string LPNorm<Norm>::extra_repr() const {
  return Norm::extra_repr() + (parameters_ == NormParameters::f32 ? ", parameters=f32" : "");
}

template class LPNorm<nn::LayerNorm>;
template class LPNorm<nn::GroupNorm>;

FusedLayerNorm::FusedLayerNorm(const nn::LayerNorm& original) : nn::LayerNorm(original, nn::ShareTensors{}) {}

Tensor FusedLayerNorm::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return nn::LayerNorm::forward(x);
  require_shape(x);
  return layer_norm(x, normalized_shape(), weight, bias, eps(), autocast_dtype(x.device().type));
}

}  // namespace mezzo::amp
