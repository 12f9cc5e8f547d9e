// Reading safetensors: every statement of the header is checked before a byte of data is handed out. The
// header itself is read in safetensors_header.cpp.
#include "mezzo/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/safetensors_header.h"

namespace mezzo::io {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and bytes are used as they are");

SafeTensors SafeTensors::with_data(std::string op, detail::ParsedHeader&& header,
                                   std::span<const std::byte> data, std::shared_ptr<const void> owner) {
  SafeTensors result;
  result.op_ = std::move(op);
  result.owner_ = std::move(owner);
  result.metadata_ = std::move(header.metadata);
  result.entries_ = std::move(header.entries);
  result.by_name_ = std::move(header.by_name);
  for (std::size_t i = 0; i < header.places.size(); ++i) {
    const detail::Place place = header.places[i];
    result.entries_[i].bytes = data.subspan(place.begin, place.end - place.begin);
  }
  return result;
}

SafeTensors SafeTensors::from_bytes(std::vector<std::byte> bytes) {
  const std::string op = "safetensors";
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> all(*owner);
  const std::size_t length =
      detail::header_length(op, all.first(std::min<std::size_t>(all.size(), 8)), all.size());
  const std::string_view text(reinterpret_cast<const char*>(all.data()) + 8, length);
  const std::span<const std::byte> data = all.subspan(8 + length);
  const auto blocks = [text](std::size_t at) { return text.substr(at); };
  return with_data(op, detail::parse_header(op, blocks, data.size()), data, owner);
}

SafeTensors SafeTensors::open(const std::string& path) {
  InputFile file(path, "safetensors");
  // The header goes first, so that a large file of another kind is refused before memory is taken for it.
  detail::FileHeader opened = detail::read_file_header(file);
  const std::size_t size = opened.data_size;
  std::shared_ptr<std::byte[]> data;
  try {
    data = std::make_unique_for_overwrite<std::byte[]>(size);  // not zeroed: that would be a pass for nothing
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(file.op(), "a file that fits into memory", std::to_string(size) + " bytes of data",
                           "");
  }
  const std::span<std::byte> bytes(data.get(), size);
  file.seek(opened.data_begin);
  file.read(bytes);
  return with_data(file.op(), std::move(opened.header), bytes, std::move(data));
}

std::span<const SafeTensors::Entry> SafeTensors::entries() const& noexcept { return entries_; }
std::vector<SafeTensors::Entry> SafeTensors::entries() && {
  for (Entry& entry : entries_) entry.owner = owner_;
  return std::move(entries_);
}

const SafeTensors::Entry* SafeTensors::find(std::string_view name) const {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::uint32_t i, std::string_view key) { return entries_[i].name < key; });
  return place != by_name_.end() && entries_[*place].name == name ? &entries_[*place] : nullptr;
}

bool SafeTensors::contains(std::string_view name) const { return find(name) != nullptr; }

std::vector<std::string> SafeTensors::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

SafeTensors::Entry SafeTensors::at(std::string_view name) && {
  Entry entry = at(name);
  entry.owner = owner_;
  return entry;
}

