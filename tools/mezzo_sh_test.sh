#!/bin/sh
# Tests of mezzo.sh on machines that are made up: a folder of its own with stub programs and stub headers. Every bad input
# must end in one line that names cause and cure, and in the right status; nothing here builds or installs anything.
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/root/tools" "$tree/bin" "$tree/usr"
cp "$source/mezzo.sh" "$source/CMakePresets.json" "$tree/root"
cp "$source/tools/doctor.sh" "$source/tools/progress.sh" "$source/tools/machine.sh" "$source/tools/docs.sh" \
  "$source/tools/fuzz.sh" "$source/tools/models.sh" "$source/tools/public_headers.sh" "$source/tools/aarch64.sh" \
  "$tree/root/tools"
cd "$tree"
ln -s ../usr root/usr  # by one name from both folders, and without the spaces that a temporary folder may have
unset CXX CMAKE_PREFIX_PATH Eigen3_DIR CUDACXX CUDAARCHS CMAKE_BUILD_PARALLEL_LEVEL CCACHE_DISABLE TMPDIR \
  MEZZO_ESTIMATE MEZZO_PROGRESS_SECONDS
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# The stub machine: POSIX tools, programs that only tell their version, headers that only state theirs.
for name in sh env dirname sed grep awk head tail sort tr uname getconf id mkdir rm cat ls printf cp chmod cut du find \
  sleep stty touch wc ln cmp; do
  ln -s "$(command -v "$name")" "bin/$name" 2>/dev/null || true
done
# What is there is removed first: it may be a link to the real program.
program() { rm -f "bin/$1"; printf '#!/bin/sh\necho "%s"\n' "$2" >"bin/$1"; chmod +x "bin/$1"; }
# A compiler is known by its macros: gcc NAME MAJOR MINOR.
macro() { printf '#define %s %s\n' "$@"; }
gcc() { program "$1" "$(macro __GNUC__ "$2" __GNUC_MINOR__ "$3" __GNUC_PATCHLEVEL__ 0)"; }
clang() { program "$1" "$(macro __GNUC__ 4 __clang_major__ "$2" __clang_minor__ "$3" __clang_patchlevel__ 6)"; }
free_kb() { program df "Filesystem 1024-blocks Used Available Capacity Mounted on
disk 9 9 $1 1% /"; }
gcc g++ 12 2
free_kb 90000000
program cmake "cmake version 3.25.1"
program ninja "1.11.1"
# One day, so that the test may run at midnight.
rm -f bin/date
printf '#!/bin/sh\ncase $* in *%%Y-%%m-%%d*) echo 2001-02-03 ;; *) exec %s "$@" ;; esac\n' "$(command -v date)" >bin/date
chmod +x bin/date
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
  PATH=$tree/bin MEZZO_HEADER_ROOTS=usr ./root/mezzo.sh "$@" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || { fail "mezzo.sh $* ends with $status, not $expected"; cat out.txt; }
}
says() { grep -qF -- "$1" out.txt || { fail "does not say: $1"; cat out.txt; }; }
one_line() { [ "$(wc -l <out.txt)" = 1 ] || { fail "more than one line"; cat out.txt; }; says "$1"; says "$2"; }

run 2 frobnicate; one_line "unknown command or option 'frobnicate'" "./mezzo.sh help"
run 2 bench --preset nonsense; one_line "unknown preset 'nonsense'" "release"
run 2 test --preset nonsense; one_line "unknown preset 'nonsense'" "there are: aarch64 asan cuda cuda-bundle cuda-emulated debug embedded embedded-clang fuzz release tsan"
run 2 test --preset base; one_line "unknown preset 'base'" "release"
run 2 test --preset; one_line "--preset needs a name" mezzo
run 2 test nonsense; one_line "no tests in tests/nonsense" "test -- -R nonsense"
run 2 clean up; one_line "unknown argument 'up' after clean" "./mezzo.sh help"

# A required package is missing: build commands stop before they touch anything.
run 0 doctor; says "ready"
rm usr/include/fmt/format.h
run 3 test --no-install; one_line "missing: libfmt-dev" "apt-get install -y --no-install-recommends"
[ ! -e root/build ] || fail "a build was begun without its packages"
run 3 doctor
says "fmt            no fmt/format.h below usr (examples): the examples cannot be built; cure:"
says "--no-install-recommends libfmt-dev"
says "not ready"
stub fmt/format.h ""
program cmake "cmake version 3.18.4"
run 3 doctor; says "CMake          3.18.4 is too old, 3.22 is needed (required)"
rm bin/ninja
run 3 test --no-install; one_line "missing: cmake ninja-build" "apt-get install"
program cmake "cmake version 3.25.1"
program ninja "1.11.1"

