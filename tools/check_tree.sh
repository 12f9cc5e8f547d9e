#!/bin/sh
# Checks the shape of the source tree: who includes whom (the layer table; no cycles), how long files and functions are,
# how full folders are, whether headers and sources belong together by name, and that files begin by saying what they
# hold. Prints the median, 90th percentile and maximum file length. The checks themselves stand in check_tree.awk (file
# by file) and check_units.awk (the tree); functions are measured by Universal Ctags, where it is installed.
# usage: check_tree.sh [ROOT]                status 1 when something is wrong
set -eu
LC_ALL=C
export LC_ALL
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "${1:-$here/..}"
max_function=60

files=$(find . \( -name '.?*' -o -name 'build' -o -name 'build-*' \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print | sort)
[ -n "$files" ] || { echo "check_tree: no source files in $(pwd)" >&2; exit 1; }

# No file name in the tree holds a space or a backslash, so the list needs no quoting.
# shellcheck disable=SC2086
found=$(awk -f "$here/check_tree.awk" $files) || { echo "check_tree: awk failed" >&2; exit 1; }
# shellcheck disable=SC2086
units=$(awk -f "$here/check_units.awk" $files) || { echo "check_tree: awk failed" >&2; exit 1; }

printf '%s\n' "$found" | sed -n 's/^LINES //p' | sort -n | awk '
  { count[NR] = $1; name = $2 }
  END {
    printf "%d files, lines: median %d, p90 %d, max %d (%s)\n",
      NR, count[int((NR + 1) / 2)], count[int((NR * 9 + 9) / 10)], count[NR], name
  }'

functions=
if ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
  # shellcheck disable=SC2086
  functions=$(ctags --options=NONE -x --languages=C++ --map-C++=+.cu --map-C++=+.cuh --kinds-C++=f --fields=+ne \
    --_xformat='%{end} %n %F %N' $files 2>/dev/null | awk '{ print $1 - $2 + 1, $3 ":" $2, $4 }' | sort -n)
  [ -n "$functions" ] || { echo "check_tree: ctags found no function" >&2; exit 1; }
  printf '%s\n' "$functions" | awk 'END { sub(/^\.\//, "", $2); printf "longest function: %d lines (%s %s)\n", $1, $2, $3 }'
else
  echo "function lengths are not checked: no Universal Ctags (package universal-ctags)"
fi
long=$(printf '%s\n' "$functions" | awk -v most=$max_function '
  $1 > most { sub(/^\.\//, "", $2); printf "%s: function %s has %d lines, more than %d\n", $2, $3, $1, most }')

problems=$(printf '%s\n%s\n%s\n' "$found" "$units" "$long" | sed -e '/^LINES /d' -e '/^$/d')
[ -z "$problems" ] || { printf '%s\n' "$problems"; echo "check_tree: $(printf '%s\n' "$problems" | wc -l) problem(s)"; exit 1; }
