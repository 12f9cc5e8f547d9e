// The name that was probably meant by one that is not there, for messages.
#pragma once

#include <span>
#include <string_view>

namespace mezzo::detail {

/// The one of `names` that has most of `name` at its begin and its end; "" where there are none.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace mezzo::detail
