// Files of torch.save from before PyTorch 1.6, and of _use_new_zipfile_serialization=False: pickles one
// behind the other, then the bytes of each storage.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/torch/pickled.h"
#include "mezzo/io/detail/zip.h"

namespace mezzo::io::detail {

/// Whether a file that begins with these bytes, 24 or more of them, is one.
[[nodiscard]] bool is_legacy_file(std::span<const std::byte> begin) noexcept;

using LegacyStorages = std::map<std::string, ZipEntry, std::less<>>;

struct LegacyFile {
  Pickled pickled;
  LegacyStorages storages;  ///< by key: where in the file each one is, as an entry of an archive would say it
};

/// Throws: what unpickle throws, and IoError for another version of the format and for storages that are not
/// where and as large as they should be. The file is mapped meanwhile: it must not be made shorter.
[[nodiscard]] LegacyFile read_legacy_file(const InputFile& file);

}  // namespace mezzo::io::detail
