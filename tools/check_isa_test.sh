#!/bin/sh
# Proves that check_isa.sh can fail: an inline function that a wide object leaves to the linker, and AVX code in a
# function of the library without the name for it, are both found; the same with names of their own is not.
# usage: check_isa_test.sh COMPILER       (status 77 without nm or objdump)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
flags="-std=c++20 -O2 -fPIC -fno-inline"
cat >shared.h <<'TEXT'
namespace NAME { inline void twice(float* x) { for (int i = 0; i < 64; ++i) x[i] += x[i]; } }
TEXT
printf '#define NAME Plain\n#include "shared.h"\nvoid base(float* x) { Plain::twice(x); }\n' >base.cpp
printf '#include "shared.h"\nvoid wide(float* x) { NAME::twice(x); }\n' >wide.cpp
"$1" $flags -c base.cpp
"$1" $flags -O3 -march=x86-64-v3 -DNAME=Plain -c wide.cpp -o trap.o
"$1" $flags -O3 -march=x86-64-v3 -DNAME=Plain_v3 -c wide.cpp -o sound.o
"$1" -shared -o sound.so base.o sound.o
"$1" -shared -o trap.so trap.o base.o

status=0
sh "$here/check_isa.sh" sound.so base base.o wide sound.o >sound.txt || status=$?
if [ "$status" = 77 ]; then cat sound.txt; exit 77; fi
[ "$status" = 0 ] || { echo "a sound library is refused:"; cat sound.txt; exit 1; }
if sh "$here/check_isa.sh" trap.so base base.o wide trap.o >trap.txt; then echo "the trap is accepted:"; cat trap.txt; exit 1; fi
grep -q '^weak in a wide object: .*twice' trap.txt || { echo "the weak symbol is not found:"; cat trap.txt; exit 1; }
grep -q '^AVX in a baseline function: .*twice' trap.txt || { echo "the code is not found:"; cat trap.txt; exit 1; }
echo "check_isa finds both"
