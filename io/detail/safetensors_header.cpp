// The checks of a header's statements, one tensor at a time, and the dtypes and sizes that it may state.
#include "mezzo/io/detail/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file_kind.h"
#include "mezzo/io/detail/json_scanner.h"

namespace mezzo::io::detail {

namespace {

struct DTypeBits {
  std::string_view name;
  int bits;
};

/// All dtypes of the reference implementation (0.7).
constexpr std::array<DTypeBits, 22> kDTypeBits{{
    {"F64", 64},    {"F32", 32},    {"F16", 16},        {"BF16", 16},       {"I64", 64}, {"I32", 32},
    {"I16", 16},    {"I8", 8},      {"U64", 64},        {"U32", 32},        {"U16", 16}, {"U8", 8},
    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"C64", 64}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
}};

using Entry = TensorEntry;

/// Fields of a tensor's map at which reading ends, since only three are good.
constexpr std::size_t kMaxFields = 16;
constexpr std::size_t kBlockBytes = 65536;
/// A list of integers >= 0, or nothing.
std::optional<std::vector<std::int64_t>> read_sizes(const Value* value) {
  if (value == nullptr || !value->is_list()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  sizes.reserve(value->size());
  for (const Value& size : value->as_list()) {
    if (!size.is_int() || size.as_int() < 0) return std::nullopt;
    sizes.push_back(size.as_int());
  }
  return sizes;
}

/// The text of a wrong field in a message.
std::string shown(const Value* value) {
  if (value == nullptr) return "nothing";
  if (value->is_string()) return quote(value->as_string());
  std::string text = value->to_string();
  return text.size() <= 80 ? text : std::string(to_string(value->kind())) + " that is too long to show";
}

/// Name, dtype and shape of one tensor; its bytes come later.
Entry read_entry(const std::string& op, const std::string& name, const Value& value) {
  const std::string where = " in tensor " + quote(name);
  if (!value.is_map()) refuse(op, "a map for tensor " + quote(name), shown(&value));
  const Value* dtype = value.find("dtype");
  if (dtype == nullptr || !dtype->is_string()) refuse(op, "dtype as a string" + where, shown(dtype));
  auto shape = read_sizes(value.find("shape"));
  if (!shape) refuse(op, "shape as a list of integers >= 0" + where, shown(value.find("shape")));
  if (!value.contains("data_offsets")) refuse(op, "data_offsets" + where, "none");
  if (value.size() != 3) {
    refuse(op, "only dtype, shape and data_offsets" + where, std::to_string(value.size()) + " fields");
  }
  return {name, dtype->as_string(), std::move(*shape), {}};
}

Place read_place(const std::string& op, const Entry& entry, const Value& field, std::size_t data_size) {
  const std::string where = " in tensor " + quote(entry.name);
  const auto offsets = read_sizes(&field);
  if (!offsets || offsets->size() != 2)
    refuse(op, "data_offsets as two integers >= 0" + where, shown(&field));
  const auto begin = static_cast<std::uint64_t>((*offsets)[0]);
  const auto end = static_cast<std::uint64_t>((*offsets)[1]);
  if (begin > end) refuse(op, "data_offsets that begin before they end" + where, shown(&field));
  if (end > data_size) {
    refuse(op, "data_offsets within the " + std::to_string(data_size) + " bytes of data" + where,
           shown(&field));
  }
  if (const std::string problem = size_problem(entry.dtype, entry.shape, end - begin); !problem.empty()) {
    refuse(op, "data that fits dtype and shape" + where, problem);
  }
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

/// Reads the outer map one entry at a time, checks it, and hands out what is kept of it.
class EntryReader {
 public:
  EntryReader(const std::string& op, const JsonBlocks& text, std::size_t data_size)
      : op_(op), data_size_(data_size), scanner_("parse_json", text, kLimits) {}

  /// keep(entry, place) for each tensor; the strings of `__metadata__` go into `metadata`.
  template <class F>
  void read(Metadata& metadata, const F& keep) {
    bool saw_metadata = false;
    scanner_.read_map([&](const std::string& name) {
      if (name != kMetadataKey) {
        const Value value = read_tensor(name);
        Entry entry = read_entry(op_, name, value);
        const Place place = read_place(op_, entry, value.at("data_offsets"), data_size_);
        keep(std::move(entry), place);
        return;
      }
      if (std::exchange(saw_metadata, true)) refuse_twice("the key " + quote(name) + " twice");
      read_metadata(metadata);
    });
  }

 private:
  static constexpr JsonLimits kLimits{.max_depth = kMaxHeaderDepth, .max_values = kMaxHeaderValues};

  /// What a tensor's map says, which is refused where it is too long.
  Value read_tensor(const std::string& name) {
    const auto no_more_dims = [&](std::size_t size) {
      if (size >= kMaxFileDims)
        refuse(op_, "at most " + std::to_string(kMaxFileDims) + " dims in tensor " + quote(name), "more");
    };
    if (scanner_.next() != '{') return scanner_.value();
    Value::Map fields;
    scanner_.map([&](std::string&& key) {
      if (fields.size() >= kMaxFields) {
        refuse(op_, "only dtype, shape and data_offsets in tensor " + quote(name),
               "more than " + std::to_string(kMaxFields) + " fields");
      }
      fields.emplace_back(std::move(key), scanner_.value(no_more_dims));
    });
    return scanner_.checked(std::move(fields));
  }

  void read_metadata(Metadata& metadata) {
    if (scanner_.next() != '{') {
      const Value whole = read_text();
      if (!whole.is_null()) refuse(op_, "__metadata__ to be a map", to_string(whole.kind()));
      return;  // as good as none
    }
    scanner_.map([&](const std::string& key) {
      const Value text = read_text();
      if (!text.is_string())
        refuse(op_, "strings in __metadata__", std::string(to_string(text.kind())) + " under " + quote(key));
      if (metadata.size() >= kMaxMetadata)
        refuse(op_, "at most " + std::to_string(kMaxMetadata) + " strings in __metadata__", "more");
      if (!metadata.emplace(key, text.as_string()).second)
        refuse_twice("the key " + quote(key) + " twice in __metadata__");
    });
  }

  /// A list or map, which is going to be refused, as an empty one.
  Value read_text() {
    const char first = scanner_.next();
    if (first == '[') return Value::List{};
    return first == '{' ? Value(Value::Map{}) : scanner_.value();
  }

  [[noreturn]] void refuse_twice(const std::string& got) const {
    scanner_.fail("distinct keys in the header", got,
                  "the file is damaged or was not written as safetensors");
  }

  const std::string& op_;
  std::size_t data_size_;
  JsonScanner scanner_;
};

void check_coverage(const std::string& op, const ParsedHeader& header, std::vector<std::uint32_t>& order,
                    std::size_t data_size) {
  const std::vector<Place>& places = header.places;
  // Empty tensors go before a tensor that begins where they do, so that each must begin where the one before
  // it ended.
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(places[a].begin, places[a].end) < std::pair(places[b].begin, places[b].end);
  });
  std::size_t covered = 0;
  for (const std::uint32_t i : order) {
    const std::size_t begin = places[i].begin;
    if (begin != covered) {
      refuse(op, "tensor " + quote(header.entries[i].name) + " to begin at byte " + std::to_string(covered),
             (begin > covered ? "a hole up to byte " : "an overlap from byte ") + std::to_string(begin));
    }
    covered = places[i].end;
  }
  if (covered != data_size) {
    refuse(op, "tensors up to the end of the file",
           std::to_string(data_size - covered) + " bytes behind the last one");
  }
}

/// Sorts indices of entries by name.
void sort_by_name(const std::string& op, const ParsedHeader& header, std::vector<std::uint32_t>& order) {
  const std::vector<Entry>& entries = header.entries;
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return entries[a].name < entries[b].name; });
  const auto twin = std::adjacent_find(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return entries[a].name == entries[b].name;
  });
  if (twin != order.end())
    refuse(op, "distinct keys in the header", "the key " + quote(entries[*twin].name) + " twice");
}

}  // namespace

