// The first bytes of files that are given to a reader of another format, most often because a download
// failed.
#include "mezzo/io/detail/file_kind.h"

#include <algorithm>
#include <array>

#include "mezzo/core/error.h"

namespace mezzo::io::detail {

namespace {

struct FileKind {
  std::string_view begin, name, fix;
};
constexpr std::string_view kHtmlFix =
    "the download failed: open it as text to see why, and fetch the file again";
constexpr std::array<FileKind, 13> kFileKinds{{
    {"version https://git-lfs", "a Git LFS pointer, which stands for the file",
     "fetch the file: git lfs pull"},
    {"<!doctype", "an HTML page", kHtmlFix},
    {"<html", "an HTML page", kHtmlFix},
    {"<?xml", "an XML document", kHtmlFix},
    {"{", "JSON", "io::read_json_file reads it, io::load an index of files named *.safetensors.index.json"},
    {"[", "JSON", "io::read_json_file reads it"},
    {"PK\x03\x04", "a zip archive", "io::load_torch reads PyTorch's files, io::read_npz NumPy's"},
    {"\x93NUMPY", "a .npy array", "io::read_npy reads it"},
    {"\x1F\x8B", "a gzip'd file", "unpack it: gunzip, tar xf"},
    {"\x80\x02", "a pickle", "io::load_torch reads those of torch.save"},
    {"\x80\x04", "a pickle", "io::load_torch reads those of torch.save"},
    {"GGUF", "a GGUF file", "convert it to safetensors"},
    {"\x89HDF", "an HDF5 file", "convert it to safetensors"},
}};

}  // namespace

void refuse_other_file(const std::string& op, std::string_view expected, std::span<const std::byte> begin) {
  std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const auto begins_with = [text](std::string_view magic) {
    // Of a long magic 6 bytes are enough where no more were read.
    const std::size_t count = std::min(magic.size(), std::max<std::size_t>(text.size(), 6));
    return text.size() >= count &&
           std::equal(magic.begin(), magic.begin() + static_cast<std::ptrdiff_t>(count), text.begin(),
                      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' && a >= 'a' ? b + 32 : b); });
  };
  for (const FileKind& kind : kFileKinds) {
    if (begins_with(kind.begin) && !expected.starts_with(kind.name))
      throw IoError(op, expected, kind.name, kind.fix);
  }
}

}  // namespace mezzo::io::detail
