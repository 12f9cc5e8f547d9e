#!/bin/sh
# Checks that nvcc fuses no multiply and add in kernels whose results the CPU gives to the bit, or whose forward and
# backward have to agree: resampling, poolings, random numbers. cmake/Flags.cmake tells it so. In PTX a fused one is an
# instruction, while divisions and roots are one of their own.
# usage: check_fma.sh NVCC COMPILE_COMMANDS   compiles their sources to PTX, with the flags of the build
#        check_fma.sh FILE.ptx
#        status 1 when one is found or a kernel is missing, 77 (skipped) without nvcc
set -eu
LC_ALL=C
export LC_ALL
sources='kernels/resample/cuda_interpolate.cu kernels/resample/cuda_grid_sample.cu kernels/pool/cuda_pool.cu
ops/factory/random.cu'
# A name and where its template arguments begin. Three in f64 only: in f32 they call fmod, which is exact and made of fma.
kernels='resample:I gather_gradient:I sample_places:Id grid_gradients:Id list_corners:Id sum_corners:I
largest_of_windows:I gradient_of_largest:I mean_of_windows:I gradient_of_mean:I generate:I'
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The command of the first CUDA source in the list, as the shell reads it.
command_of() { sed -n '/\.cu\.o/s/^ *"command": "\(.*\)",*$/\1/p' "$1" | head -n 1 | sed 's/\\\(["\\]\)/\1/g'; }

# to_ptx COMMAND...: all sources with its flags, for one architecture. --Ofast-compile, which keeps a build short, leaves
# out the pass that fuses.
to_ptx() {
  while [ "$1" != "$nvcc" ]; do shift; done
  shift
  number=$#
  while [ "$number" -gt 0 ]; do
    word=$1
    shift
    number=$((number - 1))
    case $word in
      -x | -o | -MT | -MF) shift; number=$((number - 1)) ;;
      -c | -MD | --generate-code=* | --Ofast-compile=* | *.cu) ;;
      *) set -- "$@" "$word" ;;
    esac
  done
  for source in $sources; do
    "$nvcc" "$@" -arch=compute_90 -x cu -ptx "$root/$source" -o "$work/one.ptx"
    cat "$work/one.ptx" >>"$work/ptx"
  done
}

case $1 in
  *.ptx) cp "$1" "$work/ptx" ;;
  *)
    nvcc=$1
    command -v "$nvcc" >/dev/null 2>&1 || { echo "check_fma: skipped, no nvcc here"; exit 77; }
    command=$(command_of "$2")
    [ -n "$command" ] || { echo "check_fma: no command for a .cu source in $2" >&2; exit 1; }
    eval "to_ptx $command"
    ;;
esac

# A kernel's name follows its length in the mangled one: 8resample.
awk -v kernels="$kernels" '
  BEGIN {
    count = split(kernels, given)
    for (i = 1; i <= count; ++i) {
      split(given[i], part, ":")
      names[i] = part[1]
      mangled[i] = length(part[1]) part[1] part[2]
    }
  }
  /\.entry / {
    entry = $0
    sub(/.*\.entry /, "", entry)
    sub(/\(.*/, "", entry)
    ours = 0
    for (i = 1; i <= count; ++i)
      if (index(entry, mangled[i])) {
        ours = 1
        ++seen[names[i]]
      }
  }
  ours && /[ \t]fma\.rn\.f(32|64)/ { print "a fused multiply-add in " entry; ours = 0 }
  END { for (i = 1; i <= count; ++i) if (!seen[names[i]]) print "no kernel of this name: " names[i] }' \
  "$work/ptx" >"$work/problems"

if [ -s "$work/problems" ]; then
  if command -v c++filt >/dev/null 2>&1; then c++filt <"$work/problems"; else cat "$work/problems"; fi
  echo "check_fma: $(wc -l <"$work/problems") problem(s)"
  exit 1
fi
echo "check_fma: $(grep -c '\.entry ' "$work/ptx") kernels fuse nothing"
