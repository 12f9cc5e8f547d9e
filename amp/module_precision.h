// Rules of precision by module: regions of autocast that open around the calls of the modules they name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/float8.h"
#include "mezzo/core/dtype.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

/// The rule of a module that runs as outside of autocast.
struct NoAutocast {};
inline constexpr NoAutocast no_autocast;
/// The rule of a module whose products run in float8, in 16 bits besides: the surrounding region's dtype,
/// else f16 on CUDA and bf16 on the CPU.
inline const Fp8 fp8{};

/// In what a module runs: f16, bf16 or f32, without float8; no_autocast; or fp8, also with options of its
/// own.
struct PrecisionRule {
  PrecisionRule(DType region) : dtype(region) {}
  PrecisionRule(NoAutocast /*none*/) {}
  PrecisionRule(Fp8 options) : float8(std::move(options)) {}

  std::optional<DType> dtype = {};
  std::optional<Fp8> float8 = {};
};
/// Paths, or regular expressions (ECMAScript) that match paths in full, and their rules.
using PrecisionRules = std::vector<std::pair<std::string, PrecisionRule>>;

namespace detail {
/// Opens the region of a rule on this thread. `float8`: the number of its float8 options; 0: none.
[[nodiscard]] mezzo::detail::OpenScope<InputHookState>* begin_rule(const PrecisionRule& rule,
                                                                   std::uint64_t float8);
}  // namespace detail

/// Precision by module, as long as the object lives:
///   const amp::ModulePrecision rules(net, {{"head", DType::f32},
///                                          {"blocks\\.[0-9]+\\.attn", DType::bf16},
///                                          {"embed", amp::no_autocast},
///                                          {"fc", amp::fp8}});
/// A rule opens a region around each call of its module (`net(x)`, `child(x)`; not `child.forward(x)`),
/// inside of a region and outside of any, on every thread and device, and when checkpointed layers run again.
/// Of modules that contain each other the inner one's rule counts. A text that is the path of a module is
/// meant as that ("" is `net`), any other as a pattern. Rules stay with clones and with what surgery puts in
/// a module's place; a module that surgery brings besides has none. Throws: ValueError for a rule that
/// matches no module, for one that is no regular expression, for a module that two rules match, and what
/// Autocast throws for a dtype or float8 options; StateError for a module that has a rule of another object.
/// Nothing has changed then.
class ModulePrecision : mezzo::detail::NoCopy {
 public:
  ModulePrecision(nn::Module& net, const PrecisionRules& rules);
  ~ModulePrecision();

 private:
  class Region;
  std::vector<std::shared_ptr<Region>> regions_;
};

}  // namespace mezzo::amp
