// The wire format of protocol buffers, as far as TensorBoard's messages need it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::train::detail {

/// A message under construction. Fields are written in the order of the calls.
class ProtoMessage {
 public:
  ProtoMessage& integer(std::uint32_t field, std::int64_t value);
  ProtoMessage& real(std::uint32_t field, double value);
  ProtoMessage& real32(std::uint32_t field, float value);
  /// A string, bytes, or a message as its bytes.
  ProtoMessage& bytes(std::uint32_t field, std::string_view value);
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) { return bytes(field, value.text()); }
  /// A packed repeated double.
  ProtoMessage& reals(std::uint32_t field, std::span<const double> values);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void varint(std::uint64_t value);
  void tag(std::uint32_t field, std::uint32_t type);

  std::string text_;
};

/// `value` as bytes, the least significant first.
void append_little_endian(std::string& out, std::uint64_t value, int bytes);

}  // namespace mezzo::train::detail