# What a command does not need does not stop it, and is left out of the build.
rm usr/include/gtest/gtest.h usr/include/CLI/CLI.hpp
printf '#!/bin/sh\n[ "$*" != --version ] || { echo cmake version 3.25.1; exit; }\necho "$*" >>log.txt; exit 1\n' >bin/cmake
run 1 install --prefix "$tree/installed"
run 3 demo --no-install; says "missing: libcli11-dev"
stub CLI/CLI.hpp ""
run 1 demo
run 3 test --no-install; says "missing: libgtest-dev"
stub gtest/gtest.h ""
run 1 test
printf '%s\n' "OFF OFF" "OFF ON" "ON ON" >expected.txt
sed 's/.*-DMEZZO_BUILD_TESTS=\([A-Z]*\) -DMEZZO_BUILD_EXAMPLES=/\1 /' root/log.txt | cmp -s - expected.txt ||
  { fail "not the parts that can be built"; cat root/log.txt; }
rm -r root/build root/log.txt installed
program cmake "cmake version 3.25.1"

# What a doctor finds, with versions and places; what is optional is told and costs nothing.
run 0 doctor
says "C++ compiler   12.2.0    $tree/bin/g++"
says "CMake          3.25.1    $tree/bin/cmake"
says "Eigen          3.4.7     usr/include/eigen3/Eigen/Core"
says "fmt            9.1.2     usr/include/fmt/format.h"
says "nlohmann-json  -         usr/include/nlohmann/json.hpp"
says "CLI11          2.3.9     usr/include/CLI/CLI.hpp"
says "oneDNN         no dnnl.h below usr (optional): matrix products run on Eigen; cure:"
says "clang          missing (optional): the presets embedded-clang and fuzz cannot be built; cure:"
says "MPI            missing (optional): training in several processes cannot run; cure:"
says "--no-install-recommends openmpi-bin libopenmpi-dev"
says "no usable GPU (nvidia-smi shows none): the CPU runs"
says "Boost.Context  -         usr/include/boost/context/fiber.hpp"
says "threads        $(getconf _NPROCESSORS_ONLN)"
says "disk           87890 MB free"
program mpicxx "g++ 12.2.0"
program mpirun "mpirun (Open MPI) 4.1.4"
run 0 doctor; says "MPI            4.1.4     $tree/bin/mpirun"
rm bin/mpicxx bin/mpirun
run 3 test --no-install --preset embedded-clang; one_line "needs clang; this installs it" "install -y --no-install-recommends clang-14"
run 3 --no-install fuzz json; one_line "needs clang; this installs it" "install -y --no-install-recommends clang-14"
program uname x86_64
run 3 test --no-install --preset aarch64; one_line "needs a cross compiler" "apt-get install"
program aarch64-linux-gnu-g++ ""
program qemu-aarch64 "qemu-aarch64 version 7.2.22"
run 3 test --no-install --preset aarch64; one_line "missing or too old here" "MEZZO_QEMU_AARCH64"
MEZZO_DEBIAN_KEYS=$tree/none run 3 test --preset aarch64; one_line "missing or too old here" "qemu-user of Debian 13"
MEZZO_QEMU_AARCH64=qemu-aarch64 run 3 test --preset aarch64; one_line "is no qemu-aarch64 of version 8" "unset it"
rm bin/uname bin/aarch64-linux-gnu-g++ bin/qemu-aarch64
ln -s "$(command -v uname)" bin/uname
run 2 fuzz pictures; one_line "unknown fuzz target 'pictures'" "json safetensors"
run 2 fuzz --seconds soon; one_line "--seconds needs a number" "'soon'"
run 2 fuzz --seconds; one_line "--seconds needs a number" "number"
run 2 models --data; one_line "--data needs a folder" "folder"
run 2 models --data nowhere; one_line "no folder nowhere" "mnist/"
run 2 models mnist; one_line "models takes --data FOLDER, not 'mnist'" "FOLDER"
mkdir -p nothing
run 2 models --data nothing; one_line "neither mnist/ nor a text in $tree/nothing" "--data"

