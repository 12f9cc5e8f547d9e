// For tests of images: where the files are, and what the build can read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/data/image/image.h"
#include "mezzo/tests/support/data_folder.h"

namespace mezzo::data {

inline std::string image_file(const std::string& name) {
  return test::data_folder() + "/data/files/images/" + name;
}

/// Whether the build has the library that reads this file.
inline bool can_read(const std::string& name) {
  try {
    static_cast<void>(read_image(image_file(name)));
    return true;
  } catch (const IoError& error) {
    if (error.expected().substr(0, 13) != "a build with ") throw;
    return false;
  }
}
inline bool have_png() { return can_read("gray8.png"); }
inline bool have_jpeg() { return can_read("gray.jpg"); }

/// The checksum of a PNG's chunk, of its kind and data, as the file has it.
inline std::string crc_bytes(std::string_view text) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? 0xEDB88320U ^ (crc >> 1U) : crc >> 1U;
  }
  crc = ~crc;
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(crc >> shift));
  return bytes;
}

}  // namespace mezzo::data
