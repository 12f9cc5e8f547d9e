#!/bin/sh
# Everything that needs a GPU, in at most nine minutes; stands in a bundle (preset cuda-bundle) as `run`.
# usage: run [FOLDER]   results go to FOLDER, else to $OUT, else to ./mezzo-gpu-results: result.md, and a log per part
# Status 0: no part failed; 1: one did; 2: wrong usage; 3: no usable GPU or no cuBLAS, said in one line.
# CUDA's libraries are looked for in LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda*, ldconfig's list and Python's packages;
# MEZZO_CUDA_ROOTS names folders in place of the last three. MEZZO_GPU_DEVICE=cpu rehearses it all on the CPU.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
device=${MEZZO_GPU_DEVICE:-cuda}
bench_seconds=180 sample_seconds=30
export MEZZO_TEST_DATA="$here/data"
deadline=$(($(date +%s) + 540))
failures=0 failed=

die() { status=$1; shift; printf 'mezzo: %s\n' "$*" >&2; exit "$status"; }
have() { command -v "$1" >/dev/null 2>&1; }
left() { echo $((deadline - $(date +%s))); }

case ${1:-} in -*) die 2 "expected a folder for the results, got '$1'; usage: run [FOLDER]" ;; esac
[ $# -le 1 ] || die 2 "expected one folder for the results, got $#; usage: run [FOLDER]"
out=${1:-${OUT:-$PWD/mezzo-gpu-results}}
{ mkdir -p "$out" && [ -w "$out" ]; } 2>/dev/null || die 2 "cannot write to $out; name another folder: run FOLDER"
out=$(CDPATH='' cd -- "$out" && pwd)

# The folders that CUDA's libraries may be in, a line each.
folders() {
  printf '%s\n' "${LD_LIBRARY_PATH:-}" | tr ':' '\n'
  # shellcheck disable=SC2086 # several
  for root in ${CUDA_HOME:+"$CUDA_HOME"} ${MEZZO_CUDA_ROOTS:-/usr/local/cuda /usr/local/cuda-*}; do
    printf '%s\n' "$root/lib64" "$root/lib" "$root/targets/$(uname -m)-linux/lib"
  done
  [ -z "${MEZZO_CUDA_ROOTS:-}" ] || return
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | sed -n 's#.* => \(.*\)/libcu[bd][^/]*$#\1#p'
  python3 -c 'import glob, nvidia
for place in nvidia.__path__: print(*glob.glob(place + "/*/lib"), sep="\n")' 2>/dev/null
}

# find_library PATTERN: sets found to a file and adds its folder to library_path.
find_library() {
  found=
  while read -r folder; do
    for file in "$folder"/$1; do
      [ -e "$file" ] || continue
      found=$file
      case ":$library_path:" in *":$folder:"*) ;; *) library_path=${library_path:+$library_path:}$folder ;; esac
      return 0
    done
  done <<LIST
$places
LIST
  return 1
}

find_libraries() {
  places=$(folders) library_path=${LD_LIBRARY_PATH:-}
  find_library 'libcublasLt.so.1[2-9]' || [ "$device" = cpu ] ||
    die 3 "no cuBLAS (libcublasLt.so.12 or newer): install the CUDA toolkit, or python3 -m pip install nvidia-cublas"
  libraries="cuBLAS: ${found:-none}"
  find_library 'libcudnn.so.9' || found='none (python3 -m pip install nvidia-cudnn-cu13)'
  libraries="$libraries; cuDNN: $found"
}

# The library's own reason when the device cannot be used.
need_device() {
  [ "$device" = cpu ] && return
  LD_LIBRARY_PATH=$library_path "$here/tests/golden_test" --device "$device" --only none \
    >"$out/device.log" 2>&1
  [ $? != 77 ] || die 3 "no GPU to test on: $(sed -n 's/^golden_test: //p' "$out/device.log" | head -n 1)"
}

say() { printf '%s\n' "$*" | tee -a "$out/result.md"; }

# What a part's log says about itself, in one line.
summary_of() {
  grep -hE '^\[  (PASSED|SKIPPED|FAILED) +\] [0-9]+ test|^golden: |ERROR SUMMARY|goals reached|^left out' "$1" |
    sed 's/^\[ *\([A-Z]*\) *\] \([0-9]*\).*/\2 \1/; s/^=* //' | sort -u | tail -n 4 | paste -sd ';' - | sed 's/;/; /g'
}

# part NAME SECONDS COMMAND...: its output goes to NAME.log; one line tells how it went. Sets result.
part() {
  name=$1 limit=$2 began=$(date +%s)
  shift 2
  [ "$limit" -le "$(left)" ] || limit=$(left)
  if [ "$limit" -lt 5 ]; then
    result='not run' status=0
    : >"$out/$name.log"
  else
    timeout -k 5 "$limit" env ${with_libraries:+LD_LIBRARY_PATH="$library_path"} "$@" >"$out/$name.log" 2>&1 </dev/null
    status=$?
    case $status in 0) result=passed ;; 77) result=skipped ;; 124 | 137) result='out of time' ;; *) result=FAILED ;; esac
  fi
  judge "$name"
  say "| $name | $result | $(($(date +%s) - began)) | $(summary_of "$out/$name.log") |"
}

