// Warnings: what works but is likely not meant. Each is said once per process, by its name.
#pragma once

#include <functional>
#include <string_view>

namespace mezzo {

/// Takes a warning: its name ("scale_below_1") and its one line of text. May be called on any thread.
using WarningHandler = std::function<void(std::string_view name, std::string_view text)>;

/// Says `text` the first time it is called with this name; costs one atomic load and a look-up afterwards.
/// Texts read like errors: `op: expected ..., got ...; fix`.
void warn_once(std::string_view name, std::string_view text);

/// Who is told of warnings; an empty one restores the default, which writes `mezzo: warning: text` to stderr
/// unless the environment says MEZZO_WARNINGS=0. Returns the one before.
WarningHandler set_warning_handler(WarningHandler handler);

/// Forgets which warnings were said.
void reset_warnings();

}  // namespace mezzo
