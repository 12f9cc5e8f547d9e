// Reader and writer of the safetensors format: named tensors as raw bytes behind a JSON header. Knows nothing
// of Tensor, so that tests and tools can read files without the rest, and trusts nothing in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/io/tensor_entry.h"

namespace mezzo::io {

class AtomicFile;
namespace detail {
struct ParsedHeader;
}

/// Bits per element of a dtype by its name in the format (F64 F32 F16 BF16 F8_E4M3 ... I64 ... U8 BOOL C64),
/// or none when the name is not known here.
[[nodiscard]] std::optional<int> safetensors_dtype_bits(std::string_view dtype) noexcept;

/// A file read into memory and checked from end to end. Copies share the bytes, which live as long as any of
/// them.
class SafeTensors {
 public:
  using Entry = TensorEntry;

  /// Reads `path`. Throws: IoError when the file is no well-formed safetensors file, which means: header
  /// length within the file and at most 100 MB; a JSON map without duplicate keys, of at most 2^22 values and
  /// 3 levels; `__metadata__` at most 2^14 strings to strings; every tensor exactly {dtype, shape,
  /// data_offsets}, at most 64 sizes >= 0 whose product (zeros left out) is below 2^60, offsets within the
  /// data, begin <= end and as long as shape and dtype ask (dtypes not known here: any length); data covered
  /// without overlap, hole or rest. OutOfMemoryError when it is well-formed but does not fit into memory.
  /// Besides the data this takes at most 4 times the header's length, whatever is in it, and 4 MB for
  /// `__metadata__`.
  [[nodiscard]] static SafeTensors open(const std::string& path);
  /// open() for bytes in memory, which are kept, not copied.
  [[nodiscard]] static SafeTensors from_bytes(std::vector<std::byte> bytes);

  [[nodiscard]] const Metadata& metadata() const& noexcept { return metadata_; }
  [[nodiscard]] Metadata metadata() && { return std::move(metadata_); }
  /// All tensors, in the order of the header.
  [[nodiscard]] std::span<const Entry> entries() const& noexcept;
  [[nodiscard]] std::vector<Entry> entries() &&;
  /// Their names, in the same order.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string_view name) const;
  /// The tensor of that name; IoError, naming some that there are, when there is none.
  [[nodiscard]] const Entry& at(std::string_view name) const&;
  [[nodiscard]] Entry at(std::string_view name) &&;

 private:
  SafeTensors() = default;
  /// From a parsed header and the bytes behind it, which `owner` keeps.
  static SafeTensors with_data(std::string op, detail::ParsedHeader&& header, std::span<const std::byte> data,
                               std::shared_ptr<const void> owner);
  /// The tensor of that name, or nullptr.
  [[nodiscard]] const Entry* find(std::string_view name) const;

  std::string op_;
  std::shared_ptr<const void> owner_;
  Metadata metadata_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> by_name_;  // indices of entries
};

/// The file that holds `entries` and `metadata`, as bytes. Tensors are laid out by falling element size, then
/// by name, so that each is naturally aligned and the same content always gives the same bytes. Throws:
/// IoError for duplicate or reserved names ("__metadata__"), text that is not UTF-8, negative sizes, and
/// bytes that do not fit dtype and shape.
[[nodiscard]] std::vector<std::byte> serialize_safetensors(std::span<const SafeTensors::Entry> entries,
                                                           const Metadata& metadata = {});

/// Writes the same to `path`, all or nothing (see AtomicFile), without a second copy of the data in memory.
void write_safetensors(const std::string& path, std::span<const SafeTensors::Entry> entries,
                       const Metadata& metadata = {});

namespace detail {
/// Writes the same into a file that is open, which is still to be committed.
void write_safetensors(AtomicFile& file, std::span<const SafeTensors::Entry> entries,
                       const Metadata& metadata);
/// Throws: IoError unless elements of `size` bytes are what `entry` holds.
void check_element_size(const SafeTensors::Entry& entry, std::size_t size);
}  // namespace detail

/// The elements of `entry`, copied bit for bit; alignment does not matter. T has the element's size (F16 and
/// BF16 go to std::uint16_t or a 16-bit storage type, BOOL to std::uint8_t); IoError otherwise. The dtype's
/// kind is not checked.
template <class T>
[[nodiscard]] std::vector<T> copy_as(const SafeTensors::Entry& entry) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>,
                "bytes of a file are copied into T");
  detail::check_element_size(entry, sizeof(T));
  std::vector<T> values(entry.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
  return values;
}

}  // namespace mezzo::io
