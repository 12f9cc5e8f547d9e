// CIFAR files written here byte by byte by the format's description: what is read, and what is refused.
#include "mezzo/data/cifar.h"

#include <algorithm>
#include <array>

#include "mezzo/core/error.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;
using Cifar = TemporaryFolder;

/// The value of a pixel: another one for each record, channel, row and column.
int pixel(int record, int channel, int row, int column) {
  return (record * 31 + channel * 101 + row * 7 + column * 3) % 256;
}

/// A record: its labels, then the planes red, green and blue, row by row.
std::string record(std::initializer_list<int> labels, int number) {
  std::string bytes(labels.begin(), labels.end());
  for (int channel = 0; channel < 3; ++channel) {
    for (int row = 0; row < 32; ++row) {
      for (int column = 0; column < 32; ++column)
        bytes.push_back(static_cast<char>(pixel(number, channel, row, column)));
    }
  }
  return bytes;
}

void expect_image(const Tensor& image, int number) {
  ASSERT_EQ(image.shape(), (Shape{3, 32, 32}));
  ASSERT_EQ(image.dtype(), DType::u8);
  const auto bytes = image.data<std::uint8_t>();
  for (int i = 0; i < 3 * 32 * 32; ++i)
    ASSERT_EQ(bytes[static_cast<std::size_t>(i)], pixel(number, i / 1024, i / 32 % 32, i % 32)) << i;
}

