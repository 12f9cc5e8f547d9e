// CIFAR-10 and CIFAR-100, read from their "binary version" (https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once

#include <string>

#include "mezzo/data/labelled_images.h"

namespace mezzo::data {

struct CIFAR10Options {
  bool train = true;  ///< data_batch_1.bin to data_batch_5.bin; else test_batch.bin
};

/// 32x32 colour images of 10 classes: u8 [3, 32, 32], labels 0 to 9.
/// Source: torchvision.datasets.CIFAR10.
class CIFAR10 : public LabelledImages {
 public:
  /// `path` is the folder with the .bin files, the folder that holds cifar-10-batches-bin, or one .bin file,
  /// which is then all there is (`train` says nothing). A file may hold any number of records. Throws:
  /// IoError, naming the file, when it is not there, does not consist of whole records, or a label is out of
  /// range.
  explicit CIFAR10(const std::string& path, const CIFAR10Options& options = {});
};

struct CIFAR100Options {
  bool train = true;    ///< train.bin; else test.bin
  bool coarse = false;  ///< labels are the 20 superclasses; else the 100 classes
};

/// 32x32 colour images of 100 classes in 20 superclasses: u8 [3, 32, 32], labels 0 to 99, or to 19.
/// Source: torchvision.datasets.CIFAR100.
class CIFAR100 : public LabelledImages {
 public:
  /// `path` as of CIFAR10, with the folder cifar-100-binary. Throws: IoError, as CIFAR10.
  explicit CIFAR100(const std::string& path, const CIFAR100Options& options = {});
};

}  // namespace mezzo::data
