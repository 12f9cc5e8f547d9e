# shellcheck shell=sh disable=SC2154 # the names are those of mezzo.sh
# What can be wrong with a machine, read by mezzo.sh: what is looked at before anything is installed or built, and the
# causes that a log shows when something has failed. Each is one line: cause and cure.

cure_of_folder="copy the tree to a folder of yours, or take build/ back from another user: sudo chown -R \$(id -un) build"

# The place that will be written to, before it is written to.
place=$root
check_folder() {
  for place_ in "$root/build" "$root/build/$preset"; do [ ! -e "$place_" ] || place=$place_; done
  { [ -d "$place" ] && [ -w "$place" ] && [ -x "$place" ]; } || die 3 "cannot write to $place: $cure_of_folder"
  temporary=${TMPDIR:-/tmp}
  { [ -d "$temporary" ] && [ -w "$temporary" ]; } ||
    die 3 "cannot write to $temporary, where temporary files go: set TMPDIR to a folder of yours"
}

free_mb() { df -Pk "$place" 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }'; }

# check_space MB: what a whole build takes, less what has been built of it.
check_space() {
  free=$(free_mb)
  built=$(du -sk "$root/build/$preset" 2>/dev/null | awk '{ print int($1 / 1024) }')
  [ $((${free:-$1} + ${built:-0})) -ge "$1" ] ||
    die 3 "$free MB are free in $place and about $(($1 - ${built:-0})) are needed: make room, or copy the tree to a larger disk"
}

# A file from the future is newer than what is made of it: Ninja would configure a hundred times, or leave old objects
# as they are. The stamp has the time of the file system, which may be another machine's.
check_clock() {
  stamp=$root/build/$preset.now
  { mkdir -p "$root/build" && rm -f "$stamp" && true >"$stamp"; } 2>/dev/null || die 3 "cannot write to $root/build: $cure_of_folder"
  late=$(find "$root/CMakeLists.txt" "$root/CMakePresets.json" "$root/cmake" "$root/build/$preset/build.ninja" \
    "$root/build/$preset/.ninja_log" -type f -newer "$stamp" 2>/dev/null | head -n 1)
  rm -f "$stamp"
  [ -z "$late" ] || die 3 "$late is from the future: set the clock (it says $(date)), or give such files the time of now: \
find '$root' -newermt now -exec touch {} +"
}

# A compiler cache that cannot be written to, as without a home, would fail every compiler run. It is tried on
# nothing.
check_cache() {
  have ccache && [ -z "${CCACHE_DISABLE:-}" ] || return 0
  probe=$root/build/$preset.probe
  { echo 'int mezzo_probe;' >"$probe.cpp"; } 2>/dev/null || return 0
  # shellcheck disable=SC2086 # CXX may be a program and its options
  if ! says_cache=$(ccache $cxx -c "$probe.cpp" -o "$probe.o" 2>&1) &&
    $cxx -c "$probe.cpp" -o "$probe.o" >/dev/null 2>&1; then
    says_cache=$(printf '%s\n' "$says_cache" | head -n 1)
    say "the compiler cache is not used ($says_cache): set CCACHE_DIR to a folder of yours to have it"
    export CCACHE_DISABLE=1
  fi
  rm -f "$probe.cpp" "$probe.o"
}

# What installs the packages where there is no apt-get.
other_line() {
  if have dnf; then
    echo "dnf install gcc-c++ cmake ninja-build ccache eigen3-devel fmt-devel gtest-devel gmock-devel json-devel cli11-devel \
onednn-devel zlib-devel libpng-devel turbojpeg-devel"
  elif have pacman; then
    echo "pacman -S gcc cmake ninja ccache eigen fmt gtest nlohmann-json cli11 onednn zlib libpng libjpeg-turbo"
  elif have apk; then
    echo "apk add g++ cmake samurai ccache eigen-dev fmt-dev gtest-dev nlohmann-json cli11-dev onednn-dev zlib-dev libpng-dev \
libjpeg-turbo-dev"
  elif have brew; then
    echo "brew install cmake ninja ccache eigen fmt googletest nlohmann-json cli11 onednn libpng jpeg-turbo"
  else
    echo "install the same libraries with your own package manager"
  fi
}

# cause_in LOG: cause and cure, if the log of the step $label shows one that is known. The first that matches.
cause_in() {
  # shellcheck disable=SC2086 # several
  set_apt_line $packages
  free=$(free_mb)
  if [ "${free:-99}" -lt 4 ]; then echo "the disk is full ($free MB free in $place): make room and run this again"; return; fi
  while IFS=@ read -r step pattern text; do
    case $step in "$label" | any) ;; *) continue ;; esac
    if grep -Eq -- "$pattern" "$1"; then printf '%s\n' "$text"; return; fi
  done <<TEXT
any@No space left on device[).]*$|Disk quota exceeded|enough free space@the disk is full: make room and run this again
packages@dpkg was interrupted@an earlier installation was interrupted: run ${sudo}dpkg --configure -a, then this again
packages@Could not get lock|Unable to lock|frontend lock@another program installs packages: run this again when it has ended
packages@not in the sudoers|may not run sudo|not allowed to@sudo refuses: ask an administrator to run $apt_line
packages@failure resolving|not resolve|not connect|Unable to connect|initiate the connection|unreachable|Failed to fetch|\
Unable to fetch|timed out@no network, or no mirror answers: \
connect this machine and run this again; libraries in other places are found by CMAKE_PREFIX_PATH and Eigen3_DIR
packages@Unable to locate package|no installation candidate@this system does not have them: take Debian 12 or newer, or \
install the libraries by hand
configure@different than the directory .* where CMakeCache|does not match the source .* used to generate@build/$preset was \
made for another folder (the tree was moved or copied): run ./mezzo.sh clean, then this again
configure@Does not match the generator used previously@build/$preset was configured for another generator than Ninja: run \
./mezzo.sh clean, then this again
configure@mezzo needs packages that are not installed@a library is there in part: run ${sudo}apt-get install --reinstall\
$chosen, then this again
configure@is not able to compile a simple test program|is not a full path to an existing@the compiler does not work, or is \
gone since build/$preset was configured: see ./mezzo.sh doctor, then run ./mezzo.sh clean and this again
build@still dirty after@files are from the future (was the clock set back?): set the clock, run ./mezzo.sh clean and this again
build@Killed signal terminated|error: Killed|cc1plus: out of memory|memory exhausted|ERROR: out of memory@the compiler ran \
out of memory: run this again with one at a time, by CMAKE_BUILD_PARALLEL_LEVEL=1 in the environment
build@ccache: error@the compiler cache fails: run this again with CCACHE_DISABLE=1 in the environment
any@(Permission denied|Read-only file system)[).]*$|Cannot open file for write@something cannot be written: $cure_of_folder
TEXT
  return 1
}
