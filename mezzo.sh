#!/bin/sh
# The short way into mezzo: installs what is missing, builds, and runs the timing sample or the tests. Everything it
# does can be done by hand with the apt line it prints and the presets of CMakePresets.json. Its own talk goes to
# stderr. How a long step is run and reported stands in tools/progress.sh, what can be wrong with a machine in
# tools/machine.sh.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
preset=release
assume_yes=no
may_install=yes
prefix=/usr/local
here=$(pwd)
# What each command builds, and how many MB of build/ that takes in the release preset.
demo_targets=mlp_timing demo_mb=100
bench_targets=benchmarks bench_mb=150
library_targets=mezzo library_mb=100
all_mb=400
docs_mb=60
# The oldest compilers that the tree was compiled with.
least_gcc=11
least_clang=13
packages="g++ cmake ninja-build ccache libeigen3-dev libfmt-dev libgtest-dev libgmock-dev nlohmann-json3-dev \
libcli11-dev libdnnl-dev zlib1g-dev libpng-dev libturbojpeg0-dev"
# For the presets embedded-clang, fuzz and cuda-emulated, for tests of several processes, and for CI's checks of the sources;
# of a|b the first that the system has.
test_packages="clang-14|clang clang-19 libboost-context-dev openmpi-bin libopenmpi-dev clang-format-14|clang-format \
clang-tidy-14|clang-tidy universal-ctags"
# Where headers are looked for, besides CMAKE_PREFIX_PATH.
roots=${MEZZO_HEADER_ROOTS:-/usr /usr/local}

usage() {
  cat <<'TEXT'
usage: ./mezzo.sh COMMAND [--yes] [--no-install] [--preset NAME] [arguments]

  demo [args]     build and run the mixed-precision timing sample; args go to the sample (try: demo --help)
  test [FOLDER...] [-- args]
                  build and run every test, or those of folders of tests/; args go to ctest (try: test core -- -V)
  bench [args]    build the benchmarks and compare with PyTorch, LibTorch and oneDNN (try: bench --help)
  models [--data FOLDER]
                  train the models of the examples at their full settings and print what each reached, in some 15 minutes
                  on two cores; FOLDER holds mnist/ and a text, else the programs make their own data
  gpu             on a machine with a GPU: all tests, memory checker, sample and bench; result in bench/results/
  fuzz [args]     search inputs that break a reader of files or an op, by libFuzzer: [TARGET...] [--seconds N]; targets:
                  json, safetensors, idx, npy, npz, torch, csv, bpe, image, cifar, token_file, log, checkpoint, state,
                  op (all), readers (the first two)
  soak [args]     train for hours beside noise and faults; bits, memory and time must hold: [--minutes N] [--seed N]
  install         build and install the library for find_package(mezzo), to --prefix DIR (/usr/local)
  docs            make the API reference of the public headers by Doxygen: build/docs/html/index.html
  setup           only install what is missing, the optional packages too
  doctor          say what is installed, what is missing, what that means, and which command installs it
  clean           remove the folder build/
  help            this text

  --yes           install without asking          --no-install    never install; stop with status 3 instead
  --preset NAME   release (default), debug, asan, tsan, cuda, cuda-bundle, cuda-emulated, embedded,
                  embedded-clang, aarch64 or fuzz, see CMakePresets.json

What takes long says how far it is: on a terminal in one line, else by a line every 15 s. Each step leaves its output in
build/PRESET-STEP.log. Interrupted, the same command goes on where it was. CXX names the compiler, and
CMAKE_BUILD_PARALLEL_LEVEL how many files are compiled at once.
Status: 1 a step failed, 2 wrong arguments, 3 the machine lacks something, 128 and the signal's number when interrupted.
TEXT
}

say() { printf 'mezzo: %s\n' "$*" >&2; }
die() { status=$1; shift; say "$*"; exit "$status"; }
have() { command -v "$1" >/dev/null 2>&1; }

# at_least VERSION MINIMUM
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# check NAME PACKAGE KIND MEANING PROBE...: the probe sets found (a path) and version, or says no. What is missing
# goes to a list, and a doctor prints what it is good for. KIND: required (by all that is built), examples and tests (by
# these; see needs), optional.
check() {
  name=$1; package=$2; kind=$3; meaning=$4; shift 4
  found="" version="" problem=missing
  if "$@"; then
    if [ "$doctor" = yes ]; then report_found; fi
    return 0
  fi
  meanings="$meanings$package: $meaning
"
  case $kind in examples) with_examples=OFF ;; tests) with_tests=OFF ;; esac
  case " $needs " in
    *" $kind "*)
      missing="$missing $package"
      case $problem in missing | "no "*) ;; *) remarks="$remarks${remarks:+; }$name: $problem" ;; esac ;;
    *) missing_optional="$missing_optional $package" ;;
  esac
  if [ "$doctor" = yes ]; then report_missing; fi
}