void refuse(const std::string& op, std::string_view expected, std::string_view got) {
  throw IoError(op, expected, got, "the file is damaged or was not written as safetensors");
}

ParsedHeader parse_header(const std::string& op, const JsonBlocks& text, std::size_t data_size) {
  ParsedHeader result;
  const std::string_view begin = text(0).substr(0, 1);
  if (begin != "{") {
    refuse(op, "a header that begins with '{'", begin.empty() ? "an empty header" : quote(begin));
  }
  try {
    std::size_t count = 0;
    EntryReader(op, text, data_size).read(result.metadata, [&](Entry&& /*entry*/, Place /*place*/) {
      ++count;
    });
    result.metadata.clear();
    result.entries.reserve(count);
    result.places.reserve(count);
    EntryReader(op, text, data_size).read(result.metadata, [&](Entry&& entry, Place place) {
      result.entries.push_back(std::move(entry));
      result.places.push_back(place);
    });
  } catch (const IoError& error) {
    if (error.op() != "parse_json") throw;
    refuse(op, error.expected() + " in the header", error.got());
  }
  result.by_name.resize(result.entries.size());
  std::iota(result.by_name.begin(), result.by_name.end(), 0U);
  sort_by_name(op, result, result.by_name);
  check_coverage(op, result, result.by_name, data_size);
  sort_by_name(op, result, result.by_name);
  return result;
}

