// Writing messages of protocol buffers, as far as TensorBoard's and ONNX's need it.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io::detail {

/// `value` as bytes, the least significant first.
inline void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8U * static_cast<unsigned>(i)) & 0xFFU);
}

/// A message under construction. Fields are written in the order of the calls.
/// Source: https://protobuf.dev/programming-guides/encoding.
class ProtoMessage {
 public:
  ProtoMessage& integer(std::uint32_t field, std::int64_t value) {
    varint(field << 3U | kVarint);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real(std::uint32_t field, double value) {
    varint(field << 3U | kFixed64);
    append_little_endian(text_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoMessage& real32(std::uint32_t field, float value) {
    varint(field << 3U | kFixed32);
    append_little_endian(text_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  /// A string, bytes, or a message as its bytes.
  ProtoMessage& bytes(std::uint32_t field, std::string_view value) {
    begin_bytes(field, value.size());
    text_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) { return bytes(field, value.text()); }
  /// A packed repeated double.
  ProtoMessage& reals(std::uint32_t field, std::span<const double> values) {
    std::string packed;
    for (const double value : values) append_little_endian(packed, std::bit_cast<std::uint64_t>(value), 8);
    return bytes(field, packed);
  }
  /// The head of a field of `size` bytes, which are to follow.
  ProtoMessage& begin_bytes(std::uint32_t field, std::uint64_t size) {
    varint(field << 3U | kLengthDelimited);
    varint(size);
    return *this;
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  static constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>((value & 0x7FU) | 0x80U);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

}  // namespace mezzo::io::detail
