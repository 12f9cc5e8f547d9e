#!/bin/sh
# A build for another processor that lacks a library of it, or finds one of this machine, says so with the cure. Here a
# library that no linker takes stands for another processor's.
# usage: cross.sh SOURCE_DIR CXX
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "a library of some other processor" >"$work/libz.so"
echo '#define ZLIB_VERSION "1.2.13"' >"$work/zlib.h"

# stops TEXT OPTION...: configuring for another processor.
stops() {
  text=$1; shift
  if cmake -S "$source" -B "$work/build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=armv9 \
    -DCMAKE_CXX_COMPILER="$compiler" -DMEZZO_BUILD_TESTS=OFF -DMEZZO_BUILD_EXAMPLES=OFF -DMEZZO_ONEDNN=OFF \
    -DMEZZO_PNG=OFF -DMEZZO_JPEG=OFF -DMEZZO_MPI=OFF -DMEZZO_CUDA=OFF "$@" >"$work/out.txt" 2>&1; then
    echo "configures with $*:"; cat "$work/out.txt"; exit 1
  fi
  tr -s ' \n' ' ' <"$work/out.txt" | grep -qF "$text" || { echo "does not say: $text"; cat "$work/out.txt"; exit 1; }
}
source=$1 compiler=$2
stops "mezzo: ZLIB::ZLIB was found, but no program for armv9 links it: install it for that processor" \
  -DMEZZO_ZLIB=ON "-DZLIB_LIBRARY=$work/libz.so" "-DZLIB_INCLUDE_DIR=$work"
stops "mezzo: a build for armv9 needs what these packages have, for that processor: libeigen3-dev." \
  -DMEZZO_ZLIB=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON
