#!/bin/sh
# Runs the tests of a build as they run on somebody else's machine. One line per condition, its log in build/newcomer/.
# Status 0: all are ok; 1: one has failed; 2: wrong usage; 3: a program that is needed is missing, said in one line.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
self=$root/tools/newcomer.sh
preset=release
all="haswell nehalem nobf16 aarch64 user locale space readonly closed debian12 debian13"

usage() {
  cat <<TEXT
usage: tools/newcomer.sh [--preset NAME] [CONDITION...]
  Without arguments all conditions, and the preset release, which is built if need be.

  haswell, nehalem   kernels and goldens on an emulated processor with AVX2, and on one without AVX (qemu-x86_64; slow)
  nobf16             the same on this processor, of which oneDNN takes no bf16 instructions
  aarch64            tests of the preset aarch64, which it builds, on an emulated ARM; its kernels on one without bf16 too
  user               as nobody, without a home
  locale             another time zone, decimal commas, umask 077
  space              built in a folder whose name has a space (only what test_core, test_docs and a consumer need)
  readonly           on a source tree that cannot be written to
  closed             without a terminal, stdin closed
  debian12, debian13 both commands of the README in a bare Debian of that release (by debootstrap, as root; from the network)
TEXT
}

die() { code=$1; shift; printf 'newcomer: %s\n' "$*" >&2; exit "$code"; }
have() { command -v "$1" >/dev/null 2>&1; }

# step COMMAND...: one of a condition's tests; 77 is a test that cannot run here. Sets failed.
step() {
  printf '\n=== %s\n' "$*"
  status=0
  "$@" || status=$?
  case $status in 0 | 77) ;; *) failed=yes; printf '=== ended with status %s: %s\n' "$status" "$*" ;; esac
}

