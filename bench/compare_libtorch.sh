#!/bin/sh
# Compares mezzo's training steps with LibTorch's (Debian's libtorch-dev with libopenblas0-pthread) on this machine: pairs of runs in turn, the ratio of their median steps,
# and over the pairs its median, 10th and 90th percentile. Needs ./mezzo.sh demo to have built the sample.
# usage: bench/compare_libtorch.sh [PAIRS]        (default 20)
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
pairs=${1:-20}
sample=$root/build/release/examples/mlp_timing
peer=$root/build/bench/libtorch_mlp
[ -x "$sample" ] || { echo "compare_libtorch: expected $sample, got nothing; run ./mezzo.sh demo first" >&2; exit 1; }
if [ ! -x "$peer" ]; then
  mkdir -p "$root/build/bench"
  g++ -O2 -std=c++17 -w "$root/bench/libtorch_mlp.cpp" -o "$peer" -I/usr/include/torch/csrc/api/include -ltorch -ltorch_cpu -lc10 ||
    { echo "compare_libtorch: expected Debian's LibTorch; apt-get install libtorch-dev" >&2; exit 1; }
fi
ldd "$peer" | grep -q openblas ||
  { echo "compare_libtorch: expected LibTorch on OpenBLAS, got the reference BLAS; apt-get install libopenblas0-pthread" >&2; exit 1; }
# Debian's OpenBLAS takes new processors for a Prescott unless told.
if grep -q avx512f /proc/cpuinfo; then core=SkylakeX; elif grep -q avx2 /proc/cpuinfo; then core=Haswell; else core=; fi
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$core}

compare() {  # compare LABEL WIDTH BATCH NUM_BATCHES EPOCHS: one line per mode
  label=$1 width=$2 batch=$3 batches=$4 epochs=$5
  log=$(mktemp)
  i=0
  while [ "$i" -lt "$pairs" ]; do
    "$sample" --in-size "$width" --out-size "$width" --layers 3 --batch-size "$batch" --num-batches "$batches" \
      --epochs "$epochs" --json "$log.json" >/dev/null
    mezzo=$(tr -d '\n' <"$log.json" | grep -o '"median": *[0-9.e+-]*' | sed 's/.*: *//' | tr '\n' ' ')
    torch_ms=$("$peer" "$width" 3 "$batch" "$batches" "$epochs")
    echo "$torch_ms $mezzo" >>"$log"
    i=$((i + 1))
  done
  awk -v label="$label" '
    function sorted(values, n,   i, j, t) {
      for (i = 2; i <= n; i++) { t = values[i]; for (j = i - 1; j > 0 && values[j] > t; j--) values[j + 1] = values[j]; values[j + 1] = t }
    }
    function at(values, n, q) { return values[int(1 + q * (n - 1) + 0.5)] }
    function line(name, values, n, ms) {
      sorted(values, n)
      printf "%-14s %-34s %9.3f  ratio %5.3f  (p10 %5.3f, p90 %5.3f, %d pairs)\n", label, name, ms, at(values, n, .5), at(values, n, .1), at(values, n, .9), n
    }
    { t[NR] = $1; f[NR] = 1e3 * $2; a[NR] = $3 / $2; b[NR] = $4 / $2; c[NR] = $5 / $2; d[NR] = $6 / $2; r[NR] = 1e3 * $2 / $1 }
    END {
      n = NR; sorted(t, n)
      printf "%-14s %-34s %9.3f ms\n", label, "LibTorch f32 step", at(t, n, .5)
      sorted(f, n)
      line("mezzo f32 / LibTorch f32", r, n, at(f, n, .5))
      line("mezzo f16 / mezzo f32", a, n, at(f, n, .5)); line("mezzo f16 + scaler / mezzo f32", b, n, at(f, n, .5))
      line("mezzo bf16 / mezzo f32", c, n, at(f, n, .5)); line("mezzo bf16 + scaler / mezzo f32", d, n, at(f, n, .5))
    }' "$log"
  rm -f "$log" "$log.json"
}

grep -m 1 'model name' /proc/cpuinfo; nproc
compare "128 x 512" 512 128 50 3
compare "512 x 1024" 1024 512 10 2
