#!/bin/sh
# Checks that the loops of pointwise ops over floats use vectors where the processor has AVX-512. A compiler that is given
# other optimisation than it should (say, by a precompiled header) leaves them scalar: no result changes, only the time.
# usage: check_vectors.sh LIBRARY      status 1 when a loop is scalar, 77 (skipped) without objdump or c++filt
set -eu
LC_ALL=C
export LC_ALL
# These g++ 12 does not vectorise: divisions that round, losses that ask an option for each element, and series that end
# where the argument says. Ops on bits have no loops over floats that are ever run.
scalar="DivFloorFn RemainderFn FmodFn ClampTensorFn KlDivFn KlDivSlopeFn PoissonNllFn PoissonNllSlopeFn
  LgammaFn DigammaFn PolygammaFn BitAndFn BitOrFn BitXorFn"
for tool in objdump c++filt; do
  command -v "$tool" >/dev/null 2>&1 || { echo "check_vectors: skipped, no $tool here"; exit 77; }
done
objdump -d --no-show-raw-insn "$1" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); inside = name ~ /run_v4.*PointwiseTile/; if (inside) packed[name] += 0 }
  inside && /%[yz]mm/ { packed[name]++ }
  END { for (name in packed) print packed[name], name }' | c++filt | awk -v scalar="$scalar" '
  BEGIN { count = split(scalar, names, " ") }
  !/PointwiseTile<.*, float, float, / { next }
  { loops++ }
  $1 > 0 { next }
  { for (i = 1; i <= count; ++i) if (index($0, names[i])) next }
  { match($0, /PointwiseTile<.*, float, float, /); print "not vectorised: " substr($0, RSTART, RLENGTH - 2) ">"; problems++ }
  END {
    printf "check_vectors: %d loops over floats, %d problem(s)\n", loops, problems
    exit loops == 0 || problems > 0
  }'
