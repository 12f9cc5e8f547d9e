// Generated batches are sine waves plus noise, where the direction of the wave is the class. Batches from
// a folder are read from two IDX files, found by their endings and checked to belong together.
#include "images.h"

#include <algorithm>
#include <filesystem>
#include <numbers>

#include "mezzo/io/idx.h"
#include "models.h"

namespace norm_surgery {

using namespace mezzo;

std::vector<Batch> generated(std::int64_t count, std::int64_t batch_size, std::int64_t side, Device device) {
  std::vector<Batch> batches;
  const Tensor steps = arange(side) * (2 * std::numbers::pi / 7);
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor classes = randint(0, kClasses, {batch_size});
    const Tensor angles = reshape(classes.to(DType::f32), {-1, 1, 1, 1}) * (std::numbers::pi / kClasses);
    const Tensor phases = rand({batch_size, 1, 1, 1}) * (2 * std::numbers::pi);
    const Tensor waves = sin(cos(angles) * steps + sin(angles) * reshape(steps, {side, 1}) + phases);
    const Tensor noise = randn({batch_size, 1, side, side});
    batches.push_back({(waves + noise * 0.5).to(device), classes.to(device)});
  }
  return batches;
}

namespace {

/// The one file of the folder whose name ends so.
std::string find_file(const std::string& folder, const std::string& ending) {
  std::vector<std::string> found;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().ends_with(ending)) found.push_back(entry.path().string());
    }
  }
  if (!found.empty()) return *std::min_element(found.begin(), found.end());
  throw ValueError("norm_surgery", "--data with a folder that holds a file *" + ending, "\"" + folder + "\"",
                   "unpack MNIST's files there with gunzip, or leave --data out");
}

}  // namespace

std::vector<Batch> from_folder(const std::string& folder, std::int64_t count, std::int64_t batch_size,
                               Device device) {
  const Tensor images = io::read_idx(find_file(folder, "images-idx3-ubyte"));
  const Tensor labels = io::read_idx(find_file(folder, "labels-idx1-ubyte"));
  const bool fit = images.dim() == 3 && labels.dim() == 1 && images.size(0) == labels.size(0) &&
                   images.size(1) == images.size(2) && images.size(0) >= batch_size &&
                   images.dtype() == DType::u8 && labels.dtype() == DType::u8 &&
                   max(labels).item() < kClasses;
  if (!fit) {
    throw ValueError("norm_surgery",
                     "square images and as many labels below 10, at least a batch, all as bytes",
                     to_string(images.shape()) + " and " + to_string(labels.shape()),
                     "give a folder with both files of one set");
  }
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < std::min(count, images.size(0) / batch_size); ++i) {
    const Tensor pixels = narrow(images, 0, i * batch_size, batch_size).to(DType::f32);
    const Tensor classes = narrow(labels, 0, i * batch_size, batch_size).to(DType::i64);
    batches.push_back({(unsqueeze(pixels, 1) / 128.0 - 0.5).to(device), classes.to(device)});
  }
  return batches;
}

}  // namespace norm_surgery
