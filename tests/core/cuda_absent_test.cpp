// A build without CUDA: what it says of itself, and what CMake says when it cannot build CUDA.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "support/child.h"
#include "support/data_folder.h"

namespace mezzo {
namespace {

TEST(CudaAbsent, TheBuildSaysSo) {
  if (find_backend(DeviceType::cuda) != nullptr) GTEST_SKIP() << "this build has CUDA";
  EXPECT_EQ(
      cuda::why_unavailable(),
      "CUDA is not used: mezzo was built without it (configure with -DMEZZO_CUDA=ON where a CUDA toolkit "
      "is); running on the CPU");
  EXPECT_FALSE(cuda::is_available());
  EXPECT_EQ(Device::best(), Device::cpu());
  EXPECT_THROW(cuda::Stream stream, DeviceError);
  EXPECT_THROW(static_cast<void>(cuda::current_stream()), DeviceError);
}

/// The folder of the tree's CMake files.
std::string cmake_folder() { return test::data_folder() + "/../cmake/"; }

/// Configures a project that asks for CUDA on a machine whose nvcc is not where CUDACXX says. It is never
/// built, so the program to build it with need not be there: `true` stands in for make.
test::Ran configure(const std::string& wanted) {
  const std::filesystem::path folder =
      ::testing::TempDir() + "mezzo_without_nvcc_" + std::to_string(::getpid()) + wanted;
  const std::string cmake = cmake_folder();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "CMakeLists.txt")
      << "cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES NONE)\n"
      << "include(\"" << cmake << "Cuda.cmake\")\ninclude(\"" << cmake << "Summary.cmake\")\n";
  const std::string where = "'" + folder.string() + "'";
  const test::Ran ran =
      test::run_shell("CUDACXX=/nowhere/nvcc cmake -G 'Unix Makefiles' -DCMAKE_MAKE_PROGRAM=true -S " +
                      where + " -B " + where + "/build -DMEZZO_CUDA=" + wanted);
  std::filesystem::remove_all(folder);
  return ran;
}

/// The line of CMake's summary that begins with "CUDA".
std::string summary_line(const std::string& text) {
  const std::size_t begin = text.find("--   CUDA  ");
  return begin == std::string::npos ? text : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(CudaAbsent, CMakeSaysWhyAndWhatToDo) {
  if (test::run_shell("cmake --version").status != 0) GTEST_SKIP() << "no cmake in PATH";
  if (!std::filesystem::exists(cmake_folder())) GTEST_SKIP() << "the tests have left their tree";
  const test::Ran automatic = configure("AUTO");
  EXPECT_EQ(automatic.status, 0) << automatic.text;
  EXPECT_EQ(summary_line(automatic.text),
            "--   CUDA        not built: no CUDA toolkit found, set CUDACXX to its nvcc (looked in PATH and "
            "/usr/local/cuda)");
  const test::Ran off = configure("OFF");
  EXPECT_EQ(off.status, 0) << off.text;
  EXPECT_EQ(summary_line(off.text), "--   CUDA        off (MEZZO_CUDA=OFF)");
  const test::Ran on = configure("ON");
  EXPECT_NE(on.status, 0);
  EXPECT_NE(on.text.find("no CUDA toolkit found"), std::string::npos) << on.text;
  EXPECT_NE(on.text.find("Install the toolkit"), std::string::npos) << on.text;
}

}  // namespace
}  // namespace mezzo