# Probe of a program, with the version that is needed at least.
tool() {
  found=$(command -v "$1") || return 1
  [ "$doctor$#" != no1 ] || return 0
  version=$("$1" --version 2>/dev/null | sed -n 's/^[^0-9]*\([0-9][0-9.]*[0-9]\).*/\1/p' | head -n 1)
  [ $# = 1 ] || at_least "$version" "$2" || { problem="$version is too old, $2 is needed"; return 1; }
}
one_of() { tool "$1" || tool "$2"; }
# Probe of the compiler that CMake will take, which tells by its macros what it is: its name may be anything.
compiler() {
  cxx=${CXX:-}
  for cxx_ in c++ g++ clang++; do [ -n "$cxx" ] || ! have "$cxx_" || cxx=$cxx_; done
  [ -n "$cxx" ] || return 1
  found=$(command -v "${cxx%% *}") || { problem="CXX=$CXX is no program"; return 1; }
  # shellcheck disable=SC2086 # CXX may be a program and its options
  macros=$($cxx -x c++ -dM -E - </dev/null 2>/dev/null | awk '$1 == "#define" { print $2 "=" $3 }') || macros=
  [ -n "$macros" ] || { problem="${CXX:+CXX=}$cxx does not work"; return 1; }
  case $macros in
    *__clang_major__=*) family=clang least=$least_clang names="__clang_major__ __clang_minor__ __clang_patchlevel__" ;;
    *) family=g++ least=$least_gcc names="__GNUC__ __GNUC_MINOR__ __GNUC_PATCHLEVEL__" ;;
  esac
  for macro in $names; do version=$version.$(printf '%s\n' "$macros" | sed -n "s/^$macro=//p"); done
  version=${version#.}
  at_least "$version" "$least" && return 0
  problem="${CXX:+CXX=$CXX is }$family $version${CXX:+, which} is too old, $least is needed"
  return 1
}

# Probe of a header; what follows says where its version stands (see version_of in tools/doctor.sh).
header() {
  file=$1; shift
  for root_ in $roots $(printf '%s' "${CMAKE_PREFIX_PATH:-}" | tr ':;' '  '); do
    found=$root_/include/$file
    [ -e "$found" ] || continue
    if [ "$doctor" = yes ]; then version=$(version_of "$root_" "$@"); fi
    return 0
  done
  problem="no $file below $roots${CMAKE_PREFIX_PATH:+ $CMAKE_PREFIX_PATH}"
  return 1
}
eigen() {
  header eigen3/Eigen/Core include/eigen3/Eigen/src/Core/util/Macros.h EIGEN_WORLD_VERSION EIGEN_MAJOR_VERSION \
    EIGEN_MINOR_VERSION || found=${Eigen3_DIR:-}
  [ -n "$found" ]
}
# An MPI's compiler, and the program that starts processes, which tells the version.
mpi() { have mpicxx && tool mpirun; }

