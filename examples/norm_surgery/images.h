// What the example learns: generated images, or those of two IDX files such as MNIST's.
#pragma once

#include <string>
#include <vector>

#include "mezzo/mezzo.h"

namespace norm_surgery {

/// A batch: images [N, 1, S, S] of mean about 0, and their classes [N].
struct Batch {
  mezzo::Tensor images, classes;
};

/// `count` batches of waves over a square of `side` pixels in noise; the class is the direction of the wave.
[[nodiscard]] std::vector<Batch> generated(std::int64_t count, std::int64_t batch_size, std::int64_t side,
                                           mezzo::Device device);

/// Batches from the files "*images-idx3-ubyte" and "*labels-idx1-ubyte" of a folder, at most `count`. Throws
/// ValueError when the folder does not hold one of each, or they do not belong together.
[[nodiscard]] std::vector<Batch> from_folder(const std::string& folder, std::int64_t count,
                                             std::int64_t batch_size, mezzo::Device device);

}  // namespace norm_surgery
