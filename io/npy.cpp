// Arrays of NumPy's files: sizes are checked against the bytes there are before memory is taken, and data are
// read right into the tensor.
#include "mezzo/io/npy.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/npy_header.h"
#include "mezzo/io/detail/selection.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/detail/zip.h"
#include "mezzo/ops/shape.h"

namespace mezzo::io {

namespace {

constexpr std::string_view kNpySuffix = ".npy";

/// The array that `source` gives, of `size` bytes in all.
Tensor read_array(detail::ByteSource& source, std::uint64_t size, const std::string& what) {
  if (size < 8) {
    throw IoError(source.op(), "a .npy array" + what,
                  (what.empty() ? "a file of " : "") + std::to_string(size) + " bytes",
                  "write it with numpy.save");
  }
  const detail::NpyHeader header = detail::read_npy_header(source, what);
  const auto element = static_cast<std::size_t>(size_of(header.dtype));
  const std::size_t wanted = static_cast<std::size_t>(detail::checked_count(header.shape)) * element;
  if (wanted != size - header.size) {
    throw IoError(
        source.op(),
        std::to_string(wanted) + " bytes behind the header, for shape " + to_string(header.shape) + what,
        std::to_string(size - header.size), "fetch or write the file again");
  }
  Shape shape = header.shape;
  if (header.is_fortran) std::reverse(shape.begin(), shape.end());
  Tensor tensor = empty(shape, {.dtype = header.dtype});
  const std::span<std::byte> bytes = detail::bytes_of(tensor);
  source.read(bytes);
  source.expect_end(size);
  if (header.is_big_endian) detail::reverse_elements(bytes, element);
  if (header.dtype == DType::boolean) detail::make_bools(bytes);
  if (header.is_unsigned) tensor = detail::widened(source.op(), what, tensor);
  if (!header.is_fortran || shape.size() < 2) return tensor;
  Dims dims;
  for (std::size_t d = shape.size(); d-- > 0;) dims.push_back(static_cast<std::int64_t>(d));
  return permute(tensor, dims).contiguous();
}

}  // namespace

Tensor read_npy(const std::string& path) {
  InputFile file(path, "read_npy");
  detail::FileRange source(file, 0, file.size());
  return read_array(source, file.size(), "");
}

void write_npy(const std::string& path, const Tensor& tensor) {
  const Tensor host = detail::row_major_on_host("write_npy", path, tensor);
  const std::string header = detail::npy_header("write_npy", host.dtype(), host.shape());
  AtomicFile file(path);
  file.write(header);
  file.write(detail::bytes_of(host));
  file.commit();
}

TensorFile::NamedTensors read_npz(const std::string& path, const LoadOptions& options) {
  detail::ZipReader archive(path, "read_npz");
  TensorFile::NamedTensors result;
  std::vector<std::string_view> names;
  for (const detail::ZipEntry& entry : archive.entries()) {
    std::string_view name = entry.name;
    if (name.ends_with(kNpySuffix)) name.remove_suffix(kNpySuffix.size());
    names.push_back(name);
  }
  detail::require_distinct(archive.op(), names);
  const std::vector<bool> selected = detail::select(archive.op(), options.names, options.prefix, names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!selected[i]) continue;
    const detail::ZipEntry& entry = archive.entries()[i];
    const std::unique_ptr<detail::ByteSource> source = archive.open(entry);
    const std::string what = " in entry " + quote(entry.name);
    result.emplace_back(names[i], read_array(*source, entry.size, what));
  }
  return result;
}

void write_npz(const std::string& path, const TensorFile::NamedTensors& named, const NpzOptions& options) {
  std::vector<std::string_view> names;
  std::vector<std::string> headers;
  std::vector<Tensor> on_host;
  for (const auto& [name, tensor] : named) {
    names.push_back(name);
    const Tensor& host = on_host.emplace_back(detail::row_major_on_host("write_npz", name, tensor));
    headers.push_back(detail::npy_header("write_npz " + quote(name), host.dtype(), host.shape()));
  }
  const std::string op = "write_npz '" + path + "'";
  detail::require_distinct(op, names);
  AtomicFile file(path);
  detail::ZipWriter archive(file);
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(headers[i])),
                                                          detail::bytes_of(on_host[i])};
    archive.add(op, named[i].first + std::string(kNpySuffix), parts,
                options.compressed ? detail::ZipMethod::deflated : detail::ZipMethod::stored);
  }
  archive.finish();
  file.commit();
}

}  // namespace mezzo::io
