#!/bin/sh
# Names what cmake/SampleSources.cmake lists and the timing sample does not need: the sample is linked once more with
# those objects as an archive, from which a linker takes only what is asked for. Sources that are compiled as one
# (MEZZO_JOIN_SOURCES) are needed when one of them is.
# usage: check_sample_sources.sh COMPILER PROGRAM_OBJECTS... -- LIBRARY_OBJECTS...    status 1 when one is not needed
set -eu
LC_ALL=C
export LC_ALL
compiler=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/program"
while [ "$1" != -- ]; do printf '%s\n' "$1" >>"$work/program"; shift; done
shift
for object in "$@"; do case $object in *.o) printf '%s\n' "$object" ;; esac; done | sort >"$work/listed"
# A thin archive, so that the linker's trace has the whole path of each member.
tr '\n' '\0' <"$work/listed" | xargs -0 ar qcT "$work/sample.a"
# shellcheck disable=SC2046 # one object a line, and the build folder's name is not part of the lines
(IFS='
'; $compiler -Wl,--unresolved-symbols=ignore-all -Wl,--trace -o "$work/linked" $(cat "$work/program") "$work/sample.a") >"$work/trace"
while read -r object; do
  grep -qF "$object" "$work/trace" || printf 'not needed by the timing sample: %s\n' "$object"
done <"$work/listed" >"$work/problems"
cat "$work/problems"
printf '%s objects, %s not needed\n' "$(wc -l <"$work/listed")" "$(wc -l <"$work/problems")"
[ ! -s "$work/problems" ]
