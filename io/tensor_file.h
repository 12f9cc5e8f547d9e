// Tensors in a safetensors file: what a checkpoint of a model, an optimizer or both is made of. safetensors.h
// knows the format, this file which tensor goes with which entry.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/io/load_options.h"
#include "mezzo/io/safetensors.h"

namespace mezzo::io {

/// Named tensors and strings that belong together in one file:
///   io::TensorFile file;
///   file.add("model.", net.state_dict());
///   file.metadata["epoch"] = "3";
///   file.save("run.safetensors");
///   net.load_state_dict(io::TensorFile::load("run.safetensors").with_prefix("model."));
struct TensorFile {
  using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

  NamedTensors tensors;
  Metadata metadata;

  /// Appends tensors, each under `prefix` and its name. They are held, not copied, until `save` reads them.
  void add(std::string_view prefix, const NamedTensors& named);
  /// Those whose names begin with `prefix`, without it, in their order.
  [[nodiscard]] NamedTensors with_prefix(std::string_view prefix) const;

  /// Writes `path`, all or nothing (see AtomicFile): values row-major, from any device and layout. Throws:
  /// ValueError for an undefined tensor, and what write_safetensors throws: IoError for a name that occurs
  /// twice, a path that cannot be written, ...
  void save(const std::string& path) const;
  /// Reads `path` into new tensors on `device`, without history. Data go right into the tensors, large ones
  /// on several threads. With `mapped`, tensors on the CPU share the file's pages, but for those whose data
  /// are not aligned to their elements. Throws: what SafeTensors::open throws, and IoError for a tensor of a
  /// dtype that mezzo does not have or of too many dims, and for a file that cannot be mapped.
  [[nodiscard]] static TensorFile load(const std::string& path, Device device = Device::cpu(),
                                       const LoadOptions& options = {});
};

/// A file of tensors alone: `io::save(net.state_dict(), "net.safetensors")`,
/// `net.load_state_dict(io::load("net.safetensors"))`. Throws: what TensorFile throws.
void save(const TensorFile::NamedTensors& tensors, const std::string& path);
[[nodiscard]] TensorFile::NamedTensors load(const std::string& path, Device device = Device::cpu(),
                                            const LoadOptions& options = {});

}  // namespace mezzo::io
