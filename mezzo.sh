#!/bin/sh
# The short way into mezzo: installs what is missing, builds, and runs the timing sample or the tests.
# Everything it does can be done by hand with the apt line it prints and the presets of CMakePresets.json.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
preset=release
assume_yes=no
may_install=yes
packages="g++ cmake ninja-build ccache libeigen3-dev libfmt-dev libgtest-dev libgmock-dev nlohmann-json3-dev \
libcli11-dev libdnnl-dev clang-format-14"

usage() {
  cat <<'TEXT'
usage: ./mezzo.sh COMMAND [--yes] [--no-install] [--preset NAME] [arguments]

  demo [args]     build and run the mixed-precision timing sample; args go to the sample (try: demo --help)
  test [-- args]  build and run every test; args go to ctest (for example: test -- -R core)
  setup           only install what is missing, the optional packages too
  doctor          say what is installed, what is missing, and which command installs it
  clean           remove the folder build/
  help            this text

  --yes           install without asking          --no-install    never install; stop with status 3 instead
  --preset NAME   release (default), debug or asan, see CMakePresets.json
TEXT
}

say() { printf 'mezzo: %s\n' "$*" >&2; }
die() { status=$1; shift; say "$*"; exit "$status"; }
have() { command -v "$1" >/dev/null 2>&1; }

# have_header FILE: is include/FILE under a usual prefix, or one the user named in CMAKE_PREFIX_PATH?
have_header() {
  for prefix in /usr /usr/local $(printf '%s' "${CMAKE_PREFIX_PATH:-}" | tr ':;' '  '); do
    [ -e "$prefix/include/$1" ] && return 0
  done
  return 1
}

# check WHAT PACKAGE COMMAND...: sets state, and adds PACKAGE to a list of missing ones.
check() {
  what=$1; package=$2; kind=$3; shift 3
  if "$@"; then state=found; else
    state="missing ($kind, package $package)"
    case $kind in required) missing="$missing $package" ;; *) missing_optional="$missing_optional $package" ;; esac
  fi
  [ "$verbose" = no ] || printf '  %-22s %s\n' "$what" "$state"
}

has_compiler() { if [ -n "${CXX:-}" ]; then have "${CXX%% *}"; else have g++ || have clang++; fi; }
has_eigen() { have_header eigen3/Eigen/Core || [ -n "${Eigen3_DIR:-}" ]; }

check_all() {
  verbose=$1; missing=; missing_optional=
  check "C++ compiler" g++ required has_compiler
  check cmake cmake required have cmake
  check ninja ninja-build required have ninja
  check Eigen libeigen3-dev required has_eigen
  check fmt libfmt-dev required have_header fmt/format.h
  check GoogleTest libgtest-dev required have_header gtest/gtest.h
  check GoogleMock libgmock-dev required have_header gmock/gmock.h
  check nlohmann-json nlohmann-json3-dev required have_header nlohmann/json.hpp
  check CLI11 libcli11-dev required have_header CLI/CLI.hpp
  check "oneDNN (faster CPU)" libdnnl-dev optional have_header dnnl.h
  check "ccache (rebuilds)" ccache optional have ccache
  check "clang-format (checks)" clang-format-14 optional have clang-format-14
}

set_apt_line() {
  sudo=
  [ "$(id -u)" = 0 ] || sudo="sudo "
  apt_line="${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends $packages"
}

install_missing() {
  set_apt_line
  say "missing:$missing$missing_optional"
  say "this installs everything:"
  printf '%s\n' "$apt_line" >&2
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
  install_missing
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
presets_work() { [ "$(printf '3.25\n%s\n' "$(cmake --version | sed -n '1s/[^0-9]*//p')" | sort -V | head -n 1)" = 3.25 ]; }

configure() {
  need_packages
  cd "$root"
  if presets_work; then
    cmake --list-presets | grep -q "\"$preset\"" || die 2 "unknown preset '$preset'; cmake --list-presets shows them"
    quietly configure cmake --preset "$preset"
  else
    [ "$preset" = release ] || die 2 "preset '$preset' needs CMake 3.25 or newer"
    quietly configure cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release
  fi
}

run_demo() {
  here=$(pwd)
  configure
  quietly build cmake --build "build/$preset" --target mlp_timing
  cd "$here"
  exec "$root/build/$preset/examples/mlp_timing" "$@"
}

run_tests() {
  configure
  quietly build cmake --build "build/$preset"
  if presets_work; then
    exec ctest --preset "$preset" --output-on-failure -j "$(jobs)" "$@"
  fi
  exec ctest --test-dir "build/$preset" --no-tests=error --output-on-failure -j "$(jobs)" "$@"
}

run_doctor() {
  printf 'mezzo in %s\n' "$root"
  check_all yes
  printf '  %-22s %s\n' "CUDA" "not used: this version has no CUDA backend yet"
  for tool in "${CXX:-c++}" cmake; do
    if have "${tool%% *}"; then printf '  %s\n' "$(${tool%% *} --version | sed -n 1p)"; fi
  done
  set_apt_line
  [ -z "$missing$missing_optional" ] || printf 'this installs everything:\n%s\n' "$apt_line"
  [ -z "$missing" ] || exit 3
  printf 'ready: ./mezzo.sh demo\n'
}

command=
while [ $# -gt 0 ]; do
  case $1 in
    --yes | -y) assume_yes=yes ;;
    --no-install) may_install=no ;;
    --preset) [ $# -ge 2 ] || die 2 "--preset needs a name"; preset=$2; shift ;;
    --preset=*) preset=${1#--preset=} ;;
    --) shift; break ;;
    *)
      if [ "$command" = demo ]; then break; fi
      [ -z "$command" ] || die 2 "unknown argument '$1' after $command; ./mezzo.sh help shows what there is"
      case $1 in
        demo | test | setup | doctor | clean | help) command=$1 ;;
        -h | --help) command=help ;;
        *) die 2 "unknown command or option '$1'; ./mezzo.sh help shows what there is" ;;
      esac ;;
  esac
  shift
done

case ${command:=help} in
  demo | test) ;;
  *) [ $# = 0 ] || die 2 "$command takes no arguments" ;;
esac
case $command in
  demo) run_demo "$@" ;;
  test) run_tests "$@" ;;
  setup) check_all no; [ -z "$missing$missing_optional" ] || install_missing; say "nothing is missing" ;;
  doctor) run_doctor ;;
  clean) rm -rf "$root/build"; say "removed build/" ;;
  help) usage ;;
esac
