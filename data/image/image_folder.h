// Images in a folder per class.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/data/example.h"
#include "mezzo/data/image/image.h"

namespace mezzo::data {

struct ImageFolderOptions {
  ImageMode mode = ImageMode::rgb;
  std::int64_t max_pixels = ImageOptions{}.max_pixels;
  /// Which files are images, by the end of their names, in small letters; capitals in names count as these.
  std::vector<std::string> extensions = {".png", ".jpg", ".jpeg"};
  bool allow_empty = false;  ///< whether a class may have no images
};

/// The images of `folder`/<class>/..., which are read when they are asked for. Classes are the folders, by
/// name; samples go by class, then by folder and name, each by bytes. Links to folders are followed.
/// Images may differ in size: who makes batches of them brings them to one. Source:
/// torchvision.datasets.ImageFolder.
class ImageFolder {
 public:
  struct Sample {
    std::string path;
    std::int64_t label;
  };

  /// Throws: IoError, naming the folder, when it cannot be read, has no folders, or one without images.
  explicit ImageFolder(const std::string& folder, const ImageFolderOptions& options = {});

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(samples_.size()); }
  /// Shapes: data [C, H, W], target []. Dtypes: data u8, target i64. Throws: IndexError; IoError, naming the
  /// file, as read_image.
  [[nodiscard]] Example get(std::int64_t index) const;

  [[nodiscard]] const std::vector<Sample>& samples() const& noexcept { return samples_; }
  [[nodiscard]] std::vector<Sample> samples() && { return std::move(samples_); }
  [[nodiscard]] const std::vector<std::string>& classes() const& noexcept { return classes_; }
  [[nodiscard]] std::vector<std::string> classes() && { return std::move(classes_); }

 private:
  std::string op_;
  ImageOptions image_;
  std::vector<Sample> samples_;
  std::vector<std::string> classes_;
};

}  // namespace mezzo::data
