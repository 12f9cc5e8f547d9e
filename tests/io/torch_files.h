// Files of torch.save made by hand, for tests of what a reader refuses.
#pragma once

#include <cstring>
#include <map>
#include <string>

#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/zip.h"

namespace mezzo::io {

/// Pieces of pickles, by the names of their opcodes.
namespace pickle {

inline std::string number32(std::uint32_t number) {
  char bytes[4];
  std::memcpy(bytes, &number, 4);
  return {bytes, 4};
}
inline std::string begin() { return std::string("\x80\x02", 2); }
inline std::string text(const std::string& value) {
  return "X" + number32(static_cast<std::uint32_t>(value.size())) + value;
}
inline std::string integer(std::int32_t value) { return "J" + number32(static_cast<std::uint32_t>(value)); }
inline std::string name(const std::string& module, const std::string& function) {
  return "c" + module + "\n" + function + "\n";
}
inline std::string storage(const std::string& type, const std::string& key, std::int32_t size) {
  return "(" + text("storage") + name("torch", type) + text(key) + text("cpu") + integer(size) + "tQ";
}
/// sizes and strides as "(" + integers + "t"
inline std::string tensor(const std::string& of, std::int32_t offset, const std::string& sizes,
                          const std::string& strides) {
  return name("torch._utils", "_rebuild_tensor_v2") + "(" + of + integer(offset) + sizes + strides + "\x89" +
         name("collections", "OrderedDict") + ")RtR";
}

}  // namespace pickle

/// Writes an archive of torch.save's with this pickle and these entries in data/.
inline void write_torch_archive(const std::string& path, const std::string& pickle,
                                const std::map<std::string, std::string>& data) {
  AtomicFile file(path);
  detail::ZipWriter archive(file);
  const auto add = [&](const std::string& name, const std::string& content) {
    const auto bytes = std::as_bytes(std::span(content));
    archive.add("test", "made/" + name, {&bytes, 1}, detail::ZipMethod::stored, 64);
  };
  add("data.pkl", pickle);
  for (const auto& [key, content] : data) add("data/" + key, content);
  archive.finish();
  file.commit();
}

}  // namespace mezzo::io
