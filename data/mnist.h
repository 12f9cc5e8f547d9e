// MNIST and the data sets in its form (Fashion-MNIST, KMNIST, EMNIST, QMNIST): four IDX files.
#pragma once

#include <string>

#include "mezzo/data/labelled_images.h"

namespace mezzo::data {

struct MNISTOptions {
  bool train = true;  ///< train-images-idx3-ubyte and -labels-idx1-ubyte; else t10k-...
  /// Files of another name: "qmnist" (qmnist-train-..., qmnist-test-...), or of EMNIST "balanced", "byclass",
  /// "bymerge", "letters", "digits" or "mnist" (emnist-letters-train-..., -test-...).
  std::string split = {};
};

/// 28x28 gray images: u8 [1, 28, 28], labels 0 to 9. `classes()` are the digits; of EMNIST letters too, of
/// "letters" from label 1 on. EMNIST's images lie on their side, as in torchvision. Of QMNIST's labels the
/// first number counts. Source: torchvision.datasets.MNIST, EMNIST, QMNIST.
class MNIST : public LabelledImages {
 public:
  /// `folder` holds the files under their names, as they are or gzipped (with .gz behind the name; where both
  /// are there, the first is read), or is torchvision's root, that has them in MNIST/raw (QMNIST/raw,
  /// EMNIST/raw), or the folder between: of Fashion-MNIST root/FashionMNIST. Throws: ValueError for another
  /// split; IoError, naming the file, when one is not there, is no IDX file of u8 [N, 28, 28] or [N] (QMNIST:
  /// i32 [N, 8]), a label is no class, or the files hold different numbers of samples.
  explicit MNIST(const std::string& folder, const MNISTOptions& options = {});
};

}  // namespace mezzo::data