# An unwritable place for the installation (below a file: not even root can write there), before anything is built.
: >file
run 1 install --prefix "$tree/file/mezzo"; one_line "cannot write to $tree/file/mezzo" "choose a folder of yours with --prefix DIR"
mkdir -p taken/.mezzo_can_write_here
run 1 install --prefix "$tree/taken"; one_line "cannot write to $tree/taken" "--prefix DIR"
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
printf '#!/bin/sh\necho "$CUDAARCHS $*" >>log.txt\n' >bin/ninja
mkdir -p root/build/cuda-bundle/bundle root/build/gpu root/bench/results
for status in 0 1; do
  printf '#!/bin/sh\necho "ran $1, %s" >"$1/result.md"\nexit %s\n' "$status" "$status" >root/build/cuda-bundle/bundle/run
  chmod +x root/build/cuda-bundle/bundle/run
  run "$status" gpu; says "result: bench/results/2001-02-03-nvidia-h200.md"
  grep -qF "ran $tree/root/build/gpu, $status" root/bench/results/*-nvidia-h200.md || fail "the result was not filed"
done
grep -q "^90 -C $tree/root/build/cuda-bundle -j[0-9]* bundle\$" root/log.txt || { fail "not built for the GPU"; cat root/log.txt; }
printf '#!/bin/sh\necho "mezzo: no GPU to test on" >&2\nexit 3\n' >root/build/cuda-bundle/bundle/run
run 3 gpu; says "no GPU to test on"

rm -rf root/build

# A compiler that is too old, or that CXX names wrongly. Nothing is installed for a CXX that somebody has set.
gcc g++ 10 2
run 3 test --no-install; one_line "missing: g++ libdnnl-dev" "apt-get install"
says "(C++ compiler: g++ 10.2.0 is too old, 11 is needed)"
run 3 doctor; says "C++ compiler   g++ 10.2.0 is too old, 11 is needed (required)"
clang myclang 12 0
CXX="myclang -stdlib=libc++" run 3 test --yes
one_line "CXX=myclang -stdlib=libc++ is clang 12.0.6, which is too old, 13 is needed" "unset CXX or name a compiler"
CXX=/nowhere/g++ run 3 test --yes; one_line "CXX=/nowhere/g++ is no program" "unset CXX"
CXX=nowhere run 3 test --yes; one_line "CXX=nowhere is no program" "unset CXX"
program silent ""
CXX=silent run 3 test --yes; one_line "CXX=silent does not work" "unset CXX"
clang myclang 13 0
CXX=myclang run 0 doctor; says "C++ compiler   13.0.6    $tree/bin/myclang"
gcc g++ 11 4
run 0 doctor; says "C++ compiler   11.4.0    $tree/bin/g++"

# Places that cannot be written to. A file in the place of the folder stops root as well.
: >root/build
run 3 demo; one_line "cannot write to $tree/root/build: copy the tree to a folder of yours" "sudo chown"
rm root/build
mkdir -p root/build/release-configure.log
run 3 demo; one_line "cannot write $tree/root/build/release-configure.log: copy the tree" "sudo chown"
rm -r root/build
if [ "$(id -u)" != 0 ]; then
  chmod a-w root
  run 3 demo; one_line "cannot write to $tree/root: copy the tree to a folder of yours" "sudo chown"
  chmod u+w root
fi
TMPDIR=$tree/nowhere run 3 demo; one_line "cannot write to $tree/nowhere" "set TMPDIR to a folder of yours"
free_kb 20000
run 3 demo; one_line "19 MB are free in $tree/root and about 100 are needed" "make room"
free_kb 90000000
[ ! -e root/build ] || fail "a build was begun where there is no place for it"

# A machine that can build: acting NAME VERSION BODY is a program that tells its version, or does what the body says.
acting() {
  rm -f "bin/$1"
  printf '#!/bin/sh\n[ "$*" != --version ] || { echo "%s"; exit; }\n%s\n' "$2" "$3" >"bin/$1"
  chmod +x "bin/$1"
}
cmake_does() { acting cmake "cmake version 3.25.1" "$1"; }
ninja_does() { acting ninja 1.11.1 "$1"; }
made='mkdir -p build/release/examples; printf "#!/bin/sh\necho sample\n" >build/release/examples/mlp_timing
chmod +x build/release/examples/mlp_timing'
cmake_does "$made"
ninja_does 'echo "$*" >>log.txt'
rm -f root/log.txt
run 0 demo; says sample
[ "$(wc -l <out.txt)" = 2 ] || { fail "a build of nothing talks"; cat out.txt; }
says "configure (release)"
CMAKE_BUILD_PARALLEL_LEVEL=7 run 0 demo
grep -qF -- "-j7 mlp_timing" root/log.txt || fail "CMAKE_BUILD_PARALLEL_LEVEL is not told to ninja"
# Models: a program that reaches its goal, one that does not, one that says nothing of a goal, and none for the others.
mkdir -p root/examples/mnist_cnn root/examples/tabular root/examples/gpt2 files/mnist files/play
: >files/play/text.txt
cmake_does 'for name in mnist_cnn tabular gpt2; do ln -sf "$PWD/examples/$name/stub" build/release/examples/$name; done'
stub_model() { printf '#!/bin/sh\necho "$0 $*" >>log.txt\n%s\n' "$2" >"root/examples/$1/stub"; chmod +x "root/examples/$1/stub"; }
stub_model mnist_cnn 'echo "goal 97 %: reached 98.1 % in 41 s"'
stub_model tabular 'echo "goal 90 %: not reached, 12.3 % in 1 s"; echo "goal not reached: 12.3 % instead of 90"; exit 1'
stub_model gpt2 'echo text'
rm -f log.txt
run 1 models --data files
says "| mnist_cnn | --precision amp_bf16 --low-precision-norms --data mnist | 97 % | 98.1 % | 0.0 |"
says "| tabular | --target price | 90 % | not reached, 12.3 %, FAILED with status 1 | 0.0 |"
says "| gpt2 | --data play/text.txt | - | ended | 0.0 |"
says "tabular failed: goal not reached: 12.3 % instead of 90 (all of it: "
grep -q 'mnist_cnn --check .*--data /.*/files/mnist$' log.txt || fail "the folder is not told to mnist_cnn"
! grep -q char_gpt out.txt log.txt || fail "a program that is not there has a row"
stub_model tabular 'echo "goal 90 %: reached 95.8 % in 1 s"'
run 0 models; says "| mnist_cnn | --precision fp32 | 97 % | 98.1 % | 0.0 |"
rm -r root/examples root/build
cmake_does "$made"

