// A folder of images per class: order, labels, and what is refused.
#include "mezzo/data/image/image_folder.h"

#include <fstream>
#include <iterator>

#include "mezzo/core/error.h"
#include "mezzo/tests/data/image_support.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

class ImageFolders : public TemporaryFolder {
 protected:
  void add(const std::string& name, const std::string& image) {
    std::ifstream in(image_file(image), std::ios::binary);
    write(name, {std::istreambuf_iterator<char>(in), {}});
  }
  [[nodiscard]] std::string start() const { return "ImageFolder '" + path() + "': "; }
};

TEST_F(ImageFolders, ClassesAndFilesAreSorted) {
  // In the order of torchvision's make_dataset: of each class the folders by path, in them the files by name.
  write("dog/b.png", "");
  write("dog/a.JPG", "");
  write("dog/B.jpeg", "");
  write("dog/notes.txt", "");
  write("dog/sub-1/z.png", "");
  write("dog/sub/y.png", "");
  write("dog/sub/deep/x.png", "");
  write("cat/1.png", "");
  write("Zebra/1.png", "");
  write("readme.png", "");
  const ImageFolder set(path());
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"Zebra", "cat", "dog"}));
  std::vector<std::string> found;
  for (const ImageFolder::Sample& sample : set.samples())
    found.push_back(std::to_string(sample.label) + sample.path.substr(path().size()));
  EXPECT_EQ(found, (std::vector<std::string>{"0/Zebra/1.png", "1/cat/1.png", "2/dog/B.jpeg", "2/dog/a.JPG",
                                             "2/dog/b.png", "2/dog/sub/y.png", "2/dog/sub-1/z.png",
                                             "2/dog/sub/deep/x.png"}))
      << "sorted by path";
  EXPECT_EQ(set.size(), 8);
}

TEST_F(ImageFolders, Samples) {
  if (!have_png() || !have_jpeg()) GTEST_SKIP() << "a build without libpng or libjpeg-turbo";
  add("a/1.png", "gray8.png");
  add("b/1.jpg", "rgb420.jpg");
  const ImageFolder set(path());
  const auto& [image, label] = set.get(1);
  EXPECT_EQ(image.shape(), (Shape{3, 13, 19}));
  EXPECT_EQ(image.dtype(), DType::u8);
  EXPECT_EQ(label.shape(), Shape{});
  EXPECT_EQ(label.dtype(), DType::i64);
  EXPECT_EQ(label.item<int>(), 1);
  EXPECT_EQ(set.get(0).data.shape(), (Shape{3, 7, 11}));
  EXPECT_EQ(ImageFolder(path(), {.mode = ImageMode::gray}).get(1).data.shape(), (Shape{1, 13, 19}));
  EXPECT_THROW(static_cast<void>(ImageFolder(path(), {.max_pixels = 10}).get(1)), IoError);
  EXPECT_EQ(message_of<IndexError>([&] { return set.get(2); }),
            start() + "expected an index from 0 to 1, got 2; size() is the number of samples");
}

TEST_F(ImageFolders, AnUnreadableImageIsNamedWhenItIsAskedFor) {
  const std::string file = write("a/1.png", "no image");
  const ImageFolder set(path());
  EXPECT_EQ(message_of<IoError>([&] { return set.get(0); }),
            "read_image '" + file + "': expected a PNG or JPEG image, got other bytes; convert it");
}

TEST_F(ImageFolders, OtherExtensions) {
  write("a/1.pic", "");
  write("a/2.png", "");
  const ImageFolder set(path(), {.extensions = {".pic"}});
  ASSERT_EQ(set.size(), 1);
  EXPECT_EQ(set.samples()[0].path, path("a/1.pic"));
}

TEST_F(ImageFolders, LinksAreFollowedOnce) {
  write("a/1.png", "");
  std::filesystem::create_directory_symlink(path("a"), path("b"));
  std::filesystem::create_directory_symlink(path(), path("a/loop"));
  const ImageFolder set(path());
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"a", "b"}));
  ASSERT_GE(set.size(), 2);
  EXPECT_LE(set.size(), 8);
}

TEST_F(ImageFolders, FoldersThatAreRefused) {
  EXPECT_EQ(message_of<IoError>([&] { return ImageFolder(path()); }),
            start() + "expected a folder for each class, got none; give the folder that holds them");
  write("a/1.png", "");
  write("b/notes.txt", "");
  EXPECT_EQ(message_of<IoError>([&] { return ImageFolder(path()); }),
            start() +
                "expected images (.png, .jpg, .jpeg) in the folder of each class, got none in 'b'; remove "
                "the folder, or set .allow_empty");
  const ImageFolder set(path(), {.allow_empty = true});
  EXPECT_EQ(set.size(), 1);
  EXPECT_EQ(set.classes().size(), 2U);
  EXPECT_EQ(message_of<IoError>([&] { return ImageFolder(path("none")); }),
            "ImageFolder '" + path("none") +
                "': expected a folder that can be read, got No such file or directory for '" + path("none") +
                "'; check the path and its permissions");
}

}  // namespace
}  // namespace mezzo::data