const SafeTensors::Entry& SafeTensors::at(std::string_view name) const& {
  if (const Entry* const found = find(name); found != nullptr) return *found;
  const std::string names =
      mezzo::detail::listed(entries_, 8, [](const Entry& e) { return quote(e.name, 40); });
  throw IoError(op_, "a tensor " + quote(name), entries_.empty() ? "a file without tensors" : "only " + names,
                "check the name");
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

// --- writing: checks, order and header, shared by the forms in memory and on disk

namespace {

using Entry = SafeTensors::Entry;

struct Plan {
  std::string head;  ///< length and header, all that stands before the data
  std::vector<const Entry*> order;
  std::size_t data_bytes = 0;
};

void check_text(std::string_view text, std::string_view what) {
  if (is_valid_utf8(text)) return;
  throw IoError("write safetensors", std::string(what) + " in UTF-8", quote(text),
                "use another name or encode it");
}

void check_entry(const Entry& entry) {
  check_text(entry.name, "a tensor's name");
  check_text(entry.dtype, "a dtype's name");
  if (entry.name == detail::kMetadataKey) {
    throw IoError("write safetensors", "a tensor's name", quote(entry.name) + ", which is reserved",
                  "rename the tensor");
  }
  if (entry.shape.size() > detail::kMaxFileDims) {
    throw IoError("write safetensors", "at most " + std::to_string(detail::kMaxFileDims) + " dims",
                  std::to_string(entry.shape.size()) + " in tensor " + quote(entry.name), "reshape it");
  }
  if (const std::string problem = detail::size_problem(entry.dtype, entry.shape, entry.bytes.size());
      !problem.empty()) {
    throw IoError("write safetensors", "data that fits dtype and shape in tensor " + quote(entry.name),
                  problem, "make bytes, dtype and shape agree");
  }
}

/// The entries by falling element size, then name. The data begins at a multiple of 8, so with larger
/// elements before smaller ones all elements are aligned; dtypes that are not known go last.
std::vector<const Entry*> ordered(std::span<const Entry> entries) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  const auto bits = [](const Entry* entry) { return safetensors_dtype_bits(entry->dtype).value_or(0); };
  std::sort(order.begin(), order.end(), [&](const Entry* a, const Entry* b) {
    return bits(a) != bits(b) ? bits(a) > bits(b) : a->name < b->name;
  });
  return order;
}

/// Entry by entry: a tree of all of them would take many times the text.
std::string header_of(const std::vector<const Entry*>& order, const Metadata& metadata) {
  std::vector<std::string_view> names;
  names.reserve(order.size());
  for (const Entry* entry : order) names.push_back(entry->name);
  detail::require_distinct("write safetensors", std::move(names));
  std::string header = "{";
  const auto append = [&header](const std::string& key, const Value& value) {
    if (header.size() > 1) header += ',';
    header += Value(key).to_string();
    header += ':';
    header += value.to_string();
  };
  if (!metadata.empty()) {
    Value::Map strings;
    for (const auto& [key, text] : metadata) {
      check_text(key, "a metadata key");
      check_text(text, "metadata");
      strings.emplace_back(key, text);
    }
    append(std::string(detail::kMetadataKey), std::move(strings));
  }
  std::uint64_t begin = 0;
  for (const Entry* entry : order) {
    const std::uint64_t end = begin + entry->bytes.size();
    append(entry->name,
           Value::Map{
               {"dtype", entry->dtype}, {"shape", entry->shape}, {"data_offsets", Value::List{begin, end}}});
    begin = end;
  }
  return header + '}';
}

/// Refuses what the reader would refuse as too much.
void check_value_count(std::span<const Entry> entries, const Metadata& metadata) {
  if (metadata.size() > detail::kMaxMetadata) {
    throw IoError("write safetensors",
                  "at most " + std::to_string(detail::kMaxMetadata) + " strings of metadata",
                  std::to_string(metadata.size()), "keep them in a file of their own");
  }
  std::size_t values = 2 + metadata.size();
  for (const Entry& entry : entries) values += 6 + entry.shape.size();
  if (values <= detail::kMaxHeaderValues) return;
  throw IoError(
      "write safetensors", "at most " + std::to_string(detail::kMaxHeaderValues) + " values in the header",
      std::to_string(values) + " for " + std::to_string(entries.size()) + " tensors", "split the file");
}

Plan plan(std::span<const Entry> entries, const Metadata& metadata) {
  check_value_count(entries, metadata);
  for (const Entry& entry : entries) check_entry(entry);
  Plan result;
  result.order = ordered(entries);
  std::string header = header_of(result.order, metadata);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > detail::kMaxHeaderBytes) {
    throw IoError("write safetensors",
                  "a header of at most " + std::to_string(detail::kMaxHeaderBytes) + " bytes",
                  std::to_string(header.size()), "shorten names and metadata or split the file");
  }
  const std::uint64_t length = header.size();
  result.head.resize(sizeof(length));
  std::memcpy(result.head.data(), &length, sizeof(length));
  result.head += header;
  for (const Entry* entry : result.order) result.data_bytes += entry->bytes.size();
  return result;
}

void write_plan(AtomicFile& file, const Plan& layout) {
  file.write(layout.head);
  for (const Entry* entry : layout.order) file.write(entry->bytes);
}

}  // namespace

std::vector<std::byte> serialize_safetensors(std::span<const Entry> entries, const Metadata& metadata) {
  const Plan layout = plan(entries, metadata);
  std::vector<std::byte> bytes;
  bytes.reserve(layout.head.size() + layout.data_bytes);
  const auto append = [&bytes](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  append(std::as_bytes(std::span(layout.head)));
  for (const Entry* entry : layout.order) append(entry->bytes);
  return bytes;
}

void detail::write_safetensors(AtomicFile& file, std::span<const Entry> entries, const Metadata& metadata) {
  write_plan(file, plan(entries, metadata));
}

void write_safetensors(const std::string& path, std::span<const Entry> entries, const Metadata& metadata) {
  const Plan layout = plan(entries, metadata);
  AtomicFile file(path);
  write_plan(file, layout);
  file.commit();
}

}  // namespace mezzo::io
