// The apply_ calls as one replacement over all norms of a model: which norms stay and why, then the call
// that tells the optimizers. If an optimizer refuses, the model is restored.
#include "mezzo/amp/norm_surgery.h"

#include <algorithm>

#include "mezzo/core/error.h"
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

}  // namespace mezzo::amp
