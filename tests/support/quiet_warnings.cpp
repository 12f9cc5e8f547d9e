// Tests do on purpose what the library warns of (core/warning.h): nothing is printed but where a test asks.
#include "mezzo/core/warning.h"

namespace mezzo::test {
namespace {
[[maybe_unused]] const WarningHandler before =
    set_warning_handler([](std::string_view /*name*/, std::string_view /*text*/) {});
}
}  // namespace mezzo::test
