// Five pickles: a magic number, the version 1001, the machine's sizes, which nobody reads, the value, and the
// keys of the storages. Then for each of these its number of elements in 8 bytes, and the elements,
// little-endian on every machine. Source: torch.serialization._legacy_save.
#include "mezzo/io/detail/torch/legacy_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/torch/unpickler.h"

namespace mezzo::io::detail {

namespace {

constexpr std::string_view kLegacyMagic = "\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
constexpr std::int64_t kLegacyVersion = 1001;

[[noreturn]] void refuse_legacy(const std::string& op, const std::string& expected, const std::string& got) {
  throw IoError(op, expected, got, "fetch or write the file again");
}

}  // namespace

bool is_legacy_file(std::span<const std::byte> begin) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  return text.starts_with('\x80') && text.find(kLegacyMagic) != std::string_view::npos;
}

LegacyFile read_legacy_file(const InputFile& file) {
  const std::string& op = file.op();
  const Ref<MappedFile> map = make_ref<MappedFile>(file);
  std::span<const std::byte> rest = map->bytes();
  const auto pickle = [&](std::string_view what) {
    std::size_t used = 0;
    Pickled pickled = unpickle(op, rest.first(std::min(rest.size(), kMaxPickleBytes)), what, &used);
    rest = rest.subspan(used);
    return pickled;
  };
  static_cast<void>(pickle("the first pickle"));
  const TorchTree version = pickle("the second pickle").tree;
  const TorchTree::Node& number = version.nodes[version.root];
  if (number.kind != TorchKind::integer || number.integer != kLegacyVersion)
    refuse_legacy(op, "version 1001 of torch.save before PyTorch 1.6", "another");
  static_cast<void>(pickle("the third pickle"));
  LegacyFile result{.pickled = pickle("the fourth pickle"), .storages = {}};
  std::map<std::string_view, const PickledStorage*> known;
  for (const PickledStorage& storage : result.pickled.storages) known.emplace(storage.key, &storage);
  const TorchTree keys = pickle("the fifth pickle").tree;
  if (keys.nodes[keys.root].kind != TorchKind::list) refuse_legacy(op, "a list of keys of storages", "none");
  for (const TorchTree::Number key : keys.parts[keys.nodes[keys.root].index]) {
    const TorchTree::Node& node = keys.nodes[key];
    const auto found = known.find(node.kind == TorchKind::string ? std::string_view(keys.strings[node.index])
                                                                 : std::string_view());
    if (found == known.end()) refuse_legacy(op, "keys of storages of the value", "another key");
    const PickledStorage& storage = *found->second;
    std::uint64_t count = 0;
    if (rest.size() < sizeof(count))
      refuse_legacy(op, "storage " + quote(storage.key), "the end of the file");
    std::memcpy(&count, rest.data(), sizeof(count));
    rest = rest.subspan(sizeof(count));
    if (count != storage.bytes / storage.element || storage.bytes > rest.size()) {
      refuse_legacy(
          op, std::to_string(storage.bytes / storage.element) + " elements in storage " + quote(storage.key),
          std::to_string(count) + ", and " + std::to_string(rest.size()) + " bytes up to the end");
    }
    const ZipEntry place{.name = storage.key,
                         .packed_size = storage.bytes,
                         .size = storage.bytes,
                         .begin = map->bytes().size() - rest.size()};
    if (!result.storages.emplace(storage.key, place).second)
      refuse_legacy(op, "each storage once", quote(storage.key) + " twice");
    rest = rest.subspan(static_cast<std::size_t>(storage.bytes));
  }
  return result;
}

}  // namespace mezzo::io::detail