# check_all DOCTOR KIND...: DOCTOR is yes or no, the kinds are those that must not be missing.
check_all() {
  doctor=$1; missing="" missing_optional="" remarks="" meanings="" with_examples=ON with_tests=ON
  shift; needs=$*
  check "C++ compiler" g++ required "nothing can be compiled" compiler
  check CMake cmake required "nothing can be configured" tool cmake 3.22
  check Ninja ninja-build required "the presets build with it" tool ninja
  check Eigen libeigen3-dev required "the CPU's matrix products are made of it" eigen
  check fmt libfmt-dev examples "the examples cannot be built" header fmt/format.h \
    include/fmt/core.h FMT_VERSION
  check nlohmann-json nlohmann-json3-dev tests "the tests cannot be built" header nlohmann/json.hpp \
    include/nlohmann/detail/abi_macros.hpp NLOHMANN_JSON_VERSION_MAJOR NLOHMANN_JSON_VERSION_MINOR NLOHMANN_JSON_VERSION_PATCH
  check GoogleTest libgtest-dev tests "the tests cannot be built" header gtest/gtest.h gtest.pc
  check GoogleMock libgmock-dev tests "the tests cannot be built" header gmock/gmock.h gmock.pc
  check CLI11 libcli11-dev examples "the examples cannot be built" header CLI/CLI.hpp \
    include/CLI/Version.hpp CLI11_VERSION
  check oneDNN libdnnl-dev optional "matrix products run on Eigen" header dnnl.h \
    include/oneapi/dnnl/dnnl_version.h DNNL_VERSION_MAJOR DNNL_VERSION_MINOR DNNL_VERSION_PATCH
  check zlib zlib1g-dev optional "gzipped files and compressed npz cannot be read" header zlib.h include/zlib.h ZLIB_VERSION
  check libpng libpng-dev optional "PNG images cannot be read" header png.h include/png.h PNG_LIBPNG_VER_STRING
  check TurboJPEG libturbojpeg0-dev optional "JPEG images cannot be read" header turbojpeg.h \
    libturbojpeg.pc
  check ccache ccache optional "every rebuild compiles everything" tool ccache
  check clang-format "clang-format-14|clang-format" optional "the formatting check of CI (version 14) cannot run" \
    one_of clang-format-14 clang-format
  check clang "clang-14|clang" optional "the presets embedded-clang and fuzz cannot be built" one_of clang++-14 clang++
  check "clang 19" clang-19 optional "CI does not compile the library with Debian 13's clang" tool clang++-19
  check Boost.Context libboost-context-dev optional "the preset cuda-emulated cannot be built" \
    header boost/context/fiber.hpp
  check MPI "openmpi-bin libopenmpi-dev" optional "training in several processes cannot run" mpi
  check clang-tidy "clang-tidy-14|clang-tidy" optional "the lint of CI (version 14) cannot run" \
    one_of clang-tidy-14 clang-tidy
  check ctags universal-ctags optional "function lengths are not checked" tool ctags
}

# What installs packages; of a|b the first that apt knows, or a where it has no lists yet.
set_apt_line() {
  sudo=
  [ "$(id -u)" = 0 ] || sudo="sudo "
  chosen=
  for package_ in "$@"; do
    case $package_ in
      *"|"*) if in_apt "${package_%%|*}" || ! in_apt "${package_#*|}"; then package_=${package_%%|*}; else package_=${package_#*|}; fi ;;
    esac
    chosen="$chosen $package_"
  done
  apt_line="${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends$chosen"
}
first_names() { printf '%s' "$1" | sed 's/|[^ ]*//g'; }
in_apt() { apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'; }

# Leaves out of chosen what apt does not have, with a line that tells what is lost.
leave_out_unknown() {
  in_apt dpkg || return 0
  wanted=$chosen chosen=
  for package_ in $wanted; do
    if in_apt "$package_"; then chosen="$chosen $package_"; continue; fi
    lost=$(printf '%s' "$meanings" | while IFS= read -r line_; do
      case " $(printf '%s' "${line_%%:*}" | tr '|' ' ') " in *" $package_ "*) printf ': without it %s' "${line_#*: }" ;; esac
    done)
    say "apt has no package $package_ here$lost"
  done
}

# install_missing PACKAGES: all of them, since apt-get passes over what is there.
install_missing() {
  # shellcheck disable=SC2086 # several
  set_apt_line $1
  lacks="missing:$(first_names "$missing$missing_optional")${remarks:+ ($remarks)}"
  case $remarks in *CXX=*) die 3 "$remarks; unset CXX or name a compiler that can be used" ;; esac
  [ "$may_install" = yes ] || die 3 "$lacks; this installs everything: $apt_line"
  have apt-get || die 3 "$lacks; no apt-get here: $(other_line)"
  if [ "$(id -u)" != 0 ]; then
    have sudo || die 3 "$lacks; neither root nor sudo here: ask an administrator to run $apt_line"
    sudo -n true 2>/dev/null || [ -t 0 ] || die 3 "$lacks; sudo needs a password and there is no terminal: run $apt_line"
  fi
  say "$lacks; this installs everything: $apt_line"
  if [ "$assume_yes" = no ] && [ -t 0 ] && [ -z "${CI:-}" ]; then
    printf 'run it now? [Y/n] ' >&2
    read -r answer || answer=n
    case $answer in [nN]*) exit 3 ;; esac
  fi
  export DEBIAN_FRONTEND=noninteractive
  begin packages
  [ -z "$sudo" ] || sudo -n true 2>/dev/null || sudo -v || die 3 "sudo refuses: ask an administrator to run $apt_line"
  in_front sh -c "${sudo}apt-get update" || failed 3
  # shellcheck disable=SC2086 # several
  set_apt_line $1
  leave_out_unknown
  in_front sh -c "${sudo}apt-get install -y --no-install-recommends$chosen" || failed 3
}

