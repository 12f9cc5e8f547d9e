// Reading safetensors: every statement of the header is checked before a byte of data is handed out. The
// header itself is read in safetensors_header.cpp; writing is in safetensors_write.cpp.
#include "mezzo/io/safetensors.h"

#include <algorithm>
#include <bit>
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
  detail::JsonTextInMemory text({reinterpret_cast<const char*>(all.data()) + 8, length});
  const std::span<const std::byte> data = all.subspan(8 + length);
  return with_data(op, detail::parse_header(op, text, data.size()), data, owner);
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

}  // namespace mezzo::io
