// Files of NumPy, safetensors, torch and TensorBoard, written here and read by these, and the other way
// round: where python3 (or the Python that MEZZO_TEST_PYTHON names) has them. Files of theirs in
// tests/io/files are read everywhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "mezzo/mezzo.h"
#include "mezzo/tests/data/image_support.h"
#include "mezzo/tests/support/child.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/train/log_files.h"
#include "mezzo/train.h"

namespace mezzo::train {
namespace {

namespace fs = std::filesystem;

class Python : public testing::Test {
 protected:
  Python() : folder_(fs::temp_directory_path() / ("mezzo-python-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Python() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Whether the library is there and has found what was written to be right.
  [[nodiscard]] bool reads_back(const std::string& library) const {
    const char* const named = std::getenv("MEZZO_TEST_PYTHON");
    const test::Ran ran = test::run_shell("'" + std::string(named == nullptr ? "python3" : named) + "' -B '" +
                                          test::data_folder() + "/train/files/read_back.py' " + library +
                                          " '" + folder_.string() + "'");
    if (ran.status == 77 || ran.status == 127) return false;
    EXPECT_EQ(ran.status, 0) << ran.text;
    return true;
  }

  static const io::TensorFile::NamedTensors& tensors() {
    static const io::TensorFile::NamedTensors named{{"reals", (arange(6).to(DType::f32) / 4).reshape({2, 3})},
                                                    {"half", (arange(4).to(DType::f16) / 2).reshape({2, 2})},
                                                    {"numbers", arange(4)},
                                                    {"flags", tensor({1, 0, 1}).to(DType::boolean)}};
    return named;
  }
  static void expect_same(const io::TensorFile::NamedTensors& got) {
    const std::map<std::string, Tensor> found(got.begin(), got.end());
    ASSERT_EQ(found.size(), tensors().size());
    for (const auto& [name, tensor] : tensors()) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_EQ(found.at(name).dtype(), tensor.dtype()) << name;
      EXPECT_TRUE(equal(found.at(name), tensor)) << name;
    }
  }

  fs::path folder_;
};

TEST_F(Python, NumPy) {
  io::write_npz(path("plain.npz"), tensors());
  try {
    io::write_npz(path("packed.npz"), tensors(), {.compressed = true});
  } catch (const IoError& error) {
    GTEST_SKIP() << error.what();
  }
  if (!reads_back("numpy")) GTEST_SKIP() << "no NumPy here";
  for (const char* name : {"back_plain.npz", "back_packed.npz"}) expect_same(io::read_npz(path(name)));
}

TEST_F(Python, Safetensors) {
  io::save(tensors(), path("tensors.safetensors"));
  if (!reads_back("safetensors")) GTEST_SKIP() << "no safetensors and torch here";
  expect_same(io::load(path("back.safetensors")));
  EXPECT_EQ(io::TensorFile::load(path("back.safetensors")).metadata.at("who"), "python");
}

TEST_F(Python, Torch) {
  io::save_torch(tensors(), path("tensors.pt"));
  if (!reads_back("torch")) GTEST_SKIP() << "no torch here";
  expect_same(io::load_torch(path("back.pt")).tensors());
}

TEST_F(Python, TensorBoard) {
  if (!data::have_png()) GTEST_SKIP() << "a build without libpng";
  {
    Logger logger({TensorBoardSink(folder_.string())});
    for (int step = 0; step < 10; ++step) logger.log(step, {{"loss", std::ldexp(1.0, -step)}});
    logger.histograms(10, {{"weights", (arange(100).to(DType::f32) - 50) / 8},
                           {"gradients", tensor({-1.0, INFINITY, 0.25, NAN, 0.25})}});
    logger.image(11, "picture", arange(2 * 3 * 4).reshape({2, 3, 4}).narrow(0, 0, 1).to(DType::u8));
    logger.image(11, "batch", (arange(9 * 3 * 2 * 2).to(DType::f32) / 255).reshape({9, 3, 2, 2}));
  }
  if (!reads_back("tensorboard")) GTEST_SKIP() << "no TensorBoard here";
}

}  // namespace
}  // namespace mezzo::train
