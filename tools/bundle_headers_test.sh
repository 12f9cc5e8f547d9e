#!/bin/sh
# Test of tools/bundle_headers.sh: a project that looks nowhere but in the unpacked folder finds all packages there,
# compiles with their headers and links GoogleTest.
# usage: bundle_headers_test.sh COMPILER FOLDER...   FOLDER: as for bundle_headers.sh
# CXX_LIBRARY: the C++ library to link, if not the compiler's.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
compiler=$1
shift
[ $# = 5 ] || { echo "needs the five packages as CMake's own, got $#"; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

! sh "$here/bundle_headers.sh" none.tar.gz "$tree/nowhere" 2>error || fail "packs a folder that is not there"
grep -q "expected a folder of a CMake package, got '$tree/nowhere'" error || fail "no such message: $(cat error)"

sh "$here/bundle_headers.sh" headers.tar.gz "$@"
mkdir headers project
tar -C headers -xzf headers.tar.gz
cat >project/CMakeLists.txt <<'TEXT'
cmake_minimum_required(VERSION 3.22)
project(rebuild LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
foreach(package IN ITEMS Eigen3 fmt nlohmann_json CLI11 GTest)
  find_package(${package} REQUIRED CONFIG PATHS "${HEADERS}" NO_DEFAULT_PATH)
  if(NOT ${package}_DIR MATCHES "/headers/")
    message(FATAL_ERROR "${package} is that of ${${package}_DIR}")
  endif()
endforeach()
find_package(Threads REQUIRED)
add_executable(rebuild main.cpp)
target_link_libraries(rebuild Eigen3::Eigen fmt::fmt-header-only nlohmann_json::nlohmann_json CLI11::CLI11 GTest::gtest_main)
# The compiler would also find what the machine itself has.
foreach(header IN ITEMS eigen3/Eigen/Core fmt/core.h nlohmann/json.hpp CLI/CLI.hpp gtest/gtest.h gmock/gmock.h)
  if(NOT EXISTS "${HEADERS}/include/${header}")
    message(FATAL_ERROR "no ${header}")
  endif()
endforeach()
TEXT
cat >project/main.cpp <<'TEXT'
#include <Eigen/Core>
#include <gtest/gtest.h>
TEST(Rebuild, Works) { EXPECT_EQ(Eigen::Vector2f(3, 4).norm(), 5); }
TEXT
cmake -G Ninja -S project -B build -DCMAKE_CXX_COMPILER="$compiler" -DHEADERS="$tree/headers" \
  -DCMAKE_CXX_STANDARD_LIBRARIES="${CXX_LIBRARY:-}" >log 2>&1 ||
  { cat log; fail "a package is not found"; }
cmake --build build >log 2>&1 || { cat log; fail "does not compile"; }
./build/rebuild | grep -q "PASSED.*1 test" || fail "the program does not run"
echo "the packed libraries can be built with"
