// Reading safetensors: every statement of the header is checked before a byte of data is handed out. Writing
// is in safetensors_write.cpp.
#include "mezzo/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <numeric>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/file.h"
#include "mezzo/io/json.h"
#include "mezzo/io/safetensors_layout.h"

namespace mezzo::io {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and bytes are used as they are");

namespace {

constexpr std::string_view kDamaged = "the file is damaged or was not written as safetensors";

[[noreturn]] void refuse(const std::string& op, std::string_view expected, std::string_view got) {
  throw IoError(op, expected, got, kDamaged);
}

/// The header's length, checked against the bytes there are.
std::size_t header_length(const std::string& op, std::span<const std::byte, 8> prefix,
                          std::uint64_t file_size) {
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof(length));
  if (length > detail::kMaxHeaderBytes) {
    refuse(op, "a header of at most " + std::to_string(detail::kMaxHeaderBytes) + " bytes",
           "a length of " + std::to_string(length));
  }
  if (length > file_size - 8) {
    refuse(op, "a header within the file",
           std::to_string(length) + " bytes in a file of " + std::to_string(file_size));
  }
  return static_cast<std::size_t>(length);
}

void check_has_prefix(const std::string& op, std::uint64_t file_size) {
  if (file_size < 8) refuse(op, "at least 8 bytes", "a file of " + std::to_string(file_size));
}

Value parse_header(const std::string& op, std::string_view text) {
  if (text.empty() || text.front() != '{') {
    refuse(op, "a header that begins with '{'", text.empty() ? "an empty header" : quote(text.substr(0, 1)));
  }
  try {
    return parse_json(text, {.max_depth = 3, .max_values = detail::kMaxHeaderValues});
  } catch (const IoError& error) {
    refuse(op, error.expected() + " in the header", error.got());
  }
}

Metadata read_metadata(const std::string& op, const Value& value) {
  if (!value.is_map()) refuse(op, "__metadata__ to be a map", to_string(value.kind()));
  Metadata metadata;
  for (const auto& [key, text] : value.as_map()) {
    if (!text.is_string()) {
      refuse(op, "strings in __metadata__", std::string(to_string(text.kind())) + " under " + quote(key));
    }
    metadata.emplace(key, text.as_string());
  }
  return metadata;
}

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

/// What a message shows of a field that is wrong.
std::string shown(const Value* value) {
  if (value == nullptr) return "nothing";
  std::string text = value->to_string();
  return text.size() <= 80 ? text : std::string(to_string(value->kind())) + " that is too long to show";
}

/// Name, dtype and shape of one tensor; its bytes come later.
SafeTensors::Entry read_entry(const std::string& op, const std::string& name, const Value& value) {
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

}  // namespace

SafeTensors::Place SafeTensors::read_place(const std::string& op, const Entry& entry, const Value& field,
                                           std::size_t data_size) {
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
  if (const std::string problem = detail::size_problem(entry.dtype, entry.shape, end - begin);
      !problem.empty()) {
    refuse(op, "data that fits dtype and shape" + where, problem);
  }
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

void SafeTensors::check_coverage(const std::string& op, std::span<const Place> places,
                                 std::size_t data_size) const {
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Empty tensors go before a tensor that begins where they do, so that each must begin where the one before
  // it ended.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(places[a].begin, places[a].end) < std::pair(places[b].begin, places[b].end);
  });
  std::size_t covered = 0;
  for (const std::size_t i : order) {
    const std::size_t begin = places[i].begin;
    if (begin != covered) {
      refuse(op, "tensor " + quote(entries_[i].name) + " to begin at byte " + std::to_string(covered),
             (begin > covered ? "a hole up to byte " : "an overlap from byte ") + std::to_string(begin));
    }
    covered = places[i].end;
  }
  if (covered != data_size) {
    refuse(op, "tensors up to the end of the file",
           std::to_string(data_size - covered) + " bytes behind the last one");
  }
}

