#!/bin/sh
# Proves that check_vectors.sh can fail: a loop that is vectorised is accepted, the same one without optimisation of loops is
# named, and so is a library without any.
# usage: check_vectors_test.sh COMPILER       (status 77 without objdump or c++filt)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >loop.cpp <<'TEXT'
template <class Fn, class To, class From, unsigned long kInputs> struct PointwiseTile {};
struct TwiceFn {};
template <class Tile> __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))) void run_v4(float* to, const float* from, long n) {
  for (long i = 0; i < n; ++i) to[i] = from[i] + from[i];
}
template void run_v4<PointwiseTile<TwiceFn, float, float, 1>>(float*, const float*, long);
TEXT
printf 'int nothing() { return 0; }\n' >none.cpp
"$1" -O3 -c loop.cpp -o vector.o
"$1" -O1 -c loop.cpp -o scalar.o
"$1" -O3 -c none.cpp -o none.o

status=0
sh "$here/check_vectors.sh" vector.o >vector.txt || status=$?
if [ "$status" = 77 ]; then cat vector.txt; exit 77; fi
[ "$status" = 0 ] || { echo "a vectorised loop is refused:"; cat vector.txt; exit 1; }
if sh "$here/check_vectors.sh" scalar.o >scalar.txt; then echo "a scalar loop is accepted:"; cat scalar.txt; exit 1; fi
grep -q '^not vectorised: PointwiseTile<TwiceFn, float, float>' scalar.txt || { cat scalar.txt; exit 1; }
if sh "$here/check_vectors.sh" none.o >none.txt; then echo "a library without loops is accepted"; exit 1; fi
echo "check_vectors finds a scalar loop"
