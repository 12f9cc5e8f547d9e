// IDX, the file format of MNIST and its successors: read into tensors.
#pragma once

#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo::io {

/// The array in an IDX file, on the CPU: bytes as u8 or i8, integers as i16 or i32, floats as f32 or f64; up
/// to 8 dims. A gzip'd file (train-images-idx3-ubyte.gz) is unpacked on the way, whatever its name. Throws:
/// IoError, naming the file, when it cannot be read, is no IDX file, is shorter or longer than its header
/// says, is packed and damaged, or is packed and the build has no zlib. Format:
/// http://yann.lecun.com/exdb/mnist (big-endian).
[[nodiscard]] Tensor read_idx(const std::string& path);

}  // namespace mezzo::io
