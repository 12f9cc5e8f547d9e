// Safetensors files put together by hand from the format's definition, without the writer under test, and the
// messages that reading them gives. Shared by the tests of reading, writing and damage.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/safetensors.h"

namespace mezzo::io {

/// `length` as 8 bytes, low byte first, then header, then data.
inline std::vector<std::byte> file_bytes(std::uint64_t length, std::string_view header,
                                         std::string_view data) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>((length >> (8 * i)) & 0xFFU));
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  for (const char c : data) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

inline std::vector<std::byte> file_bytes(std::string_view header, std::string_view data) {
  return file_bytes(header.size(), header, data);
}

/// The message with which `bytes` are refused.
inline std::string refusal(std::vector<std::byte> bytes) {
  try {
    static_cast<void>(SafeTensors::from_bytes(std::move(bytes)));
  } catch (const IoError& error) {
    return error.what();
  }
  ADD_FAILURE() << "the file was accepted";
  return {};
}

template <class T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace mezzo::io
