#!/bin/sh
# The short way into mezzo: installs what is missing, builds, and runs the timing sample or the tests.
# Everything it does can be done by hand with the apt line it prints and the presets of CMakePresets.json.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
preset=release
assume_yes=no
may_install=yes
prefix=/usr/local
here=$(pwd)
packages="g++ cmake ninja-build ccache libeigen3-dev libfmt-dev libgtest-dev libgmock-dev nlohmann-json3-dev \
libcli11-dev libdnnl-dev clang-format-14"
# For the presets embedded-clang and cuda-emulated.
test_packages="clang-14 libboost-context-dev"
# Where headers are looked for, besides CMAKE_PREFIX_PATH.
roots=${MEZZO_HEADER_ROOTS:-/usr /usr/local}

usage() {
  cat <<'TEXT'
usage: ./mezzo.sh COMMAND [--yes] [--no-install] [--preset NAME] [arguments]

  demo [args]     build and run the mixed-precision timing sample; args go to the sample (try: demo --help)
  test [-- args]  build and run every test; args go to ctest (for example: test -- -R core)
  bench [args]    build the benchmarks and compare with PyTorch, LibTorch and oneDNN (try: bench --help)
  gpu             on a machine with a GPU: all tests, memory checker, sample and bench; result in bench/results/
  install         build and install the library for find_package(mezzo), to --prefix DIR (/usr/local)
  setup           only install what is missing, the optional packages too
  doctor          say what is installed, what is missing, what that means, and which command installs it
  clean           remove the folder build/
  help            this text

  --yes           install without asking          --no-install    never install; stop with status 3 instead
  --preset NAME   release (default), debug, asan, tsan, cuda, cuda-bundle, cuda-emulated, embedded or
                  embedded-clang, see CMakePresets.json
TEXT
}

say() { printf 'mezzo: %s\n' "$*" >&2; }
die() { status=$1; shift; say "$*"; exit "$status"; }
have() { command -v "$1" >/dev/null 2>&1; }

# at_least VERSION MINIMUM
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# check NAME PACKAGE KIND MEANING PROBE...: the probe sets found (a path) and version, or says no. What is missing goes
# to a list, and a doctor prints what it is good for.
check() {
  name=$1; package=$2; kind=$3; meaning=$4; shift 4
  found="" version="" problem=missing
  if "$@"; then
    if [ "$doctor" = yes ]; then report_found; fi
    return 0
  fi
  case $kind in required) missing="$missing $package" ;; *) missing_optional="$missing_optional $package" ;; esac
  if [ "$doctor" = yes ]; then report_missing; fi
}

