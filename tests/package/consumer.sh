#!/bin/sh
# Configures, builds and runs one consumer of examples/consumers as a stranger would, and compares the number of ops it
# sees with the number that a program of mezzo's own build sees.
# usage: consumer.sh KIND BUILD REFERENCE [cmake options...]
#   KIND: a folder of examples/consumers; BUILD: made anew; REFERENCE: the same program from mezzo's own build
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
kind=$1 build=$2 reference=$3
shift 3

rm -rf "$build"
cmake -S "$here/../../examples/consumers/$kind" -B "$build" \
  -DCMAKE_PROJECT_consumer_INCLUDE="$here/strict_project.cmake" "$@"
cmake --build "$build"
"$build/consumer" >"$build/found.txt" || { cat "$build/found.txt"; echo "the consumer failed"; exit 1; }
"$reference" >"$build/expected.txt"
cat "$build/found.txt"
# The losses may differ in the last digit (other flags, another compiler); what counts is that the ops are there.
ops() { sed -n 's/^ops //p' "$1"; }
expected=$(ops "$build/expected.txt")
[ "${expected:-0}" -gt 1 ] || { echo "the reference names no ops"; exit 1; }
[ "$(ops "$build/found.txt")" = "$expected" ] || { echo "ops of mezzo's own build: $expected"; exit 1; }