std::size_t header_length(const std::string& op, std::span<const std::byte> prefix, std::uint64_t file_size) {
  std::uint64_t length = 0;
  if (prefix.size() < sizeof(length))
    refuse(op, "at least 8 bytes", "a file of " + std::to_string(file_size));
  std::memcpy(&length, prefix.data(), sizeof(length));
  if (length > kMaxHeaderBytes) {
    refuse_other_file(op, "a safetensors file", prefix);
    refuse(op, "a header of at most " + std::to_string(kMaxHeaderBytes) + " bytes",
           "a length of " + std::to_string(length));
  }
  if (length > file_size - sizeof(length)) {
    refuse(op, "a header within the file",
           std::to_string(length) + " bytes in a file of " + std::to_string(file_size));
  }
  return static_cast<std::size_t>(length);
}

FileHeader read_file_header(InputFile& file) {
  std::array<std::byte, 8> prefix{};
  const std::span<std::byte> begin(prefix.data(), std::min<std::size_t>(prefix.size(), file.size()));
  file.read(begin);
  const std::size_t length = header_length(file.op(), begin, file.size());
  FileHeader result;
  result.data_begin = prefix.size() + length;
  result.data_size = static_cast<std::size_t>(file.size() - result.data_begin);
  std::string block;
  const auto blocks = [&, length, begin = prefix.size()](std::size_t at) -> std::string_view {
    block.resize(std::min(length - at, kBlockBytes));
    file.read_at(begin + at, std::as_writable_bytes(std::span(block)));
    return block;
  };
  result.header = parse_header(file.op(), blocks, result.data_size);
  return result;
}

std::optional<int> dtype_bits(std::string_view dtype) noexcept {
  const auto row =
      std::find_if(kDTypeBits.begin(), kDTypeBits.end(), [&](const DTypeBits& r) { return r.name == dtype; });
  return row == kDTypeBits.end() ? std::nullopt : std::optional<int>(row->bits);
}

std::string size_problem(std::string_view dtype, std::span<const std::int64_t> shape, std::uint64_t bytes) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::string what =
      "shape " + (shape.size() <= 16 ? to_string(shape) : "of " + std::to_string(shape.size()) + " dims");
  const std::int64_t count = checked_count(shape);
  if (count < 0) {
    const bool is_negative = std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; });
    return what + (is_negative ? " with a negative size" : ", whose product reaches 2^60");
  }
  const std::optional<int> bits = dtype_bits(dtype);
  if (!bits) return {};
  if (count > kMax / *bits) return what + " of " + std::string(dtype) + ", whose bits overflow 63 bits";
  const std::int64_t total = count * *bits;
  if (total % 8 != 0) return what + " of " + std::string(dtype) + ", which ends within a byte";
  if (static_cast<std::uint64_t>(total / 8) == bytes) return {};
  return std::to_string(bytes) + " bytes for " + what + " of " + std::string(dtype) + ", which has " +
         std::to_string(total / 8);
}

}  // namespace mezzo::io::detail
