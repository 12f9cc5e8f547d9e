#!/bin/sh
# Proves that cmake/ccache.sh leaves a precompiled header either with its own checksum or with none, so that ccache takes no
# object that was compiled with another one.
set -eu
launcher=$(CDPATH='' cd -- "$(dirname -- "$0")/../cmake" && pwd)/ccache.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "cmake/ccache.sh: $*"; exit 1; }

# The place of ccache and compiler: writes $CONTENT to what follows -o and ends with $STATUS.
cat >compiler <<'TEXT'
while [ "$1" != -o ]; do shift; done
printf '%s' "$CONTENT" >"$2"
exit "$STATUS"
TEXT
compile() {  # compile CONTENT STATUS ARGUMENT...
  CONTENT=$1 STATUS=$2
  export CONTENT STATUS
  shift 2
  sh "$launcher" sh ./compiler "$@" || return $?
}
header() { compile "$1" "$2" -O2 -x c++-header -include "a header.hxx" -o "a header.gch" -c source.cxx; }

header first 0 || fail "a header that compiles is refused"
[ "$(cat 'a header.gch.sum')" = "$(printf first | sha256sum)" ] || fail "no checksum of the first header"
header second 0
[ "$(cat 'a header.gch.sum')" = "$(printf second | sha256sum)" ] || fail "the first header's checksum beside the second"
status=0
header third 3 || status=$?
[ "$status" = 3 ] || fail "status $status of a compiler that ended with 3"
[ ! -e 'a header.gch.sum' ] || fail "a checksum beside a header that did not compile"
compile object 0 -O2 -include "a header.hxx" -o object.o -c source.cpp
[ ! -e object.o.sum ] || fail "a checksum beside an object"
echo "precompiled headers have their own checksums"
