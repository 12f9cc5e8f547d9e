#!/bin/sh
# Proves that compile_once.sh can refuse: commands with one flag of the other project each, and one whose object is not
# there. A command that is proof against them gets the object, and one for a listed source is run.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
objects=CMakeFiles/mezzo_objects.dir
mkdir -p "made/$objects/ops/shape" "$objects/ops/shape"
echo made >"made/$objects/ops/shape/view.cpp.o"
rtti="-fno-rtti -frtti"
good="-ffast-math -w -fno-fast-math $rtti -O2 -fvisibility=default -std=c++20"

# launch OBJECT FLAGS: the compiler here only says that it was called.
# shellcheck disable=SC2086 # the flags are words
launch() { sh "$here/compile_once.sh" "$tree/made" echo called $2 -MF view.d -o "$1" 2>&1; }
# refused WORDS OBJECT FLAGS
refused() {
  if said=$(launch "$2" "$3"); then echo "accepted: $2 $3"; exit 1; fi
  case $said in *"$1"*) ;; *) echo "expected '$1', got '$said'"; exit 1 ;; esac
}
object=$objects/ops/shape/view.cpp.o
refused "lacks -fno-fast-math" "$object" "-w -ffast-math -std=c++20"
refused "ends with the project's -ffast-math" "$object" "$good -ffast-math"
refused "has the project's warnings" "$object" "-ffast-math -fno-fast-math $rtti -O3 -std=c++20"
refused "has the project's -fno-rtti" "$object" "-w -ffast-math -fno-fast-math -fno-rtti -O3 -std=c++20"
refused "has the project's -flto" "$object" "$good -flto=auto"
refused "is optimised by ''" "$object" "-w -ffast-math -fno-fast-math $rtti -std=c++20"
refused "is optimised by '-O0'" "$object" "$good -O0"
refused "is optimised by '-O2'" "CMakeFiles/mezzo_loops.dir/kernels/view.cpp.o" "$good"
refused "hides symbols" "$object" "$good -fvisibility=hidden"
refused "lacks -std=c++20" "$object" "-ffast-math -fno-fast-math $rtti -O2 -w -std=c++17"
refused "joins sources" "$objects/Unity/unity_0_cxx.cxx.o" "$good"
refused "does not have" "$objects/ops/absent.cpp.o" "$good"
[ ! -e "$object" ] || { echo "a refused command has made $object"; exit 1; }

launch "$object" "$good" >said.txt || { cat said.txt; exit 1; }
[ "$(cat "$object")" = made ] && [ ! -s said.txt ] || { echo "the object was not taken"; cat said.txt; exit 1; }
grep -qxF "$object: $tree/made/$object" view.d || { echo "wrong dependencies:"; cat view.d; exit 1; }
for own in "$objects/ops/linalg/matmul.cpp.o" CMakeFiles/consumer.dir/main.cpp.o; do
  case $(launch "$own" "$good") in called*) ;; *) echo "not compiled: $own"; exit 1 ;; esac
done
echo "compile_once.sh refuses what it should"
