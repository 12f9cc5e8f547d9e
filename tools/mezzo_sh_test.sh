#!/bin/sh
# Tests of mezzo.sh on machines that are made up: a folder of its own with stub programs and stub headers. Every bad input
# must end in one line that names cause and cure, and in the right status; nothing here builds or installs anything.
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/root/tools" "$tree/bin" "$tree/usr"
cp "$source/mezzo.sh" "$source/CMakePresets.json" "$tree/root"
cp "$source/tools/doctor.sh" "$tree/root/tools"
cd "$tree"
unset CXX CMAKE_PREFIX_PATH Eigen3_DIR CUDACXX CUDAARCHS
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# The stub machine: POSIX tools, programs that only tell their version, headers that only state theirs.
for name in sh env dirname sed grep awk head tail sort tr uname getconf id mkdir rm cat ls printf cp date; do
  ln -s "$(command -v "$name")" "bin/$name" 2>/dev/null || true
done
program() { printf '#!/bin/sh\necho "%s"\n' "$2" >"bin/$1"; chmod +x "bin/$1"; }
program g++ "g++ (Debian 12.2.0-14) 12.2.0"
program cmake "cmake version 3.25.1"
program ninja "1.11.1"
stub() { mkdir -p "usr/include/$(dirname "$1")"; shift_=$1; shift; printf '%s\n' "$@" >"usr/include/$shift_"; }
stub eigen3/Eigen/Core ""
stub eigen3/Eigen/src/Core/util/Macros.h "#define EIGEN_WORLD_VERSION 3" "#define EIGEN_MAJOR_VERSION 4" \
  "#define EIGEN_MINOR_VERSION 7"
stub fmt/format.h ""
stub fmt/core.h "#define FMT_VERSION 90102"
stub nlohmann/json.hpp ""
stub CLI/CLI.hpp ""
stub CLI/Version.hpp '#define CLI11_VERSION "2.3.9"'
stub gtest/gtest.h ""
stub gmock/gmock.h ""
stub boost/context/fiber.hpp ""

# run STATUS ARGUMENTS...: runs mezzo.sh on the stub machine; its output is in out.txt.
run() {
  expected=$1; shift
  status=0
  PATH=$tree/bin MEZZO_HEADER_ROOTS=$tree/usr ./root/mezzo.sh "$@" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || { fail "mezzo.sh $* ends with $status, not $expected"; cat out.txt; }
}
says() { grep -qF -- "$1" out.txt || { fail "does not say: $1"; cat out.txt; }; }
one_line() { [ "$(wc -l <out.txt)" = 1 ] || { fail "more than one line"; cat out.txt; }; says "$1"; says "$2"; }

run 2 frobnicate; one_line "unknown command or option 'frobnicate'" "./mezzo.sh help"
run 2 bench --preset nonsense; one_line "unknown preset 'nonsense'" "release"
run 2 test --preset nonsense; one_line "unknown preset 'nonsense'" "there are: asan cuda cuda-bundle cuda-emulated debug embedded embedded-clang release tsan"
run 2 test --preset base; one_line "unknown preset 'base'" "release"
run 2 test --preset; one_line "--preset needs a name" mezzo
run 2 clean up; one_line "unknown argument 'up' after clean" "./mezzo.sh help"

# A required package is missing: build commands stop before they touch anything.
run 0 doctor; says "ready"
rm usr/include/fmt/format.h
run 3 test --no-install; one_line "missing: libfmt-dev" "apt-get install -y --no-install-recommends"
[ ! -e root/build ] || fail "a build was begun without its packages"
run 3 doctor
says "fmt            no fmt/format.h below $tree/usr (required): error texts and printing are made with it; cure:"
says "--no-install-recommends libfmt-dev"
says "not ready"
stub fmt/format.h ""
program cmake "cmake version 3.18.4"
run 3 doctor; says "CMake          3.18.4 is too old, 3.22 is needed (required)"
rm bin/ninja
run 3 test --no-install; one_line "missing: cmake ninja-build" "apt-get install"
program cmake "cmake version 3.25.1"
program ninja "1.11.1"