std::vector<SafeTensors::Place> SafeTensors::read_header(const std::string& op, std::string_view header,
                                                         std::size_t data_size) {
  op_ = op;
  const Value root = parse_header(op, header);
  std::vector<Place> places;
  for (const auto& [name, value] : root.as_map()) {
    if (name == detail::kMetadataKey) {
      metadata_ = read_metadata(op, value);
      continue;
    }
    by_name_.push_back(entries_.size());
    entries_.push_back(read_entry(op, name, value));
    places.push_back(read_place(op, entries_.back(), value.at("data_offsets"), data_size));
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::size_t a, std::size_t b) { return entries_[a].name < entries_[b].name; });
  check_coverage(op, places, data_size);
  return places;
}

void SafeTensors::attach(std::span<const Place> places, std::span<const std::byte> data,
                         std::shared_ptr<const void> owner) {
  owner_ = std::move(owner);
  for (std::size_t i = 0; i < places.size(); ++i) {
    entries_[i].bytes = data.subspan(places[i].begin, places[i].end - places[i].begin);
  }
}

SafeTensors SafeTensors::from_bytes(std::vector<std::byte> bytes) {
  const std::string op = "safetensors";
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> all(*owner);
  check_has_prefix(op, all.size());
  const std::size_t length = header_length(op, all.first<8>(), all.size());
  const std::string_view header(reinterpret_cast<const char*>(all.data()) + 8, length);
  const std::span<const std::byte> data = all.subspan(8 + length);
  SafeTensors result;
  const std::vector<Place> places = result.read_header(op, header, data.size());
  result.attach(places, data, owner);
  return result;
}

SafeTensors SafeTensors::open(const std::string& path) {
  InputFile file(path, "safetensors");
  check_has_prefix(file.op(), file.size());
  // The header goes first, so that a large file of another kind is refused before memory is taken for it.
  std::array<std::byte, 8> prefix{};
  file.read(prefix);
  std::string header(header_length(file.op(), prefix, file.size()), '\0');
  file.read(std::as_writable_bytes(std::span(header)));
  const auto size = static_cast<std::size_t>(file.size() - 8 - header.size());
  SafeTensors result;
  const std::vector<Place> places = result.read_header(file.op(), header, size);
  std::shared_ptr<std::byte[]> data;
  try {
    data = std::make_shared_for_overwrite<std::byte[]>(size);  // not zeroed: that would be a pass for nothing
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(file.op(), "a file that fits into memory", std::to_string(size) + " bytes of data",
                           "");
  }
  const std::span<std::byte> bytes(data.get(), size);
  file.read(bytes);
  result.attach(places, bytes, std::move(data));
  return result;
}

std::span<const SafeTensors::Entry> SafeTensors::entries() const noexcept { return entries_; }

const SafeTensors::Entry* SafeTensors::find(std::string_view name) const {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::size_t i, std::string_view key) { return entries_[i].name < key; });
  return place != by_name_.end() && entries_[*place].name == name ? &entries_[*place] : nullptr;
}

bool SafeTensors::contains(std::string_view name) const { return find(name) != nullptr; }

std::vector<std::string> SafeTensors::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

const SafeTensors::Entry& SafeTensors::at(std::string_view name) const {
  if (const Entry* const found = find(name); found != nullptr) return *found;
  std::string got = entries_.empty() ? "a file without tensors" : "only ";
  for (std::size_t i = 0; i < std::min<std::size_t>(entries_.size(), 8); ++i) {
    got += (i == 0 ? "" : ", ") + quote(entries_[i].name, 40);
  }
  if (entries_.size() > 8) got += " and " + std::to_string(entries_.size() - 8) + " more";
  throw IoError(op_, "a tensor " + quote(name), got, "check the name");
}

std::optional<int> safetensors_dtype_bits(std::string_view dtype) noexcept {
  return detail::dtype_bits(dtype);
}

void detail::check_element_size(const SafeTensors::Entry& entry, std::size_t size) {
  const std::optional<int> bits = dtype_bits(entry.dtype);
  const bool fits = bits ? static_cast<std::size_t>(*bits) == 8 * size : entry.bytes.size() % size == 0;
  if (fits) return;
  throw IoError("copy_as " + quote(entry.name), "elements as large as those of " + quote(entry.dtype, 20),
                std::to_string(size) + " bytes each", "copy into a type of the element's size");
}

}  // namespace mezzo::io
