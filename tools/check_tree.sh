#!/bin/sh
# Checks the shape of the source tree: who includes whom (the layer table; no cycles), how long files and functions are,
# how full folders are, and that files begin by saying what they hold. Prints the median, 90th percentile and maximum file
# length. The checks themselves stand in check_tree.awk (file by file) and check_units.awk (the tree).
# usage: check_tree.sh [ROOT]                status 1 when something is wrong
#        check_tree.sh --functions [ROOT]    every function it sees with its length, longest last
set -eu
LC_ALL=C
export LC_ALL
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
list_functions=no
if [ "${1:-}" = --functions ]; then list_functions=yes; shift; fi
cd "${1:-$here/..}"

files=$(find . \( -name '.?*' -o -name 'build' -o -name 'build-*' \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print | sort)
[ -n "$files" ] || { echo "check_tree: no source files in $(pwd)" >&2; exit 1; }

# No file name in the tree holds a space or a backslash, so the list needs no quoting.
# shellcheck disable=SC2086
found=$(awk -f "$here/check_tree.awk" $files) || { echo "check_tree: awk failed" >&2; exit 1; }

functions=$(printf '%s\n' "$found" | sed -n 's/^FUNCTION //p' | sort -n)
if [ "$list_functions" = yes ]; then printf '%s\n' "$functions"; exit 0; fi

printf '%s\n' "$found" | sed -n 's/^LINES //p' | sort -n | awk '
  { count[NR] = $1; name = $2 }
  END {
    printf "%d files, lines: median %d, p90 %d, max %d (%s)\n",
      NR, count[int((NR + 1) / 2)], count[int((NR * 9 + 9) / 10)], count[NR], name
  }'
printf '%s\n' "$functions" | sed -n '$s/^\([0-9]*\) \([^ ]*\) \(.*\)/longest function \1 lines: \3 (\2)/p'
# shellcheck disable=SC2086
units=$(awk -f "$here/check_units.awk" $files) || { echo "check_tree: awk failed" >&2; exit 1; }
problems=$(printf '%s\n%s\n' "$found" "$units" | sed -e '/^LINES /d' -e '/^FUNCTION /d' -e '/^$/d')
[ -z "$problems" ] || { printf '%s\n' "$problems"; echo "check_tree: $(printf '%s\n' "$problems" | wc -l) problem(s)"; exit 1; }
