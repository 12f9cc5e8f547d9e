// Muon: momentum whose updates are made orthogonal, for matrices in hidden layers.
#pragma once

#include "mezzo/optim/typed_optimizer.h"

namespace mezzo::optim {

/// The factor of lr for a parameter of shape [A, B].
enum class MuonLrAdjustment : std::uint8_t {
  original,            ///< sqrt(max(1, A / B))
  match_rms_adamw,     ///< 0.2 sqrt(max(A, B)), for rates tuned for AdamW
  spectral_unclamped,  ///< sqrt(A / B)
};
}  // namespace mezzo::optim

namespace mezzo {
template <>
inline constexpr std::array<std::string_view, 3> kEnumNames<optim::MuonLrAdjustment>{
    "original", "match_rms_adamw", "spectral_unclamped"};
}  // namespace mezzo

namespace mezzo::optim {

/// torch.optim.Muon's options; ns_a, ns_b and ns_c are its ns_coefficients. It refuses split masters and
/// stochastic rounding.
struct MuonOptions {
  static constexpr std::string_view kOptimizer = "Muon";
  static constexpr bool kNeedsWholeParameters = true;  ///< the update of an element depends on others
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;  ///< below 1
  bool nesterov = true;
  double ns_a = 3.4445, ns_b = -4.775, ns_c = 2.0315;
  double eps = 1e-7;          ///< least norm that an update is divided by
  std::int64_t ns_steps = 5;  ///< in [0, 99]
  MuonLrAdjustment adjust_lr_fn = MuonLrAdjustment::original;
  MasterWeights master_weights = MasterWeights::none;
  bool stochastic_rounding = false;

  MEZZO_FIELDS(MuonOptions, lr, weight_decay, momentum, nesterov, ns_a, ns_b, ns_c, eps, ns_steps,
               adjust_lr_fn, master_weights, stochastic_rounding)
  /// Throws: ValueError unless numbers are finite, and lr, weight_decay and eps not negative.
  void check() const;
};

extern template class TypedOptimizer<MuonOptions>;  // in the library, and not in every file that uses it

/// m += (1 - momentum) (g - m); u = g + momentum (m - g), or m without nesterov; o = u / |u|, then ns_steps
/// times o = a o + (b G + c G G) o with G = o o^T, in bf16; p -= lr weight_decay p + lr' o, where lr' is
/// adjusted.
///
/// Parameters have 2 dims (ShapeError): leave biases, norms, embeddings and the last layer to AdamW.
/// Source: Jordan et al., https://kellerjordan.github.io/posts/muon/, 2024; torch.optim.Muon.
using Muon = TypedOptimizer<MuonOptions>;

}  // namespace mezzo::optim
