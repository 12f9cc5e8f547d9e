// The two IDX files of MNIST, compared with each other.
#include "mezzo/data/mnist.h"

#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/io/idx.h"

namespace mezzo::data {

namespace {

std::string mnist_op(const std::string& path) { return "MNIST '" + path + "'"; }

/// The path of a file, which may be gzipped.
std::string find_mnist(const std::string& folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path plain = std::filesystem::path(folder) / name;
  if (std::filesystem::exists(plain, error)) return plain.string();
  std::string packed = plain.string() + ".gz";
  if (std::filesystem::exists(packed, error)) return packed;
  throw IoError(mnist_op(folder), "'" + name + "' in the folder, or the same with .gz", "neither",
                "fetch the data set, or give the folder that its files are in");
}

Tensor read_mnist(const std::string& path, bool images) {
  Tensor tensor = io::read_idx(path);
  const Shape& shape = tensor.shape();
  const bool fits = images ? shape.size() == 3 && shape[1] == 28 && shape[2] == 28 : shape.size() == 1;
  if (tensor.dtype() != DType::u8 || !fits) {
    throw IoError(mnist_op(path), images ? "images of u8 [N, 28, 28]" : "labels of u8 [N]",
                  std::string(info(tensor.dtype()).name) + " " + to_string(shape), "check the file's name");
  }
  return tensor;
}

/// Labels as i64, checked.
Tensor mnist_labels(const std::string& path, const Tensor& bytes) {
  Tensor labels = empty(bytes.shape(), {.dtype = DType::i64});
  const std::span<const std::uint8_t> from = bytes.data<std::uint8_t>();
  const std::span<std::int64_t> to = labels.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] > 9) {
      throw IoError(mnist_op(path), "labels from 0 to 9",
                    std::to_string(from[i]) + " at position " + std::to_string(i), "fetch the file again");
    }
    to[i] = from[i];
  }
  return labels;
}

LabelledImages load_mnist(const std::string& folder, bool train) {
  const std::string start = train ? "train" : "t10k";
  const std::string images_path = find_mnist(folder, start + "-images-idx3-ubyte");
  const std::string labels_path = find_mnist(folder, start + "-labels-idx1-ubyte");
  const Tensor labels = mnist_labels(labels_path, read_mnist(labels_path, false));
  const Tensor images = read_mnist(images_path, true);
  if (images.size(0) != labels.size(0)) {
    throw IoError(
        mnist_op(labels_path),
        "as many labels as '" + images_path + "' has images, which is " + std::to_string(images.size(0)),
        std::to_string(labels.size(0)), "fetch both files again");
  }
  return {"MNIST",
          images.view({images.size(0), 1, 28, 28}),
          labels,
          {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
}

}  // namespace

MNIST::MNIST(const std::string& folder, const MNISTOptions& options)
    : LabelledImages(load_mnist(folder, options.train)) {}

}  // namespace mezzo::data
