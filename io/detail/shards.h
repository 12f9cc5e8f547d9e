// Tensors in several safetensors files with an index beside them: Hugging Face's layout.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/io/tensor_file.h"

namespace mezzo::io::detail {

/// Whether a path is an index: "name.safetensors.index.json".
[[nodiscard]] bool is_shard_index(const std::string& path) noexcept;
/// The index of the files that `path` was saved as.
[[nodiscard]] std::string shard_index_of(const std::string& path);
/// Whether there is one, and no file at `path` itself.
[[nodiscard]] bool is_saved_in_shards(const std::string& path);

/// See TensorFile::save. The file's data exceed `max_shard_size`.
void save_shards(const TensorFile& file, const std::string& path, std::uint64_t max_shard_size);
/// See TensorFile::load. `path`: the index.
[[nodiscard]] TensorFile load_shards(const std::string& path, Device device, const LoadOptions& options);

}  // namespace mezzo::io::detail
