// Tensors in a safetensors file: what a checkpoint of a model, an optimizer or both is made of. safetensors.h
// knows the format, this file which tensor goes with which entry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/named_tensors.h"
#include "mezzo/io/safetensors.h"

namespace mezzo::io {

/// How tensors are read from files.
struct LoadOptions {
  /// Tensors on the CPU share the file's pages, which are read when they are first used and copied when they
  /// are written to: the file stays as it is. It must not be made shorter while a tensor of it is alive (the
  /// system ends a program that reads what is gone); to replace it, as io::save does, is fine. Source:
  /// torch.load(mmap=True).
  bool mapped = false;
  /// Only the tensors of these names, and those whose names begin with `prefix`; nothing here: all. The
  /// others are not read, and may be of dtypes that mezzo does not have.
  std::vector<std::string> names = {};
  std::string prefix = {};
};

struct SaveOptions {
  std::optional<std::uint64_t> max_shard_size = {};  ///< bytes of data in a file; none: one file of any size
};

/// Named tensors and strings that belong together in one file:
///   io::TensorFile file;
///   file.add("model.", net.state_dict());
///   file.metadata["epoch"] = "3";
///   file.save("run.safetensors");
///   net.load_state_dict(io::TensorFile::load("run.safetensors").with_prefix("model."));
struct TensorFile {
  using NamedTensors = mezzo::NamedTensors;

  NamedTensors tensors;
  Metadata metadata;

  /// Appends tensors, each under `prefix` and its name. They are held, not copied, until `save` reads them.
  void add(std::string_view prefix, const NamedTensors& named);
  /// The tensors whose names begin with `prefix`, in order, under their names without it.
  [[nodiscard]] NamedTensors with_prefix(std::string_view prefix) const {
    return tensors.with_prefix(prefix);
  }

  /// Writes `path`, all or nothing (see AtomicFile): values row-major, from any device and layout. Throws:
  /// ValueError for an undefined tensor, and what write_safetensors throws: IoError for a name that occurs
  /// twice, a path that cannot be written, ...
  /// With `max_shard_size`, data of more bytes go into several files, as Hugging Face has them:
  /// "name-00001-of-00003.safetensors" and so on, in the order of the tensors, and an index,
  /// "name.safetensors.index.json". Files saved at `path` before, one or several, are replaced: a reader of
  /// the index finds the former tensors, the new tensors, or, if the process is killed while the files get
  /// their names, no index. Throws: ValueError where `path` does not end with ".safetensors" then.
  void save(const std::string& path, const SaveOptions& options = {}) const;
  /// Reads `path` into new tensors on `device`, without history. Data go right into the tensors, large ones
  /// on several threads. With `mapped`, tensors on the CPU share the file's pages, but for those whose data
  /// are not aligned to their elements. U16 becomes i32, U32 and U64 become i64. Throws: what
  /// SafeTensors::open throws, and IoError for a tensor of a dtype that mezzo does not have, of too many dims
  /// or of U64 beyond i64, for names that are asked for and not there, and for a file that cannot be mapped.
  ///
  /// The path of an index, or of what was saved as several files, loads all of them, file by file, metadata
  /// of the first that has a key. The index only says which files belong together, as in Hugging Face's
  /// transformers: tensors that it leaves out are loaded too, and names that no file has are passed over.
  /// IoError for a file that is not there, and for a tensor that is in two files.
  [[nodiscard]] static TensorFile load(const std::string& path, Device device = Device::cpu(),
                                       const LoadOptions& options = {});
};

/// A file of tensors alone: `io::save(net.state_dict(), "net.safetensors")`,
/// `net.load_state_dict(io::load("net.safetensors"))`. Throws: what TensorFile throws.
void save(const TensorFile::NamedTensors& tensors, const std::string& path, const SaveOptions& options = {});
[[nodiscard]] TensorFile::NamedTensors load(const std::string& path, Device device = Device::cpu(),
                                            const LoadOptions& options = {});

}  // namespace mezzo::io
