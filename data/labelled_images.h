// Images of one size with a label each, all of them in memory: what CIFAR and MNIST are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/example.h"

namespace mezzo::data {

/// A data set of N images and their labels. All members may be called from several threads.
class LabelledImages {
 public:
  /// Shapes: images [N, C, H, W], labels [N]. Dtypes: u8, i64.
  /// `name` stands in errors. `classes` are the names of the labels 0, 1, ...; may be empty. Throws:
  /// ShapeError, DTypeError, and DeviceError for tensors that are not on the CPU.
  LabelledImages(std::string name, const Tensor& images, const Tensor& labels,
                 std::vector<std::string> classes);

  [[nodiscard]] std::int64_t size() const { return images_.size(0); }
  /// Shapes: data [C, H, W], target []. Copies of a row: the data set stays as it is whatever is written into
  /// them. Throws: IndexError.
  [[nodiscard]] Example get(std::int64_t index) const;
  /// Shapes: data [B, C, H, W], target [B]. Throws: IndexError.
  [[nodiscard]] Example get_batch(std::span<const std::int64_t> indices) const;

  /// All images and labels: the data set's own memory.
  [[nodiscard]] const Tensor& images() const& noexcept { return images_; }
  [[nodiscard]] Tensor images() && { return std::move(images_); }
  [[nodiscard]] const Tensor& labels() const& noexcept { return labels_; }
  [[nodiscard]] Tensor labels() && { return std::move(labels_); }
  [[nodiscard]] const std::vector<std::string>& classes() const& noexcept { return classes_; }
  [[nodiscard]] std::vector<std::string> classes() && { return std::move(classes_); }

 private:
  std::string name_;
  Tensor images_, labels_;
  std::vector<std::string> classes_;
};

}  // namespace mezzo::data