# Every test program of the tree at hand, and the tests of the scripts.
run_tree() {
  for program in "build/$preset/tests"/*; do step "$program"; done
  for script in tools/*_test.sh tests/package/*_test.sh; do step sh "$script" c++; done
  step sh tools/check_tree.sh .
}

# copy_sources FOLDER: what the tree has but .git and build folders. copy_tree FOLDER: the built programs too.
copy_sources() { mkdir -p "$1" && tar -C "$root" --exclude='./.git' --exclude='./build*' -cf - . | tar -C "$1" -xf -; }
copy_tree() {
  copy_sources "$1" || return
  mkdir -p "$1/build/$preset" && cd "$root/build/$preset" || return
  for built in tests examples tools libmezzo.so*; do
    [ ! -e "$built" ] || cp -a "$built" "$1/build/$preset/" || return
  done
  chmod -R a+rX "$1"
}

# inside FOLDER COMMAND...: run_tree by COMMAND in that folder, whose copies of library and data are the ones in use.
inside() {
  folder=$1; shift
  LD_LIBRARY_PATH="$folder/build/$preset" MEZZO_TEST_DATA="$folder/tests" \
    "$@" sh "$self" --preset "$preset" --in "$folder"
}

# COMMAND... as a user who is not root and owns nothing.
as_nobody() {
  set -- env HOME=/nonexistent "TMPDIR=$work/writable by all" "$@"
  if [ "$(id -u)" = 0 ]; then set -- setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; fi
  "$@"
}

emulated() {
  for program in test_kernels golden_test; do step qemu-x86_64 -cpu "$1" "$root/build/$preset/tests/$program"; done
}
haswell() { emulated Haswell; }
nehalem() { emulated Nehalem; }

aarch64() {
  step "$root/mezzo.sh" test --preset aarch64
  step env QEMU_CPU=cortex-a72 "$root/tools/aarch64.sh" "$root/build/aarch64/tests/test_kernels"
}

nobf16() {
  for program in test_kernels golden_test; do
    step env ONEDNN_MAX_CPU_ISA=AVX512_CORE "$root/build/$preset/tests/$program"
  done
}

user() { step copy_tree "$work/a copy" && step inside "$work/a copy" as_nobody; }

# Root may write everywhere, so nobody runs the tests; who is not root only loses the right to.
readonly_() {
  step copy_tree "$work/read only"
  chmod -R a-w "$work/read only"
  step inside "$work/read only" as_nobody
}

locale_() {
  if localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8"; then export LOCPATH="$work"; fi
  umask 077
  TZ=XYZ-12:45 LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 step sh "$self" --preset "$preset" --in "$root"
}

# Without optimisation and CUDA: paths do not depend on them. The base folder lets the next such copy use the compiler cache.
space() {
  tree="$work/a path with a space"
  step copy_sources "$tree"
  cd "$tree" || return
  export CCACHE_BASEDIR="$tree" CCACHE_NOHASHDIR=1
  step cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DMEZZO_CUDA=OFF
  step cmake --build build --target test_core test_docs consumer_reference amp_two_optimizers
  step ctest --test-dir build --output-on-failure --no-tests=error \
    -R '^(core|docs)\.|^tree|_sh$|^package\.(install|headers|unwritable|find_package$)'
}

closed() { step setsid -w sh "$self" --preset "$preset" --in "$root" <&-; }

# bare_debian SUITE: a system of its own in a folder, with no compiler. Its mounts are seen in there alone, and end with it.
bare_debian() {
  tree=$work/$1
  step debootstrap --variant=minbase --include=ca-certificates "$1" "$tree" || return
  cp -a /etc/apt/apt.conf.d/. "$tree/etc/apt/apt.conf.d/"
  cp /etc/resolv.conf "$tree/etc/"
  step copy_sources "$tree/root/mezzo"
  # shellcheck disable=SC2016 # the inner shell expands
  step unshare --mount sh -c 'mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc" && mount -t sysfs sys "$1/sys" &&
    HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin exec chroot "$1" sh -c "cd /root/mezzo && ./mezzo.sh demo && ./mezzo.sh test"' \
    sh "$tree"
}
debian12() { bare_debian bookworm; }
debian13() { bare_debian trixie; }

# condition NAME: runs it apart from the others and tells how it went.
condition() {
  function=$1
  case $1 in readonly | locale) function=${1}_ ;; esac
  began=$(date +%s)
  result=ok
  (failed=no; "$function"; [ "$failed" = no ]) >"$logs/$1.log" 2>&1 || result="FAILED, see $logs/$1.log"
  printf '%-9s %5d s  %s\n' "$1" $(($(date +%s) - began)) "$result"
  [ "$result" = ok ]
}

# need CONDITION...: stops when a program that they run is not here.
need() {
  for name; do
    case $name in
      haswell | nehalem) program=qemu-x86_64 package=qemu-user ;;
      aarch64) "$root/tools/aarch64.sh" --setup || exit; continue ;;
      user | readonly) program=setpriv package=util-linux ;;
      closed) program=setsid package=util-linux ;;
      debian12 | debian13)
        [ "$(id -u)" = 0 ] || die 3 "$name needs root: run tools/newcomer.sh $name with sudo"
        program=debootstrap package=debootstrap ;;
      *) continue ;;
    esac
    have "$program" || die 3 "$name needs $program: apt-get install -y --no-install-recommends $package"
  done
}

chosen='' folder=''
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --preset) [ $# -ge 2 ] || die 2 "--preset needs a name"; preset=$2; shift ;;
    --in) folder=$2; shift ;;  # for run_tree in another environment
    *)
      case " $all " in *" $1 "*) ;; *) die 2 "unknown condition '$1'; there are: $all" ;; esac
      chosen="$chosen $1" ;;
  esac
  shift
done
export GTEST_BRIEF=1
if [ -n "$folder" ]; then
  failed=no
  cd "$folder" && run_tree
  [ "$failed" = no ]
  exit
fi

chosen=${chosen:-$all}
# shellcheck disable=SC2086 # several
need $chosen
here=''  # what needs the built tests
for name in $chosen; do case $name in space | aarch64 | debian*) ;; *) here=yes ;; esac; done
if [ ! -x "$root/build/$preset/tests/golden_test" ] && [ -n "$here" ]; then
  "$root/mezzo.sh" test --preset "$preset" -- -N >/dev/null || die 1 "preset $preset could not be built"
fi
logs=$root/build/newcomer
mkdir -p "$logs" || die 1 "cannot write to $logs; give yourself the right to"
work=$(mktemp -d) || die 1 "no folder for temporary files: set TMPDIR to one that can be written to"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work"
mkdir -m 1777 "$work/writable by all"
bad=''
for name in $chosen; do condition "$name" || bad="$bad $name"; done
[ -z "$bad" ] || { printf 'FAILED:%s\n' "$bad"; exit 1; }
printf 'ok:%s\n' " ${chosen# }"
