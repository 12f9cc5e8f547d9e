// Vendor libraries that are not there. Needs no device.
#include "mezzo/core/cuda/shared_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "mezzo/core/error.h"

namespace mezzo::cuda {
namespace {

TEST(SharedLibrary, AMissingOneIsNamedWithItsCure) {
  try {
    const SharedLibrary library("matmul", "MEZZO_TEST_LIBRARY", {"libmezzo_none.so.2", "libmezzo_none.so"},
                                "install it");
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.op(), "matmul");
    EXPECT_EQ(error.expected(), "the library libmezzo_none.so.2");
    EXPECT_NE(error.got().find("libmezzo_none.so.2: cannot open"), std::string::npos) << error.got();
    EXPECT_EQ(error.fix(), "install it, or name the file in MEZZO_TEST_LIBRARY");
  }
}

TEST(SharedLibrary, TheVariableNamesTheOnlyFile) {
  setenv("MEZZO_TEST_LIBRARY", "libm.so.6", 1);
  const SharedLibrary library("matmul", "MEZZO_TEST_LIBRARY", {"libmezzo_none.so"}, "install it");
  double (*const root)(double) = library["sqrt"];
  EXPECT_EQ(root(9.0), 3);
  EXPECT_THROW(static_cast<void>(library.symbol("no_such_function")), DeviceError);
  setenv("MEZZO_TEST_LIBRARY", "/nonexistent/libm.so.6", 1);
  EXPECT_THROW(SharedLibrary("matmul", "MEZZO_TEST_LIBRARY", {"libm.so.6"}, "install it"), DeviceError);
  unsetenv("MEZZO_TEST_LIBRARY");
}

}  // namespace
}  // namespace mezzo::cuda
