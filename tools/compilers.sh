#!/bin/sh
# Builds the library and runs the tests with every C++ compiler that is installed: one line for each, its output in
# build/compilers/NAME.log. Warnings are errors. Status 0: all are ok; 1: one has failed; 2: wrong usage; 3: a program
# that is needed is missing, said in one line.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
kind=tests
keep=no
# The oldest that mezzo.sh takes.
least_gcc=$(sed -n 's/^least_gcc=//p' "$root/mezzo.sh")
least_clang=$(sed -n 's/^least_clang=//p' "$root/mezzo.sh")

usage() {
  cat <<TEXT
usage: tools/compilers.sh [--warnings | --library] [--keep] [COMPILER...] [-- CMAKE-ARGUMENTS]
  Without a COMPILER each g++ and clang++ on PATH: g++-12, clang++-14, and g++ and clang++ if they are others.

  --warnings  only looks for errors and warnings in library, tests and examples, and makes no code (-fsyntax-only)
  --library   builds the library only
  --keep      keeps the build folders, build/compilers/NAME, which otherwise stay only of compilers that failed

Builds are Release without CUDA, unless CMake's arguments say otherwise. The library is compiled anew each time, so its
CPU-seconds can be compared; ccache serves the tests alone. CMAKE_BUILD_PARALLEL_LEVEL: how many files at once.
TEXT
}

die() { code=$1; shift; printf 'compilers: %s\n' "$*" >&2; exit "$code"; }
have() { command -v "$1" >/dev/null 2>&1; }
at_once() { echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}"; }

# installed: the compilers on PATH, each by one name; those without a version in it come last, if they are others.
installed() {
  seen=' '
  for program in $(printf '%s\n' "$PATH" | tr ':' '\n' | while read -r folder; do
    for file in "$folder"/g++-[0-9]* "$folder"/clang++-[0-9]*; do [ ! -x "$file" ] || echo "${file##*/}"; done
  done | sort -t - -k 1,1r -k 2,2n -u) g++ clang++; do
    have "$program" || continue
    file=$(readlink -f "$(command -v "$program")")
    case $seen in *" $file "*) continue ;; esac
    seen="$seen$file "
    echo "$program"
  done
}

# old_compiler NAME: is it older than the library can do with?
old_compiler() {
  version=$("$1" -dumpversion 2>/dev/null | sed 's/[^0-9].*//')
  case $1 in *clang*) least=$least_clang ;; *) least=$least_gcc ;; esac
  [ -n "$version" ] && [ "$version" -lt "$least" ]
}

# timed COMMAND...: its output goes to the log. Sets seconds, those of all processors together.
timed() {
  status=0
  ("$@" >>"$log" 2>&1 </dev/null; code=$?; times >"$logs/times"; exit "$code") || status=$?
  seconds=$(awk 'NR == 2 { split($1 "m" $2, t, /[ms]+/); print int(60 * t[1] + t[2] + 60 * t[3] + t[4] + 0.5) }' \
    "$logs/times")
  return "$status"
}

# Every source as the build compiles it, but to no object and without precompiled headers. Sources that are made of
# several are written first, by the commands of the build, which would have them wait for the library.
check_sources() {
  cd "$tree" || return
  sed -n '/^build joined/,/^$/s/^ *COMMAND = //p' build.ninja | sed 's/\$\(.\)/\1/g' | sh -e || return
  sed -n 's/^ *"command": "\(.*\)",*$/\1/p' compile_commands.json | grep -v -e ' -x c++-header ' |
    sed -e 's/\\\(.\)/\1/g' -e 's/ -o [^ ]* -c / -fsyntax-only /' \
      -e 's/ -Winvalid-pch -Xclang -include-pch -Xclang "\{0,1\}[^"]*cmake_pch\.hxx\.pch"\{0,1\} / /' |
    tr '\n' '\0' | xargs -0 -n 1 -P "$(at_once)" sh -c
}

# compile NAME [CMAKE-ARGUMENTS]: configures, builds, tests. Sets what: how far it came.
compile() {
  compiler=$1; shift
  what="cannot be configured"
  cmake -S "$root" -B "$tree" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DMEZZO_CUDA=OFF \
    "$@" >"$log" 2>&1 </dev/null || return
  if [ "$kind" = warnings ]; then
    timed check_sources
    status=$?
    what="sources $seconds CPU-s"
    return "$status"
  fi
  timed env CCACHE_RECACHE=1 cmake --build "$tree" --parallel "$(at_once)" --target mezzo -- -k 0
  status=$?
  what="library $seconds CPU-s"
  if [ "$kind" = library ] || [ "$status" != 0 ]; then return "$status"; fi
  what="$what, not all tests built"
  cmake --build "$tree" --parallel "$(at_once)" -- -k 0 >>"$log" 2>&1 </dev/null || return
  ctest --test-dir "$tree" --output-on-failure --no-tests=error -j "$(at_once)" >>"$log" 2>&1 </dev/null
  status=$?
  what="library $seconds CPU-s, $(sed -n 's/^[0-9]*% tests passed, \(.*\)/\1/p' "$log" | tail -n 1)"
  return "$status"
}

# messages: what the compiler said, and how often.
messages() {
  crashes=$(grep -ciE 'internal compiler error|PLEASE submit a bug report|Segmentation fault' "$log")
  warnings=$(grep -oE '\[-Werror[=,][^]]*]' "$log" | sort | uniq -c | sort -rn |
    awk '{ printf "%s %s x %s", (NR > 1 ? "," : ""), $1, $2 }')
  [ "$crashes" = 0 ] || printf ', the compiler crashed on %s files' "$crashes"
  [ -z "$warnings" ] || printf ',%s' "$warnings"
}

# try NAME [CMAKE-ARGUMENTS]: its line.
try() {
  name=$1
  if old_compiler "$name"; then printf '%-12s skipped: %s or newer is needed\n' "$name" "$least"; return 0; fi
  log=$logs/$(basename "$name").log
  tree=$logs/$(basename "$name")
  rm -rf "$tree"
  result=ok
  (compile "$@"; status=$?; printf '%s%s' "$what" "$(messages)" >"$logs/what"; exit "$status") || result=FAILED
  line=$(cat "$logs/what")
  if [ "$result" = ok ]; then [ "$keep" = yes ] || rm -rf "$tree"; else line="$line, see $log"; fi
  printf '%-12s %-6s %s\n' "$name" "$result" "$line"
  [ "$result" = ok ]
}

chosen=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --warnings | --library) kind=${1#--} ;;
    --keep) keep=yes ;;
    --) shift; break ;;
    -*) die 2 "unknown option '$1'; there are: --warnings, --library, --keep" ;;
    *)
      have "$1" || die 3 "no compiler $1 here; without names those that are installed are taken"
      chosen="$chosen $1"
      ;;
  esac
  shift
done
for program in cmake ninja; do
  have "$program" || die 3 "needs $program; ./mezzo.sh setup installs it"
done
chosen=${chosen:-$(installed)}
[ -n "$chosen" ] || die 3 "neither g++ nor clang++ is here; ./mezzo.sh setup installs one"
logs=$root/build/compilers
mkdir -p "$logs" || die 1 "cannot write to $logs; give yourself the right to"
bad=
for compiler in $chosen; do try "$compiler" "$@" || bad="$bad $compiler"; done
[ -z "$bad" ] || { printf 'FAILED:%s\n' "$bad"; exit 1; }
echo ok