cp -r root "a tree"
rm -rf "a tree/build"
mv root kept; mv "a tree" root_; mkdir "a path"; mv root_ "a path/root"; ln -s "a path/root" root
run 0 demo; says sample
rm root; mv kept root
(cd / && env -u HOME PATH="$tree/bin" MEZZO_HEADER_ROOTS="$tree/usr" "$tree/root/mezzo.sh" demo >"$tree/out.txt" 2>&1) ||
  fail "does not work without HOME"
says sample

# What CMake says of a build folder of another place or kind, and of a compiler.
cmake_says() { cmake_does "echo '$1'; exit 1"; }
configure_fails() { run 1 demo; [ "$(wc -l <out.txt)" = 2 ] || { fail "more than a line"; cat out.txt; }; says "$1"; says "$2"; }
cmake_says "CMake Error: The current CMakeCache.txt directory /a is different than the directory /b where CMakeCache.txt was created."
configure_fails "configure failed: build/release was made for another folder" "run ./mezzo.sh clean"
cmake_says "CMake Error: Error: generator : Ninja
Does not match the generator used previously: Unix Makefiles"
configure_fails "configure failed: build/release was configured for another generator" "run ./mezzo.sh clean"
cmake_says "  mezzo needs packages that are not installed. On Debian or Ubuntu run:"
configure_fails "configure failed: a library is there in part" "apt-get install --reinstall g++ cmake"
cmake_says "  is not able to compile a simple test program."
configure_fails "configure failed: the compiler does not work" "./mezzo.sh doctor"
cmake_says "CMake Error: Cannot open file for write: CMakeCache.txt.tmp"
configure_fails "configure failed: something cannot be written" "sudo chown"
cmake_says "something else"
run 1 demo; says "something else"; says "configure failed; all of it is in $tree/root/build/release-configure.log"

# After a CMake that was killed its half-written files are forgotten, and objects stay; after one that failed all stay.
written='mkdir -p build/release/CMakeFiles/3.25.1; : >build/release/CMakeCache.txt; : >build/release/object.o'
cmake_does "$written; exit 1"
run 1 demo
cmake_does "[ -e build/release/CMakeCache.txt ] || echo nothing there; $made; "'kill -9 $$'
run 137 demo
if grep -q "nothing there" root/build/release-configure.log; then fail "a failed run lost the cache"; fi
cmake_does "ls build/release build/release/CMakeFiles; $made"
run 0 demo
if grep -q 'CMakeCache.txt\|3.25.1' root/build/release-configure.log; then fail "an interrupted run left its files"; fi
grep -q object.o root/build/release-configure.log || fail "an interrupted run lost its objects"

# Files from the future.
touch -t 209901010000 root/CMakePresets.json
run 3 demo; one_line "$tree/root/CMakePresets.json is from the future: set the clock" "touch"
touch root/CMakePresets.json
touch -t 209901010000 root/build/release/.ninja_log
run 3 demo; one_line "root/build/release/.ninja_log is from the future" "set the clock"
rm root/build/release/.ninja_log

# A compiler cache that fails is left out, one that works is not.
cmake_does "echo cache \${CCACHE_DISABLE:-on}; $made"
acting ccache "ccache version 4.7.5" 'echo "ccache: error: Failed to create directory /nonexistent"; exit 1'
run 0 demo; says "the compiler cache is not used (ccache: error: Failed to create directory /nonexistent): set CCACHE_DIR"
grep -qx "cache 1" root/build/release-configure.log || fail "CCACHE_DISABLE is not set"
acting ccache "ccache version 4.7.5" 'exec "$@"'
run 0 demo
grep -qx "cache on" root/build/release-configure.log || fail "a working cache is not used"
rm bin/ccache

# What a failing build says.
cmake_does "$made"
ninja_says() { ninja_does "[ \"\$3\" != -f ] || exit 0; echo '$1'; exit 1"; }
ninja_says "FAILED: a.o
a.s: error writing to a.o: No space left on device"
configure_fails "build failed: the disk is full: make room" "(all of it: $tree/root/build/release-build.log)"
ninja_says "c++: fatal error: Killed signal terminated program cc1plus"
configure_fails "build failed: the compiler ran out of memory" "CMAKE_BUILD_PARALLEL_LEVEL=1"
ninja_says "ninja: error: manifest build.ninja still dirty after 100 tries, perhaps system time is not set"
configure_fails "build failed: files are from the future" "set the clock"
ninja_says "ninja: error: opening build log: Permission denied"
configure_fails "build failed: something cannot be written" "sudo chown"
ninja_says "before it
FAILED: a.o
a.cpp:1:1: error: no such thing"
run 1 demo; says "a.cpp:1:1: error: no such thing"; says "build failed; all of it is in $tree/root/build/release-build.log"
if grep -q "before it" out.txt; then fail "shows what has not failed"; fi

# Progress: the files to make, an estimate by the first of them, a line at times; only the sample writes to stdout.
steps='i=0; while [ $i -lt $1 ]; do i=$((i + 1)); echo "[$i/$1] Building CXX object d/f$i.cpp.o"; done'
ninja_does 'echo "ninja: Entering directory"
steps() { '"$steps"'; }
case $* in
  *plan.ninja*) steps 60; exit ;;
  *f*.cpp.o*) echo "$*" >sampled.txt; sleep 1; steps 10 ;;
  *) echo "[0/2] Re-checking globbed directories..."; echo "[1/50] Building CXX object d/f1.cpp.o"; sleep 2.5; steps 50 ;;
esac'
acting getconf none 'echo 4'
: >root/build/release/build.ninja
status=0
PATH=$tree/bin MEZZO_HEADER_ROOTS=$tree/usr MEZZO_PROGRESS_SECONDS=2 ./root/mezzo.sh demo >sample.txt 2>out.txt </dev/null || status=$?
[ "$status$(cat sample.txt)" = 0sample ] || { fail "stdout is not the sample's alone"; cat sample.txt; }
says "build (release): 60 files on 4 processors; the first 10 tell how long it takes"
grep -q 'build (release): about [1-6]0 s for the other 50 files' out.txt || { fail "no estimate"; cat out.txt; }
says "build (release): 11 of 60 files, "
says " left"
says "build (release): 60 files in "
grep -qF "d/f4.cpp.o d/f10.cpp.o d/f16.cpp.o" root/sampled.txt || { fail "the first files are not spread"; cat root/sampled.txt; }
rm root/sampled.txt
PATH=$tree/bin MEZZO_HEADER_ROOTS=$tree/usr MEZZO_PROGRESS_SECONDS=2 MEZZO_ESTIMATE=no ./root/mezzo.sh demo >sample.txt 2>out.txt </dev/null ||
  fail "no demo without an estimate"
