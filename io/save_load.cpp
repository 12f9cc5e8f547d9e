// Saving and loading of TensorFile: one file or several.
#include "mezzo/core/error.h"
#include "mezzo/io/detail/one_file.h"
#include "mezzo/io/detail/shards.h"
#include "mezzo/io/detail/tensor_bytes.h"
#include "mezzo/io/tensor_file.h"

namespace mezzo::io {

void TensorFile::save(const std::string& path, const SaveOptions& options) const {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    detail::check_defined("TensorFile.save", name, tensor);
    bytes += static_cast<std::uint64_t>(tensor.numel() * size_of(tensor.dtype()));
  }
  if (options.max_shard_size && bytes > *options.max_shard_size) {
    detail::save_shards(*this, path, *options.max_shard_size);
  } else {
    detail::write_one_file(*this, path);
  }
}

TensorFile TensorFile::load(const std::string& path, Device device, const LoadOptions& options) {
  if (detail::is_shard_index(path)) return detail::load_shards(path, device, options);
  if (detail::is_saved_in_shards(path))
    return detail::load_shards(detail::shard_index_of(path), device, options);
  return detail::read_one_file(path, device, options);
}

void save(const TensorFile::NamedTensors& tensors, const std::string& path, const SaveOptions& options) {
  TensorFile{.tensors = tensors, .metadata = {}}.save(path, options);
}

TensorFile::NamedTensors load(const std::string& path, Device device, const LoadOptions& options) {
  return TensorFile::load(path, device, options).tensors;
}

}  // namespace mezzo::io
