#!/bin/sh
# An installed libmezzo without CMake: the consumer's program is compiled once and linked as `g++ main.o -lmezzo` by each
# linker that is there, and with what pkg-config says. It must see as many ops as a program of mezzo's own build does.
# And a program that is compiled as C++17 is told so in one error, not in hundreds.
# usage: plain.sh LIBDIR INCLUDEDIR REFERENCE COMPILER
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
lib=$1 include=$2 reference=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ops() { sed -n 's/^ops //p' "$1"; }
"$reference" >expected.txt
[ "$(ops expected.txt)" -gt 1 ] || { echo "the reference names no ops"; exit 1; }
# same COMMAND...: runs a program; its ops are the reference's
same() {
  "$@" >found.txt 2>&1 || { cat found.txt; echo "$how: the program failed"; exit 1; }
  [ "$(ops found.txt)" = "$(ops expected.txt)" ] || { cat found.txt; echo "$how: expected $(ops expected.txt) ops"; exit 1; }
  echo "$how: $(ops found.txt) ops"
}

for header in mezzo data train dist format; do
  if echo "#include <mezzo/$header.h>" | "$compiler" -std=c++17 -I"$include" -fsyntax-only -x c++ - 2>said.txt; then
    echo "$header.h: C++17 is accepted"; exit 1
  fi
  grep -q 'error: .*mezzo needs C++20' said.txt && [ "$(grep -c 'error: ' said.txt)" -le 2 ] ||
    { echo "$header.h: expected one error that names C++20, got"; head -n 20 said.txt; exit 1; }
done

"$compiler" -std=c++20 -I"$include" -c "$here/../../examples/consumers/main.cpp" -o main.o
# What a static library needs besides: of a shared one there is nothing behind -lmezzo.
needed=$(sed -n 's/^Libs: .*-lmezzo//p' "$lib/pkgconfig/mezzo.pc")
echo 'int main() {}' >empty.cpp
for linker in bfd gold lld mold; do
  how="-fuse-ld=$linker -lmezzo"
  if ! "$compiler" -fuse-ld=$linker empty.cpp -o empty 2>said.txt || ! ./empty; then
    echo "$how: not tried, as there is no such linker"; continue
  fi
  # shellcheck disable=SC2086 # several words
  "$compiler" -fuse-ld=$linker main.o -L"$lib" -lmezzo $needed -o linked
  same env LD_LIBRARY_PATH="$lib" ./linked
done

how="pkg-config"
if ! command -v pkg-config >said.txt; then echo "$how: not tried, as there is none"; exit 0; fi
export PKG_CONFIG_PATH="$lib/pkgconfig"
[ -e "$(pkg-config --cflags-only-I mezzo | sed 's/^-I//; s/ *$//')/mezzo/mezzo.h" ] ||
  { echo "$how: no headers where $(pkg-config --cflags mezzo) says"; exit 1; }
# shellcheck disable=SC2046 # several words
"$compiler" main.o $(pkg-config --libs mezzo) -o linked
same env -u LD_LIBRARY_PATH ./linked