# Probe of a program, with the version that is needed at least.
tool() {
  found=$(command -v "$1") || return 1
  [ "$doctor$#" != no1 ] || return 0
  version=$("$1" --version 2>/dev/null | sed -n 's/^[^0-9]*\([0-9][0-9.]*[0-9]\).*/\1/p' | head -n 1)
  [ $# = 1 ] || at_least "$version" "$2" || { problem="$version is too old, $2 is needed"; return 1; }
}
compiler() { if [ -n "${CXX:-}" ]; then tool "${CXX%% *}"; else tool g++ || tool clang++; fi; }

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

check_all() {
  doctor=$1; missing="" missing_optional=""
  check "C++ compiler" g++ required "nothing can be compiled" compiler
  check CMake cmake required "nothing can be configured" tool cmake 3.22
  check Ninja ninja-build required "the presets build with it" tool ninja
  check Eigen libeigen3-dev required "the CPU's matrix products are made of it" eigen
  check fmt libfmt-dev required "error texts and printing are made with it" header fmt/format.h \
    include/fmt/core.h FMT_VERSION
  check nlohmann-json nlohmann-json3-dev required "the JSON files are read with it" header nlohmann/json.hpp \
    include/nlohmann/detail/abi_macros.hpp NLOHMANN_JSON_VERSION_MAJOR NLOHMANN_JSON_VERSION_MINOR NLOHMANN_JSON_VERSION_PATCH
  check GoogleTest libgtest-dev required "the tests are written with it" header gtest/gtest.h gtest.pc
  check GoogleMock libgmock-dev required "the tests are written with it" header gmock/gmock.h gmock.pc
  check CLI11 libcli11-dev required "the examples read their options with it" header CLI/CLI.hpp \
    include/CLI/Version.hpp CLI11_VERSION
  check oneDNN libdnnl-dev optional "matrix products run on Eigen" header dnnl.h \
    include/oneapi/dnnl/dnnl_version.h DNNL_VERSION_MAJOR DNNL_VERSION_MINOR DNNL_VERSION_PATCH
  check ccache ccache optional "every rebuild compiles everything" tool ccache
  check clang-format clang-format-14 optional "the formatting check of CI cannot run" tool clang-format-14
  check "clang 14" clang-14 optional "the preset embedded-clang cannot be built" tool clang++-14
  check Boost.Context libboost-context-dev optional "the preset cuda-emulated cannot be built" \
    header boost/context/fiber.hpp
}

set_apt_line() {
  sudo=
  [ "$(id -u)" = 0 ] || sudo="sudo "
  apt_line="${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends $*"
}

# install_missing PACKAGES: all of them, since apt-get passes over what is there.
install_missing() {
  set_apt_line "$1"
  say "missing:$missing$missing_optional; this installs everything: $apt_line"
  [ "$may_install" = yes ] || exit 3
  have apt-get || die 3 "no apt-get here: install the same libraries with your own package manager"
  if [ "$(id -u)" != 0 ]; then
    have sudo || die 3 "neither root nor sudo: ask an administrator to run the line above"
    sudo -n true 2>/dev/null || [ -t 0 ] || die 3 "sudo needs a password and there is no terminal: run the line above"
  fi
  if [ "$assume_yes" = no ] && [ -t 0 ] && [ -z "${CI:-}" ]; then
    printf 'run it now? [Y/n] ' >&2
    read -r answer || answer=n
    case $answer in [nN]*) exit 3 ;; esac
  fi
  export DEBIAN_FRONTEND=noninteractive
  eval "$apt_line" >&2 || die 3 "apt-get failed (offline?). With libraries elsewhere set CMAKE_PREFIX_PATH or Eigen3_DIR"
}

need_packages() {
  check_all no
  [ -n "$missing" ] || return 0
  install_missing "$packages"
  check_all no
  [ -z "$missing" ] || die 3 "still missing:$missing"
}

jobs() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# quietly LABEL COMMAND...: output goes to a log, shown when the command fails. On a terminal a build shows itself.
quietly() {
  label=$1; shift
  mkdir -p "$root/build"
  log="$root/build/$preset-$label.log"
  say "$label ($preset)"
  if [ "$label" = build ] && [ -t 1 ]; then
    "$@" || die 1 "$label failed"
  elif ! "$@" >"$log" 2>&1; then
    if [ "$label" = build ] && grep -q 'FAILED:' "$log"; then
      sed -n '/FAILED:/,$p' "$log" | head -n 200 >&2
    else
      tail -n 60 "$log" >&2
    fi
    die 1 "$label failed; all of it is in $log"
  fi
}

# CMake before 3.25 cannot read the presets file; for the release build plain options say the same.
presets_work() { at_least "$(cmake --version | sed -n '1s/[^0-9]*//p')" 3.25; }

check_preset() {
  names=$(sed -n 's/.*"configurePreset": "\([a-z-]*\)".*/\1/p' "$root/CMakePresets.json" | sort -u | tr '\n' ' ')
  case " $names" in
    *" $preset "*) ;;
    *) die 2 "unknown preset '$preset'; there are: ${names% }" ;;
  esac
}

