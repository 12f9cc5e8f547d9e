// CIFAR's records: one or two bytes of labels, then 3072 of an image. Files are read some records at a time,
// straight into the tensors.
#include "mezzo/data/cifar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::data {

namespace {

constexpr std::size_t kCifarImage = std::size_t{3} * 32 * 32;

struct CifarFormat {
  std::string_view name;
  /// How many labels each label byte of a record may name.
  std::array<int, 2> classes;
  std::size_t label_bytes;
  std::size_t label_at;  ///< which label byte is the target
  [[nodiscard]] std::size_t record() const { return label_bytes + kCifarImage; }
};

/// The files to read: in `folder` or in the folder in it that the archive unpacks to; or `path` itself.
std::vector<std::string> cifar_files(const std::string& path, std::string_view unpacked,
                                     std::initializer_list<const char*> names) {
  std::error_code error;
  const std::filesystem::path given(path);
  if (std::filesystem::is_regular_file(given, error)) return {path};
  std::filesystem::path folder = given;
  if (std::filesystem::is_directory(given / unpacked, error)) folder /= unpacked;
  std::vector<std::string> files;
  for (const char* const name : names) files.push_back((folder / name).string());
  return files;
}

/// Number of records in a file.
std::int64_t cifar_records(const io::InputFile& file, const CifarFormat& format) {
  const std::uint64_t size = file.size(), record = format.record();
  if (size > 0 && size % record == 0) return static_cast<std::int64_t>(size / record);
  throw IoError(file.op(), "one or more records of " + std::to_string(record) + " bytes",
                std::to_string(size) + " bytes, " + std::to_string(size % record) + " of them left over",
                "fetch the file again, in its binary version");
}

/// Checks all label bytes of a record and returns the label of the wanted kind.
std::int64_t cifar_label(const io::InputFile& file, const CifarFormat& format,
                         std::span<const std::byte> record, std::int64_t number) {
  for (std::size_t i = 0; i < format.label_bytes; ++i) {
    const int label = std::to_integer<int>(record[i]);
    if (label < format.classes[i]) continue;
    throw IoError(file.op(),
                  "a label from 0 to " + std::to_string(format.classes[i] - 1) + " in byte " +
                      std::to_string(i + 1) + " of record " + std::to_string(number + 1),
                  std::to_string(label), "fetch the file again, in its binary version");
  }
  return std::to_integer<std::int64_t>(record[format.label_at]);
}

/// Reads all records of a file to where the pointers are, which move on.
void read_cifar(io::InputFile& file, const CifarFormat& format, std::byte*& image, std::int64_t*& label) {
  constexpr std::int64_t kAtOnce = 256;
  const std::int64_t count = cifar_records(file, format);
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(count, kAtOnce)) * format.record());
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t now = std::min(count - done, kAtOnce);
    const std::span<std::byte> bytes =
        std::span(block).first(static_cast<std::size_t>(now) * format.record());
    file.read(bytes);
    for (std::int64_t i = 0; i < now; ++i, ++done) {
      const auto record = bytes.subspan(static_cast<std::size_t>(i) * format.record(), format.record());
      *label++ = cifar_label(file, format, record, done);
      std::memcpy(image, record.data() + format.label_bytes, kCifarImage);
      image += kCifarImage;
    }
  }
}

LabelledImages load_cifar(const CifarFormat& format, const std::vector<std::string>& paths,
                          std::vector<std::string> classes) {
  const std::string op(format.name);
  std::int64_t count = 0;
  for (const std::string& path : paths) count += cifar_records(io::InputFile(path, op), format);
  Tensor images = empty({count, 3, 32, 32}, {.dtype = DType::u8});
  Tensor labels = empty({count}, {.dtype = DType::i64});
  auto* image = static_cast<std::byte*>(images.impl().data());
  auto* label = static_cast<std::int64_t*>(labels.impl().data());
  std::int64_t left = count;
  for (const std::string& path : paths) {
    io::InputFile file(path, op);
    left -= cifar_records(file, format);
    if (left < 0) throw IoError(file.op(), "files that stay as they are", "one that grew", "read them again");
    read_cifar(file, format, image, label);
  }
  if (left != 0) throw IoError(op, "files that stay as they are", "one that shrank", "read them again");
  return {op, images, labels, std::move(classes)};
}

std::vector<std::string> cifar100_classes() {
  return {"apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
          "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
          "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
          "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
          "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
          "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
          "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
          "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
          "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
          "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
          "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
          "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
          "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
          "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
          "table",       "tank",          "telephone", "television", "tiger",        "tractor",
          "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
          "willow_tree", "wolf",          "woman",     "worm"};
}

std::vector<std::string> cifar100_superclasses() {
  return {"aquatic_mammals",
          "fish",
          "flowers",
          "food_containers",
          "fruit_and_vegetables",
          "household_electrical_devices",
          "household_furniture",
          "insects",
          "large_carnivores",
          "large_man-made_outdoor_things",
          "large_natural_outdoor_scenes",
          "large_omnivores_and_herbivores",
          "medium_mammals",
          "non-insect_invertebrates",
          "people",
          "reptiles",
          "small_mammals",
          "trees",
          "vehicles_1",
          "vehicles_2"};
}

std::vector<std::string> cifar10_files(const std::string& path, bool train) {
  if (!train) return cifar_files(path, "cifar-10-batches-bin", {"test_batch.bin"});
  return cifar_files(
      path, "cifar-10-batches-bin",
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"});
}

}  // namespace

CIFAR10::CIFAR10(const std::string& path, const CIFAR10Options& options)
    : LabelledImages(load_cifar(
          {.name = "CIFAR10", .classes = {10, 0}, .label_bytes = 1, .label_at = 0},
          cifar10_files(path, options.train),
          {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"})) {}

CIFAR100::CIFAR100(const std::string& path, const CIFAR100Options& options)
    : LabelledImages(load_cifar(
          {.name = "CIFAR100", .classes = {20, 100}, .label_bytes = 2, .label_at = options.coarse ? 0U : 1U},
          cifar_files(path, "cifar-100-binary", {options.train ? "train.bin" : "test.bin"}),
          options.coarse ? cifar100_superclasses() : cifar100_classes())) {}

}  // namespace mezzo::data
