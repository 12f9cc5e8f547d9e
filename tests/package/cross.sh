#!/bin/sh
# A build for another processor that lacks a library of it, or finds one of this machine, says so with the cure. Here a
# library that no linker takes stands for another processor's.
# usage: cross.sh [cmake options...]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "a library of some other processor" >"$work/libz.so"
echo '#define ZLIB_VERSION "1.2.13"' >"$work/zlib.h"

# stops TEXT ZLIB_OPTION CMAKE_OPTIONS...: configuring for another processor.
stops() {
  text=$1 zlib=$2; shift 2
  if cmake -S "$here/../.." -B "$work/build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=armv9 \
    -DMEZZO_BUILD_TESTS=OFF -DMEZZO_BUILD_EXAMPLES=OFF -DMEZZO_ONEDNN=OFF -DMEZZO_PNG=OFF -DMEZZO_JPEG=OFF \
    -DMEZZO_MPI=OFF -DMEZZO_CUDA=OFF "-DMEZZO_ZLIB=$zlib" "$@" >"$work/out.txt" 2>&1; then
    echo "configures: $text"; cat "$work/out.txt"; exit 1
  fi
  tr -s ' \n' ' ' <"$work/out.txt" | grep -qF "$text" || { echo "does not say: $text"; cat "$work/out.txt"; exit 1; }
}
stops "mezzo: ZLIB::ZLIB was found, but no program for armv9 links it: install it for that processor" ON \
  "-DZLIB_LIBRARY=$work/libz.so" "-DZLIB_INCLUDE_DIR=$work" "$@"
stops "mezzo: a build for armv9 needs what these packages have, for that processor: libeigen3-dev." OFF \
  -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON "$@"
