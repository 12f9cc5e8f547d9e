// The two IDX files of MNIST, compared with each other.
#include "mezzo/data/mnist.h"

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/idx.h"

namespace mezzo::data {

namespace {

std::string mnist_op(const std::string& path) { return "MNIST '" + path + "'"; }

/// Where the files of a set are, how they are called, and its classes.
struct MnistFiles {
  std::string set, start, labels;  ///< "MNIST", "train", "-labels-idx1-ubyte"
  std::vector<std::string> classes;
};

/// A class for each character; `first` stands before them, if it is any.
std::vector<std::string> classes_of(std::string_view characters, const std::string& first = {}) {
  std::vector<std::string> classes;
  if (!first.empty()) classes.push_back(first);
  for (const char c : characters) classes.emplace_back(1, c);
  return classes;
}

/// As torchvision's classes of these names have them.
MnistFiles mnist_files(const MNISTOptions& options) {
  const std::string& split = options.split;
  constexpr std::string_view kDigits = "0123456789";
  MnistFiles files{.set = "EMNIST",
                   .start = "emnist-" + split + (options.train ? "-train" : "-test"),
                   .labels = "-labels-idx1-ubyte",
                   .classes = classes_of(kDigits)};
  if (split.empty()) {
    files.set = "MNIST";
    files.start = options.train ? "train" : "t10k";
  } else if (split == "qmnist") {
    files.set = "QMNIST";
    files.start = options.train ? "qmnist-train" : "qmnist-test";
    files.labels = "-labels-idx2-int";
  } else if (split == "byclass") {
    files.classes = classes_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  } else if (split == "bymerge" || split == "balanced") {
    files.classes = classes_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt");
  } else if (split == "letters") {
    files.classes = classes_of("abcdefghijklmnopqrstuvwxyz", "N/A");
  } else if (split != "digits" && split != "mnist") {
    throw ValueError("MNIST",
                     "a .split that is empty, qmnist, balanced, byclass, bymerge, letters, digits or mnist",
                     quote(split), "");
  }
  return files;
}

/// The path of a file, which may be gzipped, in the folder or where torchvision puts it below.
std::string find_mnist(const std::string& folder, const std::string& set, const std::string& name) {
  std::error_code error;
  for (const std::filesystem::path& below :
       {std::filesystem::path(), std::filesystem::path("raw"), std::filesystem::path(set) / "raw"}) {
    const std::filesystem::path plain = std::filesystem::path(folder) / below / name;
    for (const std::string& path : {plain.string(), plain.string() + ".gz"}) {
      if (std::filesystem::exists(path, error)) return path;
    }
  }
  throw IoError(mnist_op(folder),
                "'" + name + "' in the folder, in raw or " + set + "/raw below, or the same with .gz", "none",
                "fetch the data set, or give the folder that its files are in");
}

Tensor read_mnist_images(const std::string& path) {
  Tensor tensor = io::read_idx(path);
  const Shape& shape = tensor.shape();
  if (tensor.dtype() == DType::u8 && shape.size() == 3 && shape[1] == 28 && shape[2] == 28) return tensor;
  throw IoError(mnist_op(path), "images of u8 [N, 28, 28]",
                std::string(info(tensor.dtype()).name) + " " + to_string(shape), "check the file's name");
}

/// Labels as i64, checked. QMNIST has seven numbers more behind each.
Tensor read_mnist_labels(const std::string& path, std::size_t classes, bool is_qmnist) {
  const Tensor read = io::read_idx(path);
  const Shape& shape = read.shape();
  const bool fits = is_qmnist ? read.dtype() == DType::i32 && shape.size() == 2 && shape[1] == 8
                              : read.dtype() == DType::u8 && shape.size() == 1;
  if (!fits) {
    throw IoError(mnist_op(path), is_qmnist ? "labels of i32 [N, 8]" : "labels of u8 [N]",
                  std::string(info(read.dtype()).name) + " " + to_string(shape), "check the file's name");
  }
  Tensor labels = (is_qmnist ? read.select(1, 0) : read).to(DType::i64).contiguous();
  const std::span<const std::int64_t> values = std::as_const(labels).data<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < static_cast<std::int64_t>(classes)) continue;
    throw IoError(mnist_op(path), "labels from 0 to " + std::to_string(classes - 1),
                  std::to_string(values[i]) + " at position " + std::to_string(i), "fetch the file again");
  }
  return labels;
}

LabelledImages load_mnist(const std::string& folder, const MNISTOptions& options) {
  MnistFiles files = mnist_files(options);
  const std::string images_path = find_mnist(folder, files.set, files.start + "-images-idx3-ubyte");
  const std::string labels_path = find_mnist(folder, files.set, files.start + files.labels);
  const Tensor labels = read_mnist_labels(labels_path, files.classes.size(), options.split == "qmnist");
  const Tensor images = read_mnist_images(images_path);
  if (images.size(0) != labels.size(0)) {
    throw IoError(
        mnist_op(labels_path),
        "as many labels as '" + images_path + "' has images, which is " + std::to_string(images.size(0)),
        std::to_string(labels.size(0)), "fetch both files again");
  }
  return {"MNIST", images.view({images.size(0), 1, 28, 28}), labels, std::move(files.classes)};
}

}  // namespace

MNIST::MNIST(const std::string& folder, const MNISTOptions& options)
    : LabelledImages(load_mnist(folder, options)) {}

}  // namespace mezzo::data
