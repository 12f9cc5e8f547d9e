// MNIST from IDX files written here.
#include "mezzo/data/mnist.h"

#include <array>
#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

class Mnist : public TemporaryFolder {
 protected:
  /// An IDX header of u8.
  static std::string header(std::initializer_list<int> sizes) {
    std::string bytes{0, 0, 8, static_cast<char>(sizes.size())};
    for (const int size : sizes) {
      for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(size >> shift));
    }
    return bytes;
  }
  static std::string images(int count) {
    std::string bytes = header({count, 28, 28});
    for (int i = 0; i < count * 784; ++i) bytes.push_back(static_cast<char>(i * 5 % 251));
    return bytes;
  }
  static std::string labels(const std::string& values) {
    return header({static_cast<int>(values.size())}) + values;
  }
};

TEST_F(Mnist, BothParts) {
  write("train-images-idx3-ubyte", images(3));
  write("train-labels-idx1-ubyte", labels({5, 0, 9}));
  write("t10k-images-idx3-ubyte", images(1));
  write("t10k-labels-idx1-ubyte", labels({7}));
  const MNIST train(path());
  ASSERT_EQ(train.size(), 3);
  const auto& [image, label] = train.get(2);
  ASSERT_EQ(image.shape(), (Shape{1, 28, 28}));
  EXPECT_EQ(image.dtype(), DType::u8);
  const auto bytes = image.data<std::uint8_t>();
  for (std::size_t i = 0; i < 784; ++i) ASSERT_EQ(bytes[i], (2 * 784 + i) * 5 % 251);
  EXPECT_EQ(label.shape(), Shape{});
  EXPECT_EQ(label.dtype(), DType::i64);
  EXPECT_EQ(label.item<int>(), 9);
  const std::array<std::int64_t, 2> indices{2, 0};
  EXPECT_EQ(train.get_batch(indices).data.shape(), (Shape{2, 1, 28, 28}));
  EXPECT_EQ(train.get_batch(indices).target.to_vector<int>(), (std::vector<int>{9, 5}));
  EXPECT_EQ(MNIST(path(), {.train = false}).labels().to_vector<int>(), (std::vector<int>{7}));
  EXPECT_EQ(train.classes().size(), 10U);
}

TEST_F(Mnist, InTorchvisionsFolders) {
  std::filesystem::create_directories(path("root/MNIST/raw"));
  write("root/MNIST/raw/train-images-idx3-ubyte", images(2));
  write("root/MNIST/raw/train-labels-idx1-ubyte", labels({3, 4}));
  for (const char* folder : {"root", "root/MNIST", "root/MNIST/raw"})
    EXPECT_EQ(MNIST(path(folder)).labels().to_vector<int>(), (std::vector<int>{3, 4})) << folder;
}

TEST_F(Mnist, Emnist) {
  write("emnist-letters-test-images-idx3-ubyte", images(2));
  write("emnist-letters-test-labels-idx1-ubyte", labels({1, 26}));
  const MNIST letters(path(), {.train = false, .split = "letters"});
  EXPECT_EQ(letters.classes()[static_cast<std::size_t>(letters.get(1).target.item<int>())], "z");
  // The numbers of classes that EMNIST's paper has, with a place for label 0 of "letters".
  const std::pair<std::string, std::size_t> splits[]{{"byclass", 62}, {"bymerge", 47}, {"balanced", 47},
                                                     {"letters", 27}, {"digits", 10},  {"mnist", 10}};
  for (const auto& [split, classes] : splits) {
    write("emnist-" + split + "-train-images-idx3-ubyte", images(1));
    write("emnist-" + split + "-train-labels-idx1-ubyte", labels({static_cast<char>(classes - 1)}));
    EXPECT_EQ(MNIST(path(), {.split = split}).classes().size(), classes);
    write("emnist-" + split + "-train-labels-idx1-ubyte", labels({static_cast<char>(classes)}));
    EXPECT_THROW(MNIST(path(), {.split = split}), IoError) << split;
  }
  EXPECT_THROW(MNIST(path(), {.split = "other"}), ValueError);
}

TEST_F(Mnist, Qmnist) {
  std::string numbers{0, 0, 12, 2, 0, 0, 0, 2, 0, 0, 0, 8};
  for (const char label : {7, 2}) numbers += std::string{0, 0, 0, label} + std::string(28, '\1');
  write("qmnist-test-images-idx3-ubyte", images(2));
  const std::string file = write("qmnist-test-labels-idx2-int", numbers);
  EXPECT_EQ(MNIST(path(), {.train = false, .split = "qmnist"}).labels().to_vector<int>(),
            (std::vector<int>{7, 2}));
  numbers[12] = -1;
  write("qmnist-test-labels-idx2-int", numbers);
  EXPECT_NE(message_of<IoError>([&] {
              return MNIST(path(), {.train = false, .split = "qmnist"});
            }).find("labels from 0 to 9, got -16777209 at position 0"),
            std::string::npos);
}

TEST_F(Mnist, DifferentCountsAreRefused) {
  const std::string image_file = write("train-images-idx3-ubyte", images(2));
  const std::string label_file = write("train-labels-idx1-ubyte", labels({5, 0, 9}));
  EXPECT_EQ(message_of<IoError>([&] { return MNIST(path()); }),
            "MNIST '" + label_file + "': expected as many labels as '" + image_file +
                "' has images, which is 2, got 3; fetch both files again");
}

TEST_F(Mnist, LabelsAboveNineAreRefused) {
  write("train-images-idx3-ubyte", images(2));
  const std::string file = write("train-labels-idx1-ubyte", labels({5, 10}));
  EXPECT_EQ(message_of<IoError>([&] { return MNIST(path()); }),
            "MNIST '" + file + "': expected labels from 0 to 9, got 10 at position 1; fetch the file again");
}

TEST_F(Mnist, OtherShapesAreRefused) {
  write("train-labels-idx1-ubyte", labels({5}));
  const std::string file = write("train-images-idx3-ubyte", header({1, 2, 2}) + "abcd");
  EXPECT_EQ(
      message_of<IoError>([&] { return MNIST(path()); }),
      "MNIST '" + file + "': expected images of u8 [N, 28, 28], got u8 [1, 2, 2]; check the file's name");
  const std::string swapped = write("train-labels-idx1-ubyte", images(1));
  EXPECT_EQ(message_of<IoError>([&] { return MNIST(path()); }),
            "MNIST '" + swapped + "': expected labels of u8 [N], got u8 [1, 28, 28]; check the file's name");
}

TEST_F(Mnist, AMissingFileIsNamed) {
  write("train-images-idx3-ubyte", images(1));
  EXPECT_EQ(message_of<IoError>([&] { return MNIST(path()); }),
            "MNIST '" + path() +
                "': expected 'train-labels-idx1-ubyte' in the folder, in raw or MNIST/raw below, or the same "
                "with .gz, "
                "got none; fetch the data set, or give the folder that its files are in");
}

TEST_F(Mnist, AGzippedFileIsFoundBehindItsName) {
  // Whether read_idx can unpack it is read_idx's affair: it says what it is about.
  write("train-images-idx3-ubyte", images(1));
  write("train-labels-idx1-ubyte.gz", "no gzip");
  EXPECT_NE(message_of<IoError>([&] { return MNIST(path()); }).find(path("train-labels-idx1-ubyte.gz")),
            std::string::npos);
}

}  // namespace
}  // namespace mezzo::data
