#!/bin/sh
# Proves that check_fma.sh can fail: a kernel of one of its names in which a multiply and an add are fused is found, and
# one that is missing; the same compiled with -fmad=false is accepted.
# usage: check_fma_test.sh NVCC       (status 77 without it)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v "$1" >/dev/null 2>&1 || { echo "check_fma_test: skipped, no nvcc here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for name in resample gather_gradient sample_places grid_gradients list_corners sum_corners largest_of_windows \
  gradient_of_largest mean_of_windows gradient_of_mean generate; do
  printf 'template <class T> __global__ void %s(T* x, T a, T b) { x[threadIdx.x] = a * x[threadIdx.x] + b; }\n' "$name"
  printf 'template __global__ void %s<double>(double*, double, double);\n' "$name"
done >kernels.cu
# What others fuse is their own affair.
printf '__global__ void other(float* x) { x[0] = __fmaf_rn(x[1], x[2], x[3]) / x[4]; }\n' >>kernels.cu
sed '/sum_corners/d' kernels.cu >fewer.cu
"$1" -fmad=false -ptx kernels.cu -o separate.ptx
"$1" -ptx kernels.cu -o fused.ptx
"$1" -fmad=false -ptx fewer.cu -o fewer.ptx

sh "$here/check_fma.sh" separate.ptx >out.txt || { echo "separate roundings are refused:"; cat out.txt; exit 1; }
if sh "$here/check_fma.sh" fused.ptx >out.txt; then echo "fused ones are accepted:"; cat out.txt; exit 1; fi
[ "$(grep -c '^a fused multiply-add in ' out.txt)" = 11 ] || { echo "not all are found:"; cat out.txt; exit 1; }
if sh "$here/check_fma.sh" fewer.ptx >out.txt; then echo "a missing kernel is accepted:"; cat out.txt; exit 1; fi
grep -q '^no kernel of this name: sum_corners' out.txt || { echo "the missing one is not named:"; cat out.txt; exit 1; }
echo "check_fma finds both"
