// Training parameters of 16 bits: what keeps updates that are smaller than half of a parameter's last place.
#pragma once

#include "mezzo/core/value.h"

namespace mezzo::optim {

/// The option `master_weights`, of 16-bit parameters: `true` keeps an f32 master of each and updates that.
/// `MasterWeights::split` makes the same steps, bit for bit, in 2 bytes a parameter in place of 4: the
/// optimizer keeps the low half of each master, and a bf16 parameter is the other half. So a parameter is its
/// master rounded half away from zero, where `true` rounds half to even, and one that somebody else writes
/// keeps its low half: its master is the written value to within half of its last place. State dicts hold f32
/// masters, and a load keeps the optimizer's own kind. f16 parameters: DTypeError.
///
/// The option `stochastic_rounding`, of 16-bit parameters without masters: a step rounds up or down at
/// random, so that the mean is what f32 has, and representable values stay. The same bits on every device,
/// for any number of threads and ranks and after a load: they depend on the number of the parameter in the
/// optimizer, the element and the count of steps alone. What is finite stays finite.
///
/// Sources: TransformerEngine's store_param_remainders; Zamirai et al., arXiv:2010.06192.
class MasterWeights {
 public:
  enum Kind : std::uint8_t { none, f32, split };

  constexpr MasterWeights(Kind kind) : kind_(kind) {}
  constexpr MasterWeights(bool any) : kind_(any ? f32 : none) {}
  constexpr explicit operator bool() const { return kind_ != none; }
  friend constexpr bool operator==(MasterWeights, MasterWeights) = default;

  static constexpr std::string_view kTypeName = "bool or \"split\"";
  [[nodiscard]] static MasterWeights from_value(const Value& value);
  [[nodiscard]] Value to_value() const;

 private:
  Kind kind_;
};

/// Throws: ValueError in the name of `optimizer` for options that exclude each other, or that one cannot have
/// whose update of an element depends on others (not `is_elementwise`).
void check_narrow_parameters(std::string_view optimizer, MasterWeights masters, bool stochastic_rounding,
                             bool is_elementwise);

}  // namespace mezzo::optim
