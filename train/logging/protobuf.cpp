// Encoding: https://protobuf.dev/programming-guides/encoding.
#include "mezzo/train/logging/protobuf.h"

#include <bit>

namespace mezzo::train::detail {

namespace {

// Wire types.
constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

}  // namespace

void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8U * static_cast<unsigned>(i)) & 0xFFU);
}

void ProtoMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>((value & 0x7FU) | 0x80U);
  text_ += static_cast<char>(value);
}

void ProtoMessage::tag(std::uint32_t field, std::uint32_t type) { varint(field << 3U | type); }

ProtoMessage& ProtoMessage::integer(std::uint32_t field, std::int64_t value) {
  tag(field, kVarint);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::real(std::uint32_t field, double value) {
  tag(field, kFixed64);
  append_little_endian(text_, std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

ProtoMessage& ProtoMessage::real32(std::uint32_t field, float value) {
  tag(field, kFixed32);
  append_little_endian(text_, std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

ProtoMessage& ProtoMessage::bytes(std::uint32_t field, std::string_view value) {
  tag(field, kLengthDelimited);
  varint(value.size());
  text_ += value;
  return *this;
}

ProtoMessage& ProtoMessage::reals(std::uint32_t field, std::span<const double> values) {
  tag(field, kLengthDelimited);
  varint(values.size() * 8);
  for (const double value : values) append_little_endian(text_, std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

}  // namespace mezzo::train::detail