TEST_F(Cifar, OneFile) {
  const CIFAR10 set(write("some.bin", record({3}, 0) + record({9}, 1) + record({0}, 2)));
  ASSERT_EQ(set.size(), 3);
  const std::array<std::int64_t, 3> labels{3, 9, 0};
  for (int i = 0; i < 3; ++i) {
    const auto& [image, label] = set.get(i);
    expect_image(image, i);
    EXPECT_EQ(label.shape(), Shape{});
    EXPECT_EQ(label.dtype(), DType::i64);
    EXPECT_EQ(label.item<std::int64_t>(), labels[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(set.classes().at(3), "cat");
  EXPECT_EQ(set.classes().size(), 10U);
}

TEST_F(Cifar, TrainingFilesComeInTheirOrder) {
  for (int i = 1; i <= 5; ++i)
    write("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", record({i}, i));
  write("cifar-10-batches-bin/test_batch.bin", record({7}, 70) + record({8}, 80));
  for (const std::string& folder : {path(), path("cifar-10-batches-bin")}) {
    const CIFAR10 train(folder);
    ASSERT_EQ(train.size(), 5);
    for (int i = 0; i < 5; ++i) {
      expect_image(train.get(i).data, i + 1);
      EXPECT_EQ(train.get(i).target.item<int>(), i + 1);
    }
    const CIFAR10 held_out(folder, {.train = false});
    EXPECT_EQ(held_out.labels().to_vector<int>(), (std::vector<int>{7, 8}));
    expect_image(held_out.get(1).data, 80);
  }
}

TEST_F(Cifar, HundredClassesAndTheirSuperclasses) {
  write("train.bin", record({19, 99}, 0) + record({4, 0}, 1));
  write("cifar-100-binary/test.bin", record({1, 2}, 2));
  std::filesystem::rename(path("train.bin"), path("cifar-100-binary/train.bin"));
  const CIFAR100 fine(path());
  EXPECT_EQ(fine.labels().to_vector<int>(), (std::vector<int>{99, 0}));
  expect_image(fine.get(1).data, 1);
  EXPECT_EQ(fine.classes().size(), 100U);
  EXPECT_EQ(fine.classes().at(99), "worm");
  const CIFAR100 coarse(path(), {.coarse = true});
  EXPECT_EQ(coarse.labels().to_vector<int>(), (std::vector<int>{19, 4}));
  EXPECT_EQ(coarse.classes().at(19), "vehicles_2");
  EXPECT_EQ(coarse.classes().size(), 20U);
  EXPECT_EQ(CIFAR100(path(), {.train = false}).get(0).target.item<int>(), 2);
}

TEST_F(Cifar, ClassesAreInTheOrderOfTheAlphabet) {
  const std::string file = write("a", record({0, 0}, 0));
  for (const bool coarse : {false, true}) {
    const std::vector<std::string> classes = CIFAR100(file, {.coarse = coarse}).classes();
    EXPECT_TRUE(std::is_sorted(classes.begin(), classes.end()));
  }
}

TEST_F(Cifar, ABatchIsTheSamplesStacked) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes += record({i % 10}, i);
  const CIFAR10 set(write("a", bytes));
  ASSERT_EQ(set.size(), 300);
  const std::array<std::int64_t, 4> indices{299, 0, 256, 0};
  const Example batch = set.get_batch(indices);
  ASSERT_EQ(batch.data.shape(), (Shape{4, 3, 32, 32}));
  EXPECT_EQ(batch.target.to_vector<int>(), (std::vector<int>{9, 0, 6, 0}));
  EXPECT_EQ(batch.target.dtype(), DType::i64);
  for (std::int64_t i = 0; i < 4; ++i)
    expect_image(batch.data.select(0, i).clone(), static_cast<int>(indices[static_cast<std::size_t>(i)]));
  EXPECT_EQ(set.get_batch({}).data.shape(), (Shape{0, 3, 32, 32}));
}

TEST_F(Cifar, SamplesAreCopies) {
  const CIFAR10 set(write("a", record({3}, 5)));
  set.get(0).data.fill_(0);
  expect_image(set.get(0).data, 5);
}

TEST_F(Cifar, IndicesOutOfRangeAreRefused) {
  const CIFAR10 set(write("a", record({3}, 0) + record({4}, 1)));
  EXPECT_EQ(message_of<IndexError>([&] { return set.get(2); }),
            "CIFAR10: expected an index from 0 to 1, got 2; size() is the number of samples");
  EXPECT_THROW(static_cast<void>(set.get(-1)), IndexError);
  const std::array<std::int64_t, 2> indices{0, 2};
  EXPECT_THROW(static_cast<void>(set.get_batch(indices)), IndexError);
}

TEST_F(Cifar, FilesOfOtherSizesAreRefused) {
  const std::string file = write("a", record({3}, 0) + "more");
  EXPECT_EQ(message_of<IoError>([&] { return CIFAR10(file); }),
            "CIFAR10 '" + file +
                "': expected one or more records of 3073 bytes, got 3077 bytes, 4 of them left over; fetch "
                "the file again, in its binary version");
  EXPECT_THROW(CIFAR10{write("b", "")}, IoError);
  EXPECT_THROW(CIFAR100{write("c", record({1}, 0))}, IoError);
}

TEST_F(Cifar, LabelsOutOfRangeAreRefused) {
  const std::string file = write("a", record({3}, 0) + record({10}, 1));
  EXPECT_EQ(message_of<IoError>([&] { return CIFAR10(file); }),
            "CIFAR10 '" + file +
                "': expected a label from 0 to 9 in byte 1 of record 2, got 10; fetch the file again, in its "
                "binary version");
  const std::string fine = write("b", record({19, 100}, 0)), coarse = write("c", record({20, 3}, 0));
  for (const bool use_coarse : {false, true}) {
    EXPECT_NE(message_of<IoError>([&] {
                return CIFAR100(fine, {.coarse = use_coarse});
              }).find("expected a label from 0 to 99 in byte 2 of record 1, got 100"),
              std::string::npos);
    EXPECT_NE(message_of<IoError>([&] {
                return CIFAR100(coarse, {.coarse = use_coarse});
              }).find("expected a label from 0 to 19 in byte 1 of record 1, got 20"),
              std::string::npos);
  }
}

TEST_F(Cifar, AMissingFileIsNamed) {
  write("data_batch_1.bin", record({3}, 0));
  EXPECT_EQ(message_of<IoError>([&] { return CIFAR10(path()); }),
            "CIFAR10 '" + path("data_batch_2.bin") +
                "': expected a readable file, got No such file or directory; check the path and its "
                "permissions");
}

}  // namespace
}  // namespace mezzo::data
