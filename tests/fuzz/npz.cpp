// Archives of NumPy's arrays: each entry, taken out of the archive into a file of its own, reads the same.
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/zip.h"
#include "mezzo/io/npy.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/same_tensor.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

int fuzz_npz(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const io::TensorFile::NamedTensors read = io::read_npz(file.path());
    io::detail::ZipReader archive(file.path(), "fuzz");
    require(archive.entries().size() == read.size(), "as many tensors as entries");
    for (std::size_t i = 0; i < read.size(); ++i) {
      const io::detail::ZipEntry& entry = archive.entries()[i];
      require(entry.begin + entry.packed_size <= size, "data within the file");
      std::vector<std::uint8_t> bytes(entry.size);
      archive.open(entry)->read(std::as_writable_bytes(std::span(bytes)));
      const MemoryFile alone(bytes.data(), bytes.size());
      require(same_tensor(io::read_npy(alone.path()), read[i].second), "an entry alone reads the same");
    }
  } catch (const Error& error) {
    require(std::string(error.what()).size() < 2000, "a message is short");
  }
  return 0;
}

}  // namespace mezzo::fuzz
