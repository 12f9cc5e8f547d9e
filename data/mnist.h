// MNIST and the data sets in its form (Fashion-MNIST, KMNIST): four IDX files.
#pragma once

#include <string>

#include "mezzo/data/labelled_images.h"

namespace mezzo::data {

struct MNISTOptions {
  bool train = true;  ///< train-images-idx3-ubyte and -labels-idx1-ubyte; else t10k-...
};

/// 28x28 gray images of 10 classes: u8 [1, 28, 28], labels 0 to 9. `classes()` are the digits.
/// Source: torchvision.datasets.MNIST.
class MNIST : public LabelledImages {
 public:
  /// `folder` holds the files under their names, as they are or gzipped (with .gz behind the name; where both
  /// are there, the first is read). Throws: IoError, naming the file, when one is not there, is no IDX file
  /// of u8 [N, 28, 28] or [N], a label is above 9, or the files hold different numbers of samples.
  explicit MNIST(const std::string& folder, const MNISTOptions& options = {});
};

}  // namespace mezzo::data