# need_packages KIND...: what of kind required and of these is missing is installed.
need_packages() {
  check_all no required "$@"
  [ -n "$missing" ] || return 0
  install_missing "$packages"
  check_all no required "$@"
  [ -z "$missing" ] || die 3 "still missing:$missing${remarks:+ ($remarks)}; this system has nothing newer: take Debian 12 or \
newer, or install it by hand"
}

jobs() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# CMake before 3.25 cannot read the presets file; for the release build plain options say the same.
presets_work() { at_least "$(cmake --version | sed -n '1s/[^0-9]*//p')" 3.25; }

check_preset() {
  names=$(sed -n 's/.*"configurePreset": "\([a-z0-9-]*\)".*/\1/p' "$root/CMakePresets.json" | sort -u | tr '\n' ' ')
  case " $names" in
    *" $preset "*) ;;
    *) die 2 "unknown preset '$preset'; there are: ${names% }" ;;
  esac
}

# What an interrupted CMake has written may be half a file, which a second run would read. Objects are Ninja's affair,
# and it makes anew what it did not see finished. The mark is removed where CMake ended by itself.
forget_interrupted() {
  configuring=$root/build/$preset.configuring
  if [ -e "$configuring" ]; then rm -rf "build/$preset/CMakeCache.txt" "build/$preset/CMakeFiles"/[0-9]*; fi
  { true >"$configuring"; } 2>/dev/null || die 3 "cannot write $configuring: $cure_of_folder"
}

# configure MB KIND...: what is built afterwards takes about so much, and needs packages of these kinds. What others would
# be needed for is left out where they are missing.
configure() {
  check_folder
  check_space "$1"
  shift
  need_packages "$@"
  cd "$root"
  case $preset in
    embedded-clang | fuzz)
      set_apt_line "clang-14|clang"
      one_of clang++-14 clang++ || die 3 "preset '$preset' needs clang; this installs it: $apt_line" ;;
    aarch64) "$root/tools/aarch64.sh" --setup "$may_install" || exit ;;
  esac
  parts="-DMEZZO_BUILD_TESTS=$with_tests -DMEZZO_BUILD_EXAMPLES=$with_examples"
  case $preset in fuzz | aarch64) parts= ;; esac
  if [ "$preset" = cuda-emulated ] && ! header boost/context/fiber.hpp; then
    set_apt_line libboost-context-dev
    die 3 "preset '$preset' needs Boost.Context; this installs it: $apt_line"
  fi
  presets_work || [ "$preset" = release ] || die 2 "preset '$preset' needs CMake 3.25 or newer"
  check_clock
  check_cache
  begin configure
  say "configure ($preset)"
  forget_interrupted
  if presets_work; then
    # shellcheck disable=SC2086 # two options
    logged cmake --preset "$preset" $parts
  else
    # shellcheck disable=SC2086
    logged cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release $parts
  fi
  rm -f "$configuring"
}

run_demo() {
  configure "$demo_mb" examples
  build "$demo_targets"
  cd "$here"
  exec "$root/build/$preset/examples/mlp_timing" "$@"
}

run_bench() {
  have python3 || die 3 "bench needs python3; apt-get install python3"
  case " $* " in *" --help "* | *" -h "* | *" --list "*) exec python3 "$root/bench/run.py" "$@" ;; esac
  python3 "$root/bench/run.py" --list "$@" >/dev/null || exit 2
  configure "$bench_mb"
  build "$bench_targets"
  cd "$here"
  exec python3 "$root/bench/run.py" --build "$root/build/$preset" "$@"
}

# What a GPU must have is looked at before anything is built. The bundle's own start script does the rest
# (tools/gpu.sh).
run_gpu() {
  preset=cuda-bundle
  if [ -z "${CUDACXX:-}" ] && ! have nvcc; then
    CUDACXX=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
    [ -x "$CUDACXX" ] || die 3 "no CUDA toolkit here (nvcc in PATH, CUDACXX, CUDA_HOME or /usr/local/cuda): install it, \
or build the preset cuda-bundle elsewhere and start build/cuda-bundle/bundle/run here"
    export CUDACXX
  fi
  have nvidia-smi || die 3 "no NVIDIA driver here (no nvidia-smi): install the driver of your GPU"
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>&1) ||
    die 3 "the NVIDIA driver finds no GPU: $(printf '%s\n' "$gpu" | head -n 1)"
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/^\([0-9]*\)\.\([0-9]\)$/\1\2/p')
  [ -z "$architecture" ] || export CUDAARCHS="${CUDAARCHS:-$architecture}"
  configure "$all_mb" examples tests
  build bundle
  status=0
  "$root/build/$preset/bundle/run" "$root/build/gpu" || status=$?
  [ "$status" -le 1 ] || exit "$status"
  gpu=$(printf '%s\n' "$gpu" | head -n 1 | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')
  result=bench/results/$(date -u +%Y-%m-%d)-$gpu.md
  cp "$root/build/gpu/result.md" "$root/$result"
  say "result: $result; logs: build/gpu"
  exit "$status"
}