# What did not end in time has failed, unless it is a memory checker, which is slow and has found nothing so far.
judge() {
  case $1:$result in
    check_*:'out of time') grep -qE '^=+ (Invalid|Race|Barrier|Uninit|Hazard|Error:)' "$out/$1.log" || return ;;
    *:'out of time' | *:FAILED | *:'not run') ;;
    *) return ;;
  esac
  case $1:$result in check_*:'not run') return ;; esac
  failures=$((failures + 1)) failed="$failed $1"
}

run_tests() {
  [ ! -x "$here/tests/test_cuda" ] || part test_cuda 45 "$here/tests/test_cuda"
  part registry_sweep 60 "$here/tests/registry_sweep"
  part "golden_$device" 25 "$here/tests/golden_test" --device "$device"
  part test_amp 20 "$here/tests/test_amp"
  part test_kernels 30 "$here/tests/test_kernels"
  for test in "$here"/tests/*; do
    name=${test##*/}
    case $name in test_cuda | registry_sweep | golden_test | test_amp | test_kernels) ;; *) part "$name" 12 "$test" ;; esac
  done
  [ "$device" = cpu ] || part golden_cpu 10 "$here/tests/golden_test" "$here/data/goldens"
}

# checker NAME SECONDS TOOL PROGRAM [FILTER]: whatever bench and sample do not need is there for the checkers.
checker() {
  spare=$(($(left) - bench_seconds - sample_seconds))
  [ "$spare" -ge "$2" ] || set -- "$1" "$spare" "$3" "$4" "${5:-}"
  part "check_$1" "$2" env MEZZO_CUDA_CACHE=0 "$sanitizer" --tool "$3" --report-api-errors no --error-exitcode 88 \
    "$here/tests/$4" ${5:+--gtest_filter="$5"}
}

run_checkers() {
  [ "$device" != cpu ] || return
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin
  sanitizer=$(command -v compute-sanitizer) ||
    { say "| memory checker | not run | 0 | no compute-sanitizer here; it comes with the CUDA toolkit |"; return; }
  LD_LIBRARY_PATH=$library_path timeout -k 5 20 "$sanitizer" --report-api-errors no --error-exitcode 88 \
    "$here/tests/test_cuda" --gtest_filter='CudaCopy.*' >"$out/check_start.log" 2>&1 </dev/null || {
    reason=$(grep -m 1 -iE 'not supported|error|denied' "$out/check_start.log" || tail -n 1 "$out/check_start.log")
    say "| memory checker | refused | 0 | compute-sanitizer does not start here: $(printf '%s' "$reason" | tr '|' '/') |"
    return
  }
  # Not under a checker: tests that fork, that expect errors of CUDA, or that fill the memory.
  kernels='-CudaUnavailable.*:CudaCheck.*:CudaOutOfMemory.*:*Death*'
  checker memcheck 60 memcheck test_cuda "$kernels"
  checker memcheck_sweep 120 memcheck registry_sweep
  checker racecheck 30 racecheck test_cuda "$kernels"
  checker synccheck 30 synccheck test_cuda "$kernels"
  checker initcheck 30 initcheck test_cuda "$kernels"
}

run_sample() {
  set -- "$here/examples/mlp_timing" --device "$device" --json "$out/sample.json"
  [ "$device" != cpu ] || set -- "$@" --num-batches 2
  part sample "$sample_seconds" "$@"
}

run_bench() {
  have python3 || { say "| bench | not run | 0 | needs python3 |"; return; }
  set -- python3 "$here/bench/run.py" --build "$here" --json "$out/bench.json" --library-path "$library_path" \
    --device "$device" --limit $((bench_seconds - 40))
  [ "$device" != cpu ] || set -- "$@" --gpu-list --pairs 1 --only batch_512
  with_libraries='' part bench "$bench_seconds" "$@"
}

# quote NAME TITLE: the end of a log.
quote() {
  [ -s "$out/$1.log" ] || return
  { printf '\n%s:\n\n```\n' "$2"; tr -d '\r' <"$out/$1.log" | tail -n 200; printf '```\n'; } >>"$out/result.md"
}

find_libraries
need_device
gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
: >"$out/result.md"
say "# $(date -u +%Y-%m-%d), commit $(cat "$here/COMMIT"): ${gpu:-no name known}"
say ""
say "${cpu:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores, $(uname -sr). GPU (name, driver, memory): ${gpu:-unknown}. $libraries."
say ""
say "| part | result | seconds | |"
say "| --- | --- | --- | --- |"
cd "$out" || exit 2
with_libraries=yes
run_tests
run_checkers
run_sample
run_bench
say ""
say "$failures part(s) failed; $((540 - $(left))) seconds."
quote sample "The timing sample"
quote bench "\`bench/run.py --device $device\`"
for name in $failed; do
  case $name in sample | bench) ;; *) quote "$name" "The end of $name.log" ;; esac
done
printf 'results: %s\n' "$out/result.md"
[ "$failures" = 0 ]
