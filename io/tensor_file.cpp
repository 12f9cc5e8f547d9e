// Conversion between tensors and the entries of a safetensors file: dtype names, the limit on dims, bools
// as 0 or 1. Saving copies tensors to the CPU first.
#include "mezzo/io/tensor_file.h"

#include <algorithm>
#include <cstring>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"

namespace mezzo::io {

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

Tensor tensor_of(const std::string& op, const SafeTensors::Entry& entry) {
  const DType dtype = dtype_of_entry(op, entry);
  if (entry.shape.size() > static_cast<std::size_t>(kMaxDims)) {
    throw IoError(op, "at most " + std::to_string(kMaxDims) + " dims",
                  std::to_string(entry.shape.size()) + " in tensor " + quote(entry.name), "reshape it");
  }
  Tensor tensor = empty(Shape(std::span<const std::int64_t>(entry.shape)), {.dtype = dtype});
  auto* const data = static_cast<std::byte*>(tensor.impl().data());
  if (!entry.bytes.empty()) std::memcpy(data, entry.bytes.data(), entry.bytes.size());
  if (dtype == DType::boolean) {  // a bool of another byte than 0 and 1 is none
    std::transform(data, data + entry.bytes.size(), data,
                   [](std::byte byte) { return std::byte{byte != std::byte{0}}; });
  }
  return tensor;
}

}  // namespace

void TensorFile::add(std::string_view prefix, const NamedTensors& named) {
  for (const auto& [name, tensor] : named) tensors.emplace_back(std::string(prefix) + name, tensor);
}

TensorFile::NamedTensors TensorFile::with_prefix(std::string_view prefix) const {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  }
  return result;
}

void TensorFile::save(const std::string& path) const {
  std::vector<Tensor> on_host;  // keeps the bytes of the entries
  std::vector<SafeTensors::Entry> entries;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) {
      throw ValueError("TensorFile.save", "tensors", "an undefined one under " + quote(name), "leave it out");
    }
    const Tensor& host = on_host.emplace_back(tensor.detach().to(Device::cpu()).contiguous());
    entries.push_back({.name = name,
                       .dtype = format_name(host.dtype()),
                       .shape = {host.shape().begin(), host.shape().end()},
                       .bytes = {static_cast<const std::byte*>(host.impl().data()),
                                 static_cast<std::size_t>(host.numel() * size_of(host.dtype()))}});
  }
  write_safetensors(path, entries, metadata);
}

TensorFile TensorFile::load(const std::string& path, Device device) {
  const SafeTensors file = SafeTensors::open(path);
  const std::string op = "load tensors '" + path + "'";
  TensorFile result{.tensors = {}, .metadata = file.metadata()};
  for (const SafeTensors::Entry& entry : file.entries())
    result.tensors.emplace_back(entry.name, tensor_of(op, entry).to(device));
  return result;
}

void save(const TensorFile::NamedTensors& tensors, const std::string& path) {
  TensorFile{.tensors = tensors, .metadata = {}}.save(path);
}

TensorFile::NamedTensors load(const std::string& path, Device device) {
  return TensorFile::load(path, device).tensors;
}

}  // namespace mezzo::io