run_tests() {
  test_targets="" test_names=""
  for folder in $test_folders; do
    ls "$root/tests/$folder"/*_test.cpp >/dev/null 2>&1 ||
      die 2 "no tests in tests/$folder; what to give ctest stands behind --: test -- -R $folder"
    test_targets="$test_targets test_$folder" test_names="$test_names${test_names:+|}$folder"
  done
  configure "$all_mb" examples tests
  case $preset in aarch64) : "${test_targets:=aarch64_tests}" ;; esac
  # shellcheck disable=SC2086 # several names
  build ${test_targets:-all}
  [ -z "$test_names" ] || set -- -R "^($test_names)\\." "$@"
  if presets_work; then
    exec ctest --preset "$preset" --output-on-failure -j "$(jobs)" "$@"
  fi
  exec ctest --test-dir "build/$preset" --no-tests=error --output-on-failure -j "$(jobs)" "$@"
}

run_soak() {
  configure "$all_mb" examples tests
  build soak
  cd "$here"
  exec "$root/build/$preset/tests/soak" "$@"
}

# The place is tried before anything is built. ": >file" would end the shell where it fails.
run_install() {
  case $prefix in /*) ;; *) prefix=$here/$prefix ;; esac
  probe=$prefix/.mezzo_can_write_here
  { mkdir -p "$prefix" && true >"$probe" && rm "$probe"; } 2>/dev/null ||
    die 1 "cannot write to $prefix; choose a folder of yours with --prefix DIR, or run this with sudo"
  configure "$library_mb"
  build "$library_targets"
  begin install
  logged cmake --install "build/$preset" --prefix "$prefix"
  say "installed to $prefix; find_package(mezzo) finds it with CMAKE_PREFIX_PATH=$prefix"
}

. "$root/tools/progress.sh"
. "$root/tools/machine.sh"

command="" test_folders=""
while [ $# -gt 0 ]; do
  case $1 in
    --yes | -y) assume_yes=yes ;;
    --no-install) may_install=no ;;
    --preset) [ $# -ge 2 ] || die 2 "--preset needs a name"; preset=$2; shift ;;
    --preset=*) preset=${1#--preset=} ;;
    --prefix) [ $# -ge 2 ] || die 2 "--prefix needs a folder"; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --) shift; break ;;
    *)
      case $command in
        demo | bench | models | fuzz | soak) break ;;
        test) test_folders="$test_folders $1"; shift; continue ;;
      esac
      [ -z "$command" ] || die 2 "unknown argument '$1' after $command; ./mezzo.sh help shows what there is"
      case $1 in
        demo | test | bench | models | fuzz | soak | gpu | install | docs | setup | doctor | clean | help) command=$1 ;;
        -h | --help) command=help ;;
        *) die 2 "unknown command or option '$1'; ./mezzo.sh help shows what there is" ;;
      esac ;;
  esac
  shift
done

case ${command:=help} in
  demo | test | bench | models | fuzz | soak) ;;
  *) [ $# = 0 ] || die 2 "$command takes no arguments" ;;
esac
check_preset
case $command in
  demo) run_demo "$@" ;;
  test) run_tests "$@" ;;
  bench) run_bench "$@" ;;
  models) . "$root/tools/models.sh" ;;
  gpu) run_gpu ;;
  fuzz) . "$root/tools/fuzz.sh" ;;
  soak) run_soak "$@" ;;
  install) run_install ;;
  docs) . "$root/tools/docs.sh" ;;
  setup)
    check_folder
    check_all no required examples tests
    [ -z "$missing$missing_optional" ] || install_missing "$packages $test_packages"
    say "nothing is missing" ;;
  doctor) . "$root/tools/doctor.sh" ;;
  clean) rm -rf "$root/build"; say "removed build/" ;;
  help) usage ;;
esac
