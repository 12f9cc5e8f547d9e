// The names of all warnings given so far, behind a mutex, and the handler. Without a handler a warning is
// one line on stderr, unless MEZZO_WARNINGS is 0.
#include "mezzo/core/warning.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "mezzo/core/parallel/hold_over_fork.h"

namespace mezzo {

namespace {

/// The names of the warnings so far, and the handler.
struct Warnings {
  std::mutex mutex;
  std::set<std::string, std::less<>> said;
  WarningHandler handler;
};

/// Never destroyed: threads may warn until the process ends.
Warnings& warnings() {
  static auto* const all = new Warnings;
  return *all;
}
[[maybe_unused]] const int held_over_fork =
    detail::hold_over_fork([]() -> std::mutex& { return warnings().mutex; });

void print(std::string_view text) {
  static const bool quiet = [] {
    const char* const value = std::getenv("MEZZO_WARNINGS");
    return value != nullptr && std::string_view(value) == "0";
  }();
  if (quiet) return;
  const std::string line = "mezzo: warning: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

AtomicCount<std::uint32_t> detail::warning_round{1};

void WarningSite::warn(std::string_view op, std::string_view expected, std::string_view got,
                       std::string_view fix) {
  round_.store_relaxed(detail::warning_round.load_relaxed());
  std::string text(op);
  text.append(": expected ").append(expected).append(", got ").append(got).append("; ").append(fix);
  warn_once(name_, text);
}

void warn_once(std::string_view name, std::string_view text) {
  Warnings& all = warnings();
  WarningHandler handler;
  {
    const std::scoped_lock lock(all.mutex);
    if (!all.said.emplace(name).second) return;
    handler = all.handler;
  }
  // Without the lock, so that a handler may warn or install another one.
  if (handler)
    handler(name, text);
  else
    print(text);
}

WarningHandler set_warning_handler(WarningHandler handler) {
  Warnings& all = warnings();
  const std::scoped_lock lock(all.mutex);
  return std::exchange(all.handler, std::move(handler));
}

void reset_warnings() {
  Warnings& all = warnings();
  const std::scoped_lock lock(all.mutex);
  all.said.clear();
  detail::warning_round.add_relaxed(1);
}

}  // namespace mezzo
