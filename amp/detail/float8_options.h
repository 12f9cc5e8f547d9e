// The float8 options of open regions, as numbers that fit into an input hook's context.
#pragma once

#include <cstdint>

#include "mezzo/amp/float8.h"
#include "mezzo/autograd/op.h"

namespace mezzo::amp::detail {

/// The most different options that a process can have.
inline constexpr std::uint64_t kMostFloat8Options = 127;

/// The number of these options, from 1 on; they live as long as the process. Throws: ValueError for options
/// that make no sense, or when there are too many.
[[nodiscard]] std::uint64_t number_of(const Fp8& options);
/// The options of a number; nullptr for 0.
[[nodiscard]] const Fp8* float8_options(std::uint64_t number) noexcept;

/// Why this weight's product stays in 16 bits under these options; empty: it runs in float8. Throws:
/// ValueError when `skip` names a path that the model at work does not have.
[[nodiscard]] std::string why_not_float8(const Fp8& options, std::int64_t n, std::int64_t k);

}  // namespace mezzo::amp::detail