configure() {
  need_packages
  cd "$root"
  if [ "$preset" = embedded-clang ] && ! have clang++-14; then
    set_apt_line clang-14
    die 3 "preset '$preset' needs clang++-14; this installs it: $apt_line"
  fi
  if [ "$preset" = cuda-emulated ] && ! header boost/context/fiber.hpp; then
    set_apt_line libboost-context-dev
    die 3 "preset '$preset' needs Boost.Context; this installs it: $apt_line"
  fi
  if presets_work; then
    quietly configure cmake --preset "$preset"
  else
    [ "$preset" = release ] || die 2 "preset '$preset' needs CMake 3.25 or newer"
    quietly configure cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release
  fi
}

run_demo() {
  configure
  quietly build cmake --build "build/$preset" --target mlp_timing
  cd "$here"
  exec "$root/build/$preset/examples/mlp_timing" "$@"
}

run_bench() {
  have python3 || die 3 "bench needs python3; apt-get install python3"
  case " $* " in *" --help "* | *" -h "* | *" --list "*) exec python3 "$root/bench/run.py" "$@" ;; esac
  python3 "$root/bench/run.py" --list "$@" >/dev/null || exit 2
  configure
  quietly build cmake --build "build/$preset" --target benchmarks
  cd "$here"
  exec python3 "$root/bench/run.py" --build "$root/build/$preset" "$@"
}

# What a GPU must have is looked at before anything is built. The bundle's own start script does the rest (tools/gpu.sh).
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
  configure
  quietly build cmake --build "build/$preset" --target bundle
  status=0
  "$root/build/$preset/bundle/run" "$root/build/gpu" || status=$?
  [ "$status" -le 1 ] || exit "$status"
  gpu=$(printf '%s\n' "$gpu" | head -n 1 | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')
  result=bench/results/$(date -u +%Y-%m-%d)-$gpu.md
  cp "$root/build/gpu/result.md" "$root/$result"
  say "result: $result; the log of each part: build/gpu"
  exit "$status"
}

run_tests() {
  configure
  quietly build cmake --build "build/$preset"
  if presets_work; then
    exec ctest --preset "$preset" --output-on-failure -j "$(jobs)" "$@"
  fi
  exec ctest --test-dir "build/$preset" --no-tests=error --output-on-failure -j "$(jobs)" "$@"
}

# The place is tried before anything is built.
run_install() {
  case $prefix in /*) ;; *) prefix=$here/$prefix ;; esac
  probe=$prefix/.mezzo_can_write_here
  { mkdir -p "$prefix" && : >"$probe" && rm "$probe"; } 2>/dev/null ||
    die 1 "cannot write to $prefix; choose a folder of yours with --prefix DIR, or run this with sudo"
  configure
  quietly build cmake --build "build/$preset" --target mezzo
  quietly install cmake --install "build/$preset" --prefix "$prefix"
  say "installed to $prefix; find_package(mezzo) finds it with CMAKE_PREFIX_PATH=$prefix"
}

command=
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
      if [ "$command" = demo ] || [ "$command" = bench ]; then break; fi
      [ -z "$command" ] || die 2 "unknown argument '$1' after $command; ./mezzo.sh help shows what there is"
      case $1 in
        demo | test | bench | gpu | install | setup | doctor | clean | help) command=$1 ;;
        -h | --help) command=help ;;
        *) die 2 "unknown command or option '$1'; ./mezzo.sh help shows what there is" ;;
      esac ;;
  esac
  shift
done

case ${command:=help} in
  demo | test | bench) ;;
  *) [ $# = 0 ] || die 2 "$command takes no arguments" ;;
esac
check_preset
case $command in
  demo) run_demo "$@" ;;
  test) run_tests "$@" ;;
  bench) run_bench "$@" ;;
  gpu) run_gpu ;;
  install) run_install ;;
  setup) check_all no; [ -z "$missing$missing_optional" ] || install_missing "$packages $test_packages"; say "nothing is missing" ;;
  doctor) . "$root/tools/doctor.sh" ;;
  clean) rm -rf "$root/build"; say "removed build/" ;;
  help) usage ;;
esac
