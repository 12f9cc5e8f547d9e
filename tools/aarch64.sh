#!/bin/sh
# Runs programs for ARM (aarch64 Linux) under qemu-user: the emulator of cmake/aarch64.cmake.
#   tools/aarch64.sh PROGRAM [ARGUMENTS]
#   tools/aarch64.sh --setup [no]  sees that cross compiler and qemu are there; may unpack a qemu, unless "no" follows
# It takes MEZZO_QEMU_AARCH64, the system's qemu-aarch64, or Debian 13's, unpacked into build/qemu: of version 8 or newer,
# as Debian 12's 7.2 hangs where a program starts a thread. Shared libraries are below QEMU_LD_PREFIX.
# Status 3: something is missing, said in one line.
set -eu
self=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/aarch64.sh
unpacked=${self%/tools/*}/build/qemu
keys=${MEZZO_DEBIAN_KEYS:-/usr/share/keyrings/debian-archive-keyring.gpg}

die() { printf 'mezzo: %s\n' "$*" >&2; exit 3; }
is_new() { [ "$("$1" --version 2>/dev/null | sed -n '1s/.* version \([0-9]*\).*/\1/p')" -ge 8 ] 2>/dev/null; }

# Sets qemu.
find_qemu() {
  if [ -n "${MEZZO_QEMU_AARCH64:-}" ]; then
    qemu=$MEZZO_QEMU_AARCH64
    is_new "$qemu" || die "MEZZO_QEMU_AARCH64=$qemu is no qemu-aarch64 of version 8 or newer: name one, or unset it"
    return
  fi
  for qemu in qemu-aarch64 "$unpacked/usr/bin/qemu-aarch64"; do if is_new "$qemu"; then return; fi; done
  return 1
}

# unpack FOLDER: Debian 13's qemu-user, which is static. apt-get checks the signature; its lists lie in the folder too.
unpack() {
  rm -rf "$1" && mkdir -p "$1/lists/partial" "$1/archives/partial" && cd "$1"
  archive=$(sed -n 's/^URIs: *//p; s/^deb \(\[.*\] \)*\(http[^ ]*\).*/\2/p' /etc/apt/sources.list.d/*.sources \
    /etc/apt/sources.list 2>/dev/null | head -n 1)
  [ -n "$archive" ] || return
  echo "deb [signed-by=$keys] $archive trixie main" >sources.list
  set -- -o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$1/lists" \
    -o "Dir::Cache=$1" -o APT::Sandbox::User= -qq
  apt-get "$@" update && apt-get "$@" download qemu-user &&
    dpkg-deb --fsys-tarfile qemu-user_*.deb | tar -xf - ./usr/bin/qemu-aarch64 && rm -rf lists archives qemu-user_*.deb
}

setup() {
  case $(uname -m) in aarch64 | arm64) return ;; esac
  # A compiler without the target's C library cannot link.
  echo 'int main() {}' | aarch64-linux-gnu-g++ -x c++ - -o /dev/null >/dev/null 2>&1 ||
    die "the preset aarch64 needs a cross compiler and its libraries: apt-get install -y --no-install-recommends \
g++-aarch64-linux-gnu"
  find_qemu && return
  cure="install qemu-user of Debian 13 or another of version 8 or newer, and name it by MEZZO_QEMU_AARCH64 if it is not in PATH"
  [ "$1" != no ] && [ -r "$keys" ] || die "the preset aarch64 runs its tests under qemu-aarch64, which is missing or too \
old here: $cure"
  printf 'mezzo: Debian 13'\''s qemu-user, 70 MB, goes to %s\n' "$unpacked" >&2
  (unpack "$unpacked") >&2 && find_qemu || die "qemu-user of Debian 13 could not be unpacked: $cure"
}

case ${1:-} in
  --setup) setup "${2:-yes}"; exit ;;
  -*) set -- "$MEZZO_AARCH64_PROGRAM" "$@" ;;  # a program that started itself anew, as GoogleTest's death tests do
esac
find_qemu || die "no qemu-aarch64 of version 8 or newer here: ./mezzo.sh test --preset aarch64 sees to it"
export MEZZO_AARCH64_PROGRAM="$1"
export MEZZO_EMULATOR="$self"  # for tests that start programs of ours
export QEMU_LD_PREFIX="${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}"
exec "$qemu" -0 "$self" "$@"
