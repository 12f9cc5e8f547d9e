// Conversion between tensors and the entries of a safetensors file. Saving copies tensors to the CPU first;
// loading reads a file right into them, or maps it.
#include "mezzo/io/detail/one_file.h"

#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file_pieces.h"
#include "mezzo/io/detail/mapped_file.h"
#include "mezzo/io/detail/safetensors_header.h"
#include "mezzo/io/detail/tensor_bytes.h"

namespace mezzo::io::detail {

namespace {

/// "F32": the format spells dtypes as this library does, in capitals.
std::string format_name(DType dtype) {
  std::string name = to_string(dtype);
  for (char& letter : name) letter = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 32) : letter;
  return name;
}

DType dtype_of_entry(const std::string& op, const SafeTensors::Entry& entry) {
  std::string known;
  for (const DType dtype : kAllDTypes) {
    const std::string name = format_name(dtype);
    if (name == entry.dtype) return dtype;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw IoError(op, "tensors of dtype " + known, quote(entry.dtype) + " in tensor " + quote(entry.name),
                "convert it, or read the file with io::SafeTensors");
}

Shape shape_of_entry(const std::string& op, const SafeTensors::Entry& entry) {
  if (entry.shape.size() <= static_cast<std::size_t>(kMaxDims))
    return {std::span<const std::int64_t>(entry.shape)};
  throw IoError(op, "at most " + std::to_string(kMaxDims) + " dims",
                std::to_string(entry.shape.size()) + " in tensor " + quote(entry.name), "reshape it");
}

/// The tensors of a file, in the order of its header.
class TensorReader {
 public:
  TensorReader(const std::string& op, const InputFile& file, const FileHeader& header,
               const LoadOptions& options)
      : file_(file), header_(header) {
    // All are looked at before memory is taken for one.
    for (const SafeTensors::Entry& entry : header.header.entries) {
      dtypes_.push_back(dtype_of_entry(op, entry));
      shapes_.push_back(shape_of_entry(op, entry));
    }
    if (options.mapped) map_ = make_ref<MappedFile>(file, MappedFile::Access::copy_on_write);
  }

  [[nodiscard]] std::vector<Tensor> read(Device device) const {
    std::vector<Tensor> tensors;
    tensors.reserve(dtypes_.size());
    std::vector<FilePiece> pieces;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      Tensor tensor = mapped(i);
      if (!tensor.defined()) {
        tensor = empty(shapes_[i], {.dtype = dtypes_[i]});
        pieces.push_back({bytes_of(tensor), begin_of(i)});
      }
      tensors.push_back(std::move(tensor));
      // On its way to another device each tensor is on the CPU for itself.
      if (device.is_cpu()) continue;
      read_pieces(file_, pieces);
      pieces.clear();
      make_sound(i, tensors.back());
      tensors.back() = tensors.back().to(device);
    }
    read_pieces(file_, pieces);
    for (std::size_t i = 0; i < tensors.size() && device.is_cpu(); ++i) make_sound(i, tensors[i]);
    return tensors;
  }

 private:
  [[nodiscard]] std::uint64_t begin_of(std::size_t i) const {
    return header_.data_begin + header_.header.places[i].begin;
  }

  /// A tensor in the mapped file, or none where it cannot be there.
  [[nodiscard]] Tensor mapped(std::size_t i) const {
    const auto bytes = header_.header.places[i].end - header_.header.places[i].begin;
    if (!map_ || bytes == 0 || begin_of(i) % static_cast<std::uint64_t>(size_of(dtypes_[i])) != 0) return {};
    std::byte* const data = map_->writable_bytes().data() + begin_of(i);
    return Tensor(make_ref<TensorImpl>(make_ref<Storage>(data, bytes, Device::cpu(), map_), 0, shapes_[i],
                                       layout::contiguous_strides(shapes_[i]), dtypes_[i], false));
  }

  /// A bool of another byte than 0 and 1 is none.
  void make_sound(std::size_t i, const Tensor& tensor) const {
    if (dtypes_[i] == DType::boolean) make_bools(bytes_of(tensor));
  }

  const InputFile& file_;
  const FileHeader& header_;
  std::vector<DType> dtypes_;
  std::vector<Shape> shapes_;
  Ref<MappedFile> map_;
};

/// The tensors of a file as entries, whose bytes are on the CPU.
struct HostEntries {
  explicit HostEntries(const TensorFile& file) {
    for (const auto& [name, tensor] : file.tensors) {
      const Tensor& host = on_host.emplace_back(row_major_on_host("TensorFile.save", name, tensor));
      entries.push_back({.name = name,
                         .dtype = format_name(host.dtype()),
                         .shape = {host.shape().begin(), host.shape().end()},
                         .bytes = bytes_of(host)});
    }
  }
  std::vector<Tensor> on_host;
  std::vector<SafeTensors::Entry> entries;
};

}  // namespace

void write_one_file(const TensorFile& file, const std::string& path) {
  const HostEntries host(file);
  io::write_safetensors(path, host.entries, file.metadata);
}

void write_one_file(const TensorFile& file, AtomicFile& to) {
  const HostEntries host(file);
  write_safetensors(to, host.entries, file.metadata);
}

TensorFile read_one_file(const std::string& path, Device device, const LoadOptions& options) {
  InputFile file(path, "safetensors");
  FileHeader header = read_file_header(file);
  const TensorReader reader("load tensors '" + path + "'", file, header, options);
  std::vector<Tensor> loaded = reader.read(device);
  TensorFile result{.tensors = {}, .metadata = std::move(header.header.metadata)};
  result.tensors.reserve(loaded.size());
  for (std::size_t i = 0; i < loaded.size(); ++i)
    result.tensors.emplace_back(std::move(header.header.entries[i].name), std::move(loaded[i]));
  return result;
}

}  // namespace mezzo::io::detail
