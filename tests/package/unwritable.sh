#!/bin/sh
# `cmake --install` to a place that cannot be written to says so in one line with the cure, and installs nothing.
# usage: unwritable.sh BUILD_DIR
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
: >"$place/file"  # below a file not even root can write
if cmake --install "$1" --prefix "$place/file/mezzo" >"$place/out.txt" 2>&1; then
  echo "an installation below a file succeeds:"; cat "$place/out.txt"; exit 1
fi
line="mezzo: cannot write to $place/file/mezzo; choose a folder of yours with --prefix DIR, or run this with sudo"
grep -qF "$line" "$place/out.txt" || { echo "does not say: $line"; cat "$place/out.txt"; exit 1; }
if grep -q 'Installing' "$place/out.txt"; then echo "it began to install:"; cat "$place/out.txt"; exit 1; fi
