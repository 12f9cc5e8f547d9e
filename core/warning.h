// Warnings of use that works but is likely not meant. Each is given once per process, by its name.
#pragma once

#include <cstdint>
#include <string_view>

#include "mezzo/core/atomic_count.h"
#include "mezzo/core/function.h"

namespace mezzo {

/// Takes a warning: its name ("scale_below_1") and its one line of text. May be called on any thread.
using WarningHandler = detail::Function<void(std::string_view name, std::string_view text)>;

/// Says `text` the first time it is called with this name; costs a lock and a look-up afterwards. Texts read
/// like errors: `op: expected ..., got ...; fix`. Throws: what the handler throws.
void warn_once(std::string_view name, std::string_view text);

namespace detail {
/// Grows with each reset_warnings().
extern AtomicCount<std::uint32_t> warning_round;
}  // namespace detail

/// A place in the library that warns, for paths that many calls take: once it has warned, each costs two
/// relaxed loads.
///   static WarningSite site("scale_below_1");
///   if (scale < 1 && site.is_fresh()) site.warn("GradScaler", "a scale of at least 1", ..., "...");
class WarningSite {
 public:
  constexpr explicit WarningSite(std::string_view name) noexcept : name_(name) {}
  /// Whether it has not warned since the last reset.
  [[nodiscard]] bool is_fresh() const noexcept {
    return round_.load_relaxed() != detail::warning_round.load_relaxed();
  }
  /// warn_once with its name and the parts of the text.
  void warn(std::string_view op, std::string_view expected, std::string_view got, std::string_view fix);

 private:
  std::string_view name_;
  AtomicCount<std::uint32_t> round_{0};
};

/// Who is told of warnings; an empty one restores the default, which writes `mezzo: warning: text` to stderr
/// unless the environment says MEZZO_WARNINGS=0. Returns the previous handler.
WarningHandler set_warning_handler(WarningHandler handler);

/// Forgets which warnings were said.
void reset_warnings();

}  // namespace mezzo
