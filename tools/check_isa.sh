#!/bin/sh
# Checks that no code for a newer instruction set can run on a baseline processor. A linker keeps one copy of a weak
# function (inline, template): were it the copy of an object compiled with -march, everybody would run that one.
#   1. The wide objects define no weak function, outside of what is named after its instruction set, that a baseline
#      object defines or uses.
#   2. In the library, only functions named after an instruction set (..._v3, ..._v4: the wrappers of multiversion.h,
#      intrinsics, the renamed Eigen) and what the wide objects keep to themselves hold AVX instructions.
# usage: check_isa.sh LIBRARY base OBJECT... wide OBJECT...
#        status 1 when something is wrong, 77 (skipped) without nm or objdump
set -eu
LC_ALL=C
export LC_ALL
for tool in nm objdump; do
  command -v "$tool" >/dev/null 2>&1 || { echo "check_isa: skipped, no $tool here"; exit 77; }
done
library=$1; shift
[ "$1" = base ] || { echo "check_isa: expected base, got $1" >&2; exit 2; }
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "type name" of every symbol of the objects on each side; undefined ones have type U.
side=base
for word in "$@"; do
  if [ "$word" = wide ]; then side=wide; continue; fi
  nm -P "$word" | awk '{ print $2, $1 }' >>"$work/$side"
done
[ -s "$work/base" ] && [ -s "$work/wide" ] || { echo "check_isa: no symbols on one side" >&2; exit 1; }

awk 'NR == FNR { base[$2]; next }
     $1 == "W" && $2 !~ /_v[34]/ && ($2 in base) && !seen[$2]++ { print "weak in a wide object: " $2 }' \
  "$work/base" "$work/wide" >"$work/problems"

awk '$1 ~ /^[tT]$/ { print $2 }' "$work/wide" >"$work/own"
objdump -d --no-show-raw-insn "$library" | awk -v own="$work/own" '
  BEGIN { while ((getline name < own) > 0) mine[name] }
  /^[0-9a-f]+ <.*>:$/ {
    name = substr($2, 2, length($2) - 3)
    allowed = name ~ /_v[34]/ || (name in mine)
    functions++
    next
  }
  !allowed && (/\tv[a-z]/ || /%[yz]mm/) { print "AVX in a baseline function: " name; allowed = 1 }
  END { if (functions == 0) print "no functions in the library" }' >>"$work/problems"

if [ -s "$work/problems" ]; then
  if command -v c++filt >/dev/null 2>&1; then c++filt <"$work/problems"; else cat "$work/problems"; fi
  echo "check_isa: $(wc -l <"$work/problems") problem(s)"
  exit 1
fi
echo "check_isa: $(wc -l <"$work/wide") symbols of wide objects and the code of the library are sound"
