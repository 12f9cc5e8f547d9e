// Surgery: modules of a model exchanged for others, by type or predicate, with a report that prints, that
// tells optimizers which parameters changed, and that can undo everything.
//   std::cout << surgery::replace<nn::ReLU>(net, [](nn::ReLU&) { return nn::make<nn::GELU>(); });
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn::surgery {

namespace detail {
/// Why a module of a derived class is kept.
[[nodiscard]] std::string subclass_reason(const std::type_info& base);
/// All modules below `root`, without it, each once. (Without their paths, which in a deep model are long.)
[[nodiscard]] std::vector<const Module*> modules_below(const Module& root);
}  // namespace detail

/// The module that a rule matched, as the rule sees it.
struct Match {
  std::string path;       ///< the first of its paths, in the model as it will be
  std::size_t index = 0;  ///< how many modules the same rule matched before
  /// The module itself, which the replacement may hold.
  std::shared_ptr<Module> module = {};
};

/// The answer of a rule: another module, or why the module stays.
class Decision {
 public:
  template <std::derived_from<Module> T>
  Decision(std::shared_ptr<T> module) : replacement(std::move(module)) {}
  Decision(std::nullptr_t) {}
  /// The module stays.
  static Decision keep(std::string why);

  std::shared_ptr<Module> replacement;  ///< nullptr, or the module itself: it stays
  std::string why;                      ///< it stays

 private:
  explicit Decision(std::string reason) : why(std::move(reason)) {}
};

/// One entry of an operation: which modules, and what becomes of each.
struct Rule {
  std::string what;  ///< of the modules it is about, for the report: "LayerNorm"
  mezzo::detail::Function<bool(const Module&)> matches;
  mezzo::detail::Function<Decision(Module&, const Match&)> decide;
};

/// Whether a rule by type matches that very class only, or classes derived from it too.
enum class Subclasses : std::uint8_t { keep, replace };

/// A rule for the modules of type From. `decide` takes (From&) or (From&, const Match&) and gives a shared
/// pointer to a module (nullptr: the module stays) or a Decision. With Subclasses::keep, modules of derived
/// classes stay and are reported, because what they override would be lost.
template <std::derived_from<Module> From, class F>
[[nodiscard]] Rule of_type(F decide, Subclasses subclasses = Subclasses::keep);

struct Options {
  /// Look at replacements and the modules they bring too. A rule is not asked about what it brought itself,
  /// so this ends.
  bool recurse = false;
  /// What replacements bring keeps its dtype.
  bool keep_dtype = false;
};

/// One exchange that was made.
struct Replaced {
  std::vector<std::string> paths;  ///< all places of a shared module, in the model's order, one path each
  std::shared_ptr<Module> before, after;
};
/// A module that a rule matched, or almost matched, and that stays.
struct Kept {
  std::string path;
  std::string type;
  std::string why;
};

/// The report of a surgery. It holds the modules that were taken out.
class Report {
 public:
  [[nodiscard]] const std::vector<Replaced>& replaced() const& noexcept { return replaced_; }
  [[nodiscard]] std::vector<Replaced> replaced() && { return std::move(replaced_); }
  [[nodiscard]] const std::vector<Kept>& kept() const& noexcept { return kept_; }
  [[nodiscard]] std::vector<Kept> kept() && { return std::move(kept_); }
  /// Remarks about the whole: why nothing was done, what a user should know.
  [[nodiscard]] const std::vector<std::string>& notes() const& noexcept { return notes_; }
  [[nodiscard]] std::vector<std::string> notes() && { return std::move(notes_); }
  void add_note(std::string note);
  /// Whether the model is as it was.
  [[nodiscard]] bool empty() const noexcept;

  /// Parameters that are not the same tensors any more, (before, after): by name within each exchanged module
  /// and the modules below it; `after` is undefined for a parameter without successor, `before` for a new
  /// parameter, which stands behind the others of its module. A parameter that is in the model before and
  /// after is not listed. For `optim::remap`.
  [[nodiscard]] const std::vector<std::pair<Tensor, Tensor>>& parameter_pairs() const& noexcept {
    return pairs_;
  }
  [[nodiscard]] std::vector<std::pair<Tensor, Tensor>> parameter_pairs() && { return std::move(pairs_); }

  /// Puts the former modules back into all their places and returns a report, which can be undone too; this
  /// one is empty then. Where mode, device or (without keep_dtype) dtype of the replacement has changed
  /// meanwhile, the former module follows. The model must be alive. Surgeries are undone in reverse order:
  /// throws StateError, having changed nothing, when a place is not in the model or holds another module than
  /// its replacement.
  Report undo();

 private:
  friend class Operation;
  struct Place {
    ChildSlot* slot;
    std::size_t replaced, path;  ///< indices
  };
  Module* root_ = nullptr;
  bool keeps_dtype_ = false;
  std::vector<Replaced> replaced_;
  std::vector<Kept> kept_;
  std::vector<std::string> notes_;
  std::vector<Place> places_;
  std::vector<std::pair<Tensor, Tensor>> pairs_;
};

/// A table of path, old and new type, and of what stayed and why; then the notes.
[[nodiscard]] std::string to_string(const Report& report);
std::ostream& operator<<(std::ostream& stream, const Report& report);

/// Applies the rules below `root`; of several that match a module the first counts. Modules are visited depth
/// first in order of declaration, each once; a shared one is exchanged in all its places. `root` itself has
/// no place and stays; that it matched is reported.
///
/// A replacement may hold modules of the model, which are visited there, and the one it replaces too
/// (LayerNorm -> Residual(LayerNorm)). Such wrapping is done once: a module that sits in one of the same
/// types already is kept. One replacement may serve several modules. Modules that a replacement adds get the
/// mode (training or evaluation) of the replaced module; their tensors get its device and, if floating and
/// without keep_dtype, its dtype (those of its first tensor, or of the model's); the successor of a frozen
/// parameter is frozen.
///
/// All is decided and checked before the first exchange: when a rule throws, a slot refuses a replacement
/// (ValueError with path, expected and given type), or the model would contain itself (ValueError), it is as
/// it was. ValueError also for a rule without functions. Rules must not change the model themselves. Takes
/// time in proportion to the size of the model.
Report replace(Module& root, const std::vector<Rule>& rules, const Options& options = {});

/// replace with one rule by type: see of_type.
template <std::derived_from<Module> From, class F>
Report replace(Module& root, F decide, const Options& options = {},
               Subclasses subclasses = Subclasses::keep) {
  return replace(root, std::vector<Rule>{of_type<From>(std::move(decide), subclasses)}, options);
}
/// replace with one rule by predicate.
Report replace_if(Module& root, mezzo::detail::Function<bool(const Module&)> predicate,
                  mezzo::detail::Function<Decision(Module&, const Match&)> decide,
                  const Options& options = {});

/// How many modules below `root` (without it) are T or derived from T, a shared one counted once.
template <std::derived_from<Module> T>
[[nodiscard]] std::size_t count(const Module& root) {
  std::size_t found = 0;
  for (const Module* module : detail::modules_below(root))
    found += dynamic_cast<const T*>(module) != nullptr ? 1 : 0;
  return found;
}

// --- inline

template <std::derived_from<Module> From, class F>
Rule of_type(F decide, Subclasses subclasses) {
  return {nn::detail::type_text(typeid(From)),
          [](const Module& module) { return dynamic_cast<const From*>(&module) != nullptr; },
          [decide = std::move(decide), subclasses](Module& module, const Match& match) -> Decision {
            if (subclasses == Subclasses::keep && typeid(module) != typeid(From))
              return Decision::keep(detail::subclass_reason(typeid(From)));
            auto& from = dynamic_cast<From&>(module);
            if constexpr (std::invocable<const F&, From&, const Match&>)
              return decide(from, match);
            else
              return decide(from);
          }};
}

}  // namespace mezzo::nn::surgery
