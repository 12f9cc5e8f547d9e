// NumPy's files: an array in a .npy, named arrays in a .npz. Read into tensors and written.
#pragma once

#include <string>

#include "mezzo/core/tensor.h"
#include "mezzo/io/tensor_file.h"

namespace mezzo::io {

/// The array in a .npy file of format 1, 2 or 3, as a new row-major tensor on the CPU.
/// Shapes: any of up to 8 dims; arrays in Fortran's order come in row-major order, big-endian ones converted.
/// Dtypes: float16, float32, float64, int8, int16, int32, int64, uint8, bool; uint16 -> i32, uint32 and
/// uint64 -> i64. Throws: IoError, naming the file, when it cannot be read, is no .npy file, has a dtype that
/// mezzo does not have (object arrays are pickles and never read) or a uint64 beyond i64, or is shorter or
/// longer than its header says. Source: numpy.load, numpy.lib.format.
[[nodiscard]] Tensor read_npy(const std::string& path);

/// Writes the file that numpy.save writes, byte for byte, all or nothing (see AtomicFile): values row-major,
/// from any device and layout. Throws: ValueError for an undefined tensor, DTypeError for bf16 and float8,
/// which NumPy does not have, IoError for a path that cannot be written. Source: numpy.save.
void write_npy(const std::string& path, const Tensor& tensor);

/// The arrays in a .npz file, stored or compressed, in the order of the file; names are without ".npy".
/// Throws: what read_npy throws, naming the array too, and IoError when the file is no sound zip archive, an
/// entry is no array, or it is compressed and the build has no zlib, or a name that `options` ask for is not
/// there. A compressed entry takes at most 1032 times its bytes in the file. Of the options .names and
/// .prefix count: nothing else is read. Source: numpy.load.
[[nodiscard]] TensorFile::NamedTensors read_npz(const std::string& path, const LoadOptions& options = {});

struct NpzOptions {
  bool compressed = false;  ///< as numpy.savez_compressed; needs zlib
};

/// Writes a file that numpy.load reads, all or nothing. Throws: what write_npy throws, and IoError for a name
/// that occurs twice or is no UTF-8, and for `compressed` in a build without zlib.
/// Source: numpy.savez, numpy.savez_compressed.
void write_npz(const std::string& path, const TensorFile::NamedTensors& named,
               const NpzOptions& options = {});

}  // namespace mezzo::io
