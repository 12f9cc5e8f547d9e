#!/bin/sh
# A compiler without C++20 is refused when configuring, in one line with the cure.
# usage: old_compiler.sh [cmake options...]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
while read -r id name version oldest; do
  printf 'set(CMAKE_CXX_COMPILER_ID %s)\nset(CMAKE_CXX_COMPILER_VERSION %s)\n' "$id" "$version" >"$work/old.cmake"
  if cmake -S "$here/../.." -B "$work/build" "-DCMAKE_PROJECT_mezzo_INCLUDE=$work/old.cmake" "$@" >"$work/said.txt" 2>&1; then
    echo "$name $version is accepted"; exit 1
  fi
  tr -s '\n ' ' ' <"$work/said.txt" | grep -qF "mezzo: $name $version lacks C++20; name $name $oldest or newer with" ||
    { echo "does not say that $name $version is too old:"; cat "$work/said.txt"; exit 1; }
done <<'LIST'
GNU g++ 10.2.1 11
Clang clang 12.0.1 13
LIST