says "build (release): 60 files on 4 processors"
[ ! -e root/sampled.txt ] || fail "files come first although MEZZO_ESTIMATE=no"
rm bin/getconf; ln -s "$(command -v getconf)" bin/getconf

# Interrupted: the build ends with the script, by whatever signal, and the status tells which.
ninja_does '[ "$3" != -f ] || exit 0
trap "echo ended >>ended.txt; exit 1" TERM
echo begun >begun.txt
i=0; while [ $i -lt 80 ]; do sleep 0.1; i=$((i + 1)); done'
appears() { tries=0; until [ -e "$1" ]; do sleep 0.1; tries=$((tries + 1)); [ $tries -lt 50 ] || return 1; done; }
for signal in TERM KILL; do
  rm -f root/ended.txt root/begun.txt
  PATH=$tree/bin MEZZO_HEADER_ROOTS=$tree/usr ./root/mezzo.sh demo >out.txt 2>&1 </dev/null &
  script=$!
  appears root/begun.txt || fail "no build to interrupt"
  status=0
  { kill -$signal "$script" && wait "$script"; } 2>/dev/null || status=$?
  case $signal$status in TERM143 | KILL137) ;; *) fail "ends with $status after SIG$signal" ;; esac
  appears root/ended.txt || fail "the build goes on after SIG$signal"
  [ $signal = KILL ] || says "interrupted; the same command goes on from here"
done

# The API reference: without Doxygen one line, and never a build; with it, every installed header and page.
rm -rf root/build
run 0 help; says "docs            make the API reference"
run 2 docs now; one_line "unknown argument 'now' after docs" "./mezzo.sh help"
run 3 docs --no-install; one_line "missing: doxygen; this installs everything:" "--no-install-recommends doxygen"
run 3 docs --yes; one_line "missing: doxygen; no apt-get here" "your own package manager"
[ ! -e root/build ] || fail "a reference was begun without Doxygen"
acting apt-get none 'case $1 in install) echo "E: Failed to fetch http://deb.debian.org/x.deb"; exit 100 ;; esac'
acting id none 'echo 0'
run 3 docs --yes; says "packages failed: no network"; says "run this again"
if grep -q cmake out.txt; then fail "installs more than Doxygen"; cat out.txt; fi
acting apt-get none ''
run 3 docs --yes; says "still missing: doxygen"
rm bin/apt-get bin/id; ln -s "$(command -v id)" bin/id
mv bin/cmake cmake_kept
mkdir -p root/cmake root/docs root/ops/cuda
echo 'project(mezzo VERSION 7.8.9 LANGUAGES CXX)' >root/CMakeLists.txt
printf 'set(mezzo_program_headers a.h)\nset(mezzo_kernel_headers ops/b.h)\n' >root/cmake/Install.cmake
echo '#include "mezzo/ops/c.h"' >root/a.h
echo '#include <mezzo/a.h>' >root/ops/b.h
echo '#include "mezzo/ops/cuda/d.h"' >root/ops/c.h
: >root/ops/cuda/d.h; : >root/ops/internal.h; : >root/docs/page.md; echo 'QUIET = YES' >root/docs/Doxyfile
acting doxygen 1.9.4 'cp "$1" options.txt; cat warnings.txt'
: >root/warnings.txt
run 0 docs; one_line "API reference: $tree/root/build/docs/html/index.html" mezzo
sed 's/ *\\$//; s|^ *build/docs/mezzo/||' root/options.txt | tr '\n' ' ' >listed.txt
grep -qF 'QUIET = YES PROJECT_NUMBER = "7.8.9" INPUT = README.md docs/page.md ' listed.txt ||
  { fail "not the options"; cat listed.txt; }
grep -qF 'CHANGELOG.md a.h ops/b.h ops/c.h ' listed.txt || { fail "not the installed headers"; cat listed.txt; }
if grep -q 'internal.h\|d.h' listed.txt; then fail "shows what is not installed"; fi
[ -e root/build/docs/mezzo/ops/b.h ] || fail "headers are not below mezzo/"
echo "$tree/root/build/docs/mezzo/docs/page.md:7: warning: odd" >root/warnings.txt
run 0 docs; says "docs/page.md:7: warning: odd"; says "API reference: "
echo "$tree/root/build/docs/mezzo/ops/b.h:7: warning: odd" >>root/warnings.txt
cat root/warnings.txt root/warnings.txt >twice.txt; mv twice.txt root/warnings.txt
run 1 docs; grep -qx "ops/b.h:7: warning: odd" out.txt || { fail "does not show the warning"; cat out.txt; }
says "docs failed: 1 warning(s) of public headers"
acting doxygen 1.9.4 'echo "error: no such option"; exit 1'
run 1 docs; says "error: no such option"; says "docs failed; all of it is in $tree/root/build/release-docs.log"
rm root/ops/c.h
run 1 docs; says "cannot read ops/c.h"; says "docs failed: the installed headers are not known"
mv cmake_kept bin/cmake

# Installing: what apt-get says, and who may call it.
rm usr/include/fmt/format.h
acting apt-get none 'case $1 in install) cat said.txt >&2; exit 100 ;; esac'
acting id none 'echo 0'
apt_says() { printf '%s\n' "$1" >root/said.txt; cp root/said.txt said.txt; run 3 demo --yes; says "$2"; says "$3"; }
apt_says "E: Failed to fetch http://deb.debian.org/x.deb  Temporary failure resolving 'deb.debian.org'" "packages failed: no network" "CMAKE_PREFIX_PATH"
apt_says "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7" "packages failed: another program installs" "again when it has ended"
apt_says "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem." "packages failed: an earlier installation" "run dpkg --configure -a"
apt_says "E: Write error - write (28: No space left on device)" "packages failed: the disk is full" "make room"
apt_says "E: Unable to locate package libfmt-dev" "packages failed: this system does not have them" "Debian 12"
apt_says "E: something else" "E: something else" "packages failed; all of it is in $tree/root/build/release-packages.log"
run 3 setup --yes; says "E: something else"; says "packages failed"
[ "$(grep -c mezzo: out.txt)" = 2 ] || { fail "talks too much of packages"; cat out.txt; }
acting apt-get none ''
run 3 demo --yes; says "still missing: libfmt-dev"; says "install it by hand"
acting apt-get none 'case $1 in install) : >"${0%/bin/*}/usr/include/fmt/format.h"
echo Unpacking fmt; sleep 2 ;; esac'
ninja_does ''
MEZZO_PROGRESS_SECONDS=1 run 0 demo --yes; says sample
grep -q 'packages (release): [0-9]* s, Unpacking fmt' out.txt || { fail "says nothing of a long installation"; cat out.txt; }
# What apt does not have is named with what is lost, and the rest is installed; of two names the one that it has.
acting apt-cache none 'case $2 in libpng-dev | libgmock-dev | clang-14 | clang-format) echo "  Candidate: (none)" ;; *) echo "  Candidate: 1" ;; esac'
acting apt-get none 'echo "$*" >>"${0%/bin/*}/log.txt"; : >"${0%/bin/*}/usr/include/fmt/format.h"'
mv usr/include/gmock/gmock.h kept.h
for command in demo setup; do
  rm -f usr/include/fmt/format.h log.txt
  run 0 $command --yes; says "apt has no package libpng-dev here: without it PNG images cannot be read"
  says "apt has no package libgmock-dev here: without it the tests cannot be built"
  grep -q "^install .* libgtest-dev nlohmann-json3-dev .* zlib1g-dev libturbojpeg0-dev" log.txt || fail "the rest is not installed"
done
grep -q " clang clang-19 libboost-context-dev .* clang-format-14 " log.txt || { fail "not the names that apt has"; cat log.txt; }
run 3 test --yes; says "still missing: libgmock-dev"
mv kept.h usr/include/gmock/gmock.h
rm bin/apt-cache usr/include/fmt/format.h
acting id none 'echo 1000'
run 3 demo --yes; one_line "; neither root nor sudo here" "ask an administrator to run sudo apt-get update"
acting sudo none 'exit 1'
run 3 demo --yes; one_line "; sudo needs a password and there is no terminal" "run sudo apt-get update"
rm bin/apt-get
run 3 demo --yes; one_line "; no apt-get here" "your own package manager"
for manager in brew apk pacman dnf; do
  acting $manager none ''
  run 3 demo --yes; one_line "; no apt-get here: $manager " " eigen"
done

[ "$failures" = 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "mezzo.sh does all it should"
