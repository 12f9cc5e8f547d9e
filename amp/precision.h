// The precision modes that training recipes name, and which of them make norms run in low precision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mezzo/core/host_device.h"

namespace mezzo::amp {

/// fp32: everything in f32. fp16: the whole model was converted to f16, without autocast. amp_fp16, amp_bf16:
/// autocast with that dtype. amp_fp8: autocast with bf16, and products in float8 (amp/float8.h).
enum class Precision : std::uint8_t { fp32, fp16, amp_fp16, amp_bf16, amp_fp8 };

[[nodiscard]] std::string to_string(Precision precision);
/// By name, in upper or lower case; "amp" and "bf16" are old names of amp_fp16 and amp_bf16. Throws:
/// ValueError, which lists the names.
[[nodiscard]] Precision precision_from_string(std::string_view name);

/// A precision as surgery on norms takes it: an enumerator, a name, or nothing, which means the dtype of the
/// autocast region that the norm runs in.
class NormPrecision {
 public:
  NormPrecision() = default;
  NormPrecision(Precision precision) : value_(precision) {}
  NormPrecision(std::string_view name) : value_(precision_from_string(name)) {}
  NormPrecision(const char* name) : NormPrecision(std::string_view(name)) {}

  [[nodiscard]] const std::optional<Precision>& value() const noexcept { return value_; }
  /// Whether norms run in low precision in this mode.
  [[nodiscard]] bool acts() const noexcept;
  /// Why it does not act, as a sentence for a report; empty when it does.
  [[nodiscard]] std::string why_not() const;

 private:
  std::optional<Precision> value_;
};

}  // namespace mezzo::amp