# What a doctor finds, with versions and places; what is optional is told and costs nothing.
run 0 doctor
says "C++ compiler   12.2.0    $tree/bin/g++"
says "CMake          3.25.1    $tree/bin/cmake"
says "Eigen          3.4.7     $tree/usr/include/eigen3/Eigen/Core"
says "fmt            9.1.2     $tree/usr/include/fmt/format.h"
says "nlohmann-json  -         $tree/usr/include/nlohmann/json.hpp"
says "CLI11          2.3.9     $tree/usr/include/CLI/CLI.hpp"
says "oneDNN         no dnnl.h below $tree/usr (optional): matrix products run on Eigen; cure:"
says "clang 14       missing (optional): the preset embedded-clang cannot be built; cure:"
says "no usable GPU (nvidia-smi shows none): the CPU runs"
says "Boost.Context  -         $tree/usr/include/boost/context/fiber.hpp"
says "threads        $(getconf _NPROCESSORS_ONLN)"
run 3 test --no-install --preset embedded-clang; one_line "needs clang++-14" "apt-get install"

# An unwritable place for the installation (below a file: not even root can write there), before anything is built.
: >file
run 1 install --prefix "$tree/file/mezzo"; one_line "cannot write to $tree/file/mezzo" "choose a folder of yours with --prefix DIR"
run 2 install --prefix; one_line "--prefix needs a folder" mezzo
[ ! -e root/build ] || fail "a build was begun for a place that cannot be written to"

# The command for a machine with a GPU: what is missing is one line before anything is built.
export CUDA_HOME="$tree/cuda"
run 0 help; says "gpu             on a machine with a GPU"
run 2 gpu now; one_line "unknown argument 'now' after gpu" "./mezzo.sh help"
run 3 gpu; one_line "no CUDA toolkit here" "build the preset cuda-bundle elsewhere"
program nvcc "release 13.0"
run 3 gpu; one_line "no NVIDIA driver here" "install the driver"
printf '#!/bin/sh\necho "No devices were found"\nexit 6\n' >bin/nvidia-smi; chmod +x bin/nvidia-smi
run 3 gpu; one_line "the NVIDIA driver finds no GPU" "No devices were found"
[ ! -e root/build ] || fail "a build was begun without a GPU"

# With a GPU: the architecture is the GPU's, and the result of the bundle's start script is filed under date and name.
printf '#!/bin/sh\ncase $* in *compute_cap*) echo 9.0 ;; *) echo "NVIDIA H200" ;; esac\n' >bin/nvidia-smi
printf '#!/bin/sh\ncase $* in *version*) echo "cmake version 3.25.1" ;; *) echo "$CUDAARCHS $*" >>log.txt ;; esac\n' >bin/cmake
mkdir -p root/build/cuda-bundle/bundle root/build/gpu root/bench/results
for status in 0 1; do
  printf '#!/bin/sh\necho "ran $1, %s" >"$1/result.md"\nexit %s\n' "$status" "$status" >root/build/cuda-bundle/bundle/run
  chmod +x root/build/cuda-bundle/bundle/run
  run "$status" gpu; says "result: bench/results/$(date -u +%Y-%m-%d)-nvidia-h200.md"
  grep -qF "ran $tree/root/build/gpu, $status" root/bench/results/*-nvidia-h200.md || fail "the result was not filed"
done
grep -q '^90 --build build/cuda-bundle --target bundle' root/log.txt || { fail "not built for the GPU"; cat root/log.txt; }
printf '#!/bin/sh\necho "mezzo: no GPU to test on" >&2\nexit 3\n' >root/build/cuda-bundle/bundle/run
run 3 gpu; says "no GPU to test on"

[ "$failures" = 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "mezzo.sh does all it should"
