// NumPy's arrays: what was read, written as NumPy writes it, reads the same.
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/npy_header.h"
#include "mezzo/io/npy.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/same_tensor.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

int fuzz_npy(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const Tensor read = io::read_npy(file.path());
    require(static_cast<std::size_t>(read.numel() * size_of(read.dtype())) <= size,
            "no more data than the file has");
    std::string again = io::detail::npy_header("fuzz", read.dtype(), read.shape());
    again.append(static_cast<const char*>(read.impl().data()),
                 static_cast<std::size_t>(read.numel() * size_of(read.dtype())));
    const MemoryFile written(reinterpret_cast<const std::uint8_t*>(again.data()), again.size());
    require(same_tensor(io::read_npy(written.path()), read), "what is written reads back equal");
  } catch (const Error& error) {
    require(std::string(error.what()).size() < 2000, "a message is short");
  }
  return 0;
}

}  // namespace mezzo::fuzz
