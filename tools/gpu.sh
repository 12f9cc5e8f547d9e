#!/bin/sh
# Everything that needs a GPU, in three calls of at most nine minutes each; stands in a bundle (preset cuda-bundle) as `run`.
# usage: run [a|b|c|all] [FOLDER [RESULT]]
#   a    what is there (libraries, driver, versions), device tests, goldens, sweep, sample, the seed's training step beside
#        PyTorch in 5 pairs, memcheck with the time that is left
#   b    tests that failed in a (RESULT is its result.md) again under MEZZO_CUDA_SYNC=1; bench of kernels, norms, optimizers,
#        ops and conv, 50 s each; Nsight Compute on the five kernels that take most of the seed's step
#   c    after mending: racecheck, initcheck, synccheck, the sample, the training bench in 20 pairs
#   all  the three, one after the other, in folders of FOLDER (what is done unless a call is named)
# Each leaves result.md and logs.tar.gz, which is below 16 MiB, in FOLDER, else in $OUT, else in ./mezzo-gpu-results.
# Status 0: no part failed; 1: one did; 2: wrong usage; 3: no usable GPU or no cuBLAS, said in one line.
# CUDA's libraries are looked for in LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda*, ldconfig's list and Python's packages;
# MEZZO_CUDA_ROOTS names folders in place of the last three. MEZZO_GPU_DEVICE=cpu rehearses it all on the CPU.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
device=${MEZZO_GPU_DEVICE:-cuda}
usage='usage: run [a|b|c|all] [FOLDER [RESULT]]'
export MEZZO_TEST_DATA="$here/data"
deadline=$(($(date +%s) + 540))
most_bytes=$((16 * 1024 * 1024))
failures=0 failed=

die() { status=$1; shift; printf 'mezzo: %s\n' "$*" >&2; exit "$status"; }
have() { command -v "$1" >/dev/null 2>&1; }
left() { echo $((deadline - $(date +%s))); }

call=all
case ${1:-} in
  a | b | c | all) call=$1; shift ;;
  -*) die 2 "expected a, b, c, all or a folder for the results, got '$1'; $usage" ;;
esac
[ $# -le 2 ] || die 2 "expected a folder for the results and a result of call a, got $# arguments; $usage"
out=${1:-${OUT:-$PWD/mezzo-gpu-results}} before=${2:-}
[ -z "$before" ] || [ -r "$before" ] || die 2 "cannot read $before; name the result.md of call a"
[ -z "$before" ] || before=$(CDPATH='' cd -- "$(dirname -- "$before")" && pwd)/${before##*/}
{ mkdir -p "$out" && [ -w "$out" ]; } 2>/dev/null || die 2 "cannot write to $out; name another folder: run $call FOLDER"
out=$(CDPATH='' cd -- "$out" && pwd)

# The three calls as they are run one by one, and one result.
if [ "$call" = all ]; then
  : >"$out/result.md"
  worst=0
  for call in a b c; do
    status=0
    "$here/run" "$call" "$out/$call" "$([ "$call" != b ] || printf '%s' "$out/a/result.md")" || status=$?
    [ "$status" -le 1 ] || exit "$status"
    [ "$status" -le "$worst" ] || worst=$status
    cat "$out/$call/result.md" >>"$out/result.md"
    echo >>"$out/result.md"
  done
  exit "$worst"
fi
logs=$out/logs
mkdir -p "$logs"

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
  found_blas=$found
  find_library 'libcudnn.so.9' || :
  found_dnn=$found
  libraries="cuBLAS: ${found_blas:-none}; cuDNN: ${found_dnn:-none (python3 -m pip install nvidia-cudnn-cu13)}"
}

# The library's own reason when the device cannot be used.
need_device() {
  [ "$device" = cpu ] && return
  LD_LIBRARY_PATH=$library_path "$here/tests/golden_test" --device "$device" --only none \
    >"$logs/device.log" 2>&1
  [ $? != 77 ] || die 3 "no GPU to test on: $(sed -n 's/^golden_test: //p' "$logs/device.log" | head -n 1)"
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
    : >"$logs/$name.log"
  else
    timeout -k 5 "$limit" env ${with_libraries:+LD_LIBRARY_PATH="$library_path"} "$@" >"$logs/$name.log" 2>&1 </dev/null
    status=$?
    case $status in 0) result=passed ;; 77) result=skipped ;; 124 | 137) result='out of time' ;; *) result=FAILED ;; esac
  fi
  case $name:$result in nsight*:FAILED) result=refused ;; esac
  judge "$name"
  say "| $name | $result | $(($(date +%s) - began)) | $(summary_of "$logs/$name.log") |"
}

# What did not end in time has failed, unless it is a memory checker, which is slow and has found nothing so far. Nsight
# Compute measures and judges nothing.
judge() {
  case $1:$result in
    nsight*) return ;;
    check_*:'out of time') grep -qE '^=+ (Invalid|Race|Barrier|Uninit|Hazard|Error:)' "$logs/$1.log" || return ;;
    *:'out of time' | *:FAILED | *:'not run') ;;
    *) return ;;
  esac
  case $1:$result in check_*:'not run') return ;; esac
  failures=$((failures + 1)) failed="$failed $1"
}

# What the machine and the bundle are, for whoever reads the results elsewhere.
say_what_is_there() {
  {
    nvidia-smi
    nvcc --version
    cat /proc/version
    for file in "$here"/lib/libmezzo* "$here/tests/golden_test" ${found_blas:+"$found_blas"} ${found_dnn:+"$found_dnn"}; do
      printf '\nldd %s\n' "$file"
      LD_LIBRARY_PATH=$library_path ldd "$file"
    done
    df -h "$out" /dev/shm
    free -m
  } >"$logs/there.log" 2>&1 </dev/null
  torch=$(timeout -k 5 40 python3 -c 'import torch
print("PyTorch", torch.__version__, "with CUDA", torch.version.cuda)' 2>>"$logs/there.log") ||
    torch="no PyTorch: $(tail -n 1 "$logs/there.log")"
  lacking=$(sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p' "$logs/there.log" | sort -u | paste -sd ' ' -)
  result=passed
  [ -z "$lacking" ] || { result=FAILED failures=$((failures + 1)) failed="$failed there"; }
  say "| there | $result | $((540 - $(left))) | $torch${lacking:+; missing libraries: $lacking} |"
}

run_tests() {
  [ ! -x "$here/tests/test_cuda" ] || part test_cuda 60 "$here/tests/test_cuda"
  part "golden_$device" 25 "$here/tests/golden_test" --device "$device"
  part registry_sweep 150 "$here/tests/registry_sweep"
  part test_amp 20 "$here/tests/test_amp"
  part test_kernels 30 "$here/tests/test_kernels"
}

# Some use the CPU, which CI has seen: one that there is no time for is left out.
run_other_tests() {
  for test in "$here"/tests/*; do
    name=${test##*/}
    case $name in test_cuda | registry_sweep | golden_test | test_amp | test_kernels) continue ;; esac
    [ "$(left)" -gt 90 ] || { say "| $name | left out | 0 | no time |"; continue; }
    part "$name" 12 "$test"
  done
  [ "$device" = cpu ] || part golden_cpu 10 "$here/tests/golden_test" "$here/data/goldens"
}

# The tests of GoogleTest that failed in a part, or the one that was running when its program ended: a line each.
failed_tests() {
  sed -n 's/^\[  FAILED  \] \([A-Za-z0-9_]*[/A-Za-z0-9_]*\.[/A-Za-z0-9_]*\).*/\1/p' "$logs/$1.log" | sort -u | grep . ||
    grep -hE '^\[( RUN      |       OK )\]' "$logs/$1.log" | tail -n 1 | sed -n 's/^\[ RUN      \] //p'
}

# Calls with what call b reads again; `part` left the names of what failed.
list_failed_tests() {
  for name in $failed; do
    case $name in
      golden_*) say "* failed: \`golden_test\`" ;;
      test_* | registry_sweep) failed_tests "$name" | while read -r test; do say "* failed: \`$name $test\`"; done ;;
    esac
  done
}

# A test that passes now, when every launch is waited for, raced with something; one that fails names its kernel.
run_failed_again() {
  [ -n "$before" ] || { say "| failed tests | not run | 0 | no result of call a was named |"; return; }
  again=$(sed -n 's/^\* failed: `\(.*\)`$/\1/p' "$before")
  [ -n "$again" ] || { say "| failed tests | none | 0 | by $before |"; return; }
  for program in $(printf '%s\n' "$again" | sed 's/ .*//' | sort -u); do
    filter=$(printf '%s\n' "$again" | sed -n "s/^$program //p" | paste -sd ':' -)
    set -- "$here/tests/$program"
    [ "$program" != golden_test ] || set -- "$@" --device "$device"
    part "again_$program" 30 env MEZZO_CUDA_SYNC=1 "$@" ${filter:+--gtest_filter="$filter"}
  done
}

find_sanitizer() {
  [ "$device" != cpu ] || return
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin
  sanitizer=$(command -v compute-sanitizer) ||
    { say "| memory checker | not run | 0 | no compute-sanitizer here; it comes with the CUDA toolkit |"; return 1; }
  LD_LIBRARY_PATH=$library_path timeout -k 5 20 "$sanitizer" --report-api-errors no --error-exitcode 88 \
    "$here/tests/test_cuda" --gtest_filter='CudaCopy.*' >"$logs/check_start.log" 2>&1 </dev/null || {
    reason=$(grep -m 1 -iE 'not supported|error|denied' "$logs/check_start.log" || tail -n 1 "$logs/check_start.log")
    say "| memory checker | refused | 0 | compute-sanitizer does not start here: $(printf '%s' "$reason" | tr '|' '/') |"
    return 1
  }
}

# checker NAME SECONDS TOOL PROGRAM: of the programs' tests those that do not fork, start programs, expect errors of CUDA, fill
# the memory or record a step, in which no memory can be allocated without the cache.
checker() {
  without='-CudaUnavailable.*:CudaCheck.*:CudaOutOfMemory.*:*Death*:*WithoutTheLibrary*'
  set -- "$1" "$2" "$3" "$4" "$without:CudaCaptured*:CudaBadInput.*Captured*:CudaBadInput.*Replay*"
  [ "$4" = test_cuda ] || set -- "$1" "$2" "$3" "$4"
  part "check_$1" "$2" env MEZZO_CUDA_CACHE=0 "$sanitizer" --tool "$3" --report-api-errors no --error-exitcode 88 \
    "$here/tests/$4" ${5:+--gtest_filter="$5"}
}

run_sample() {
  set -- "$here/examples/mlp_timing" --device "$device" --json "$logs/sample.json"
  [ "$device" != cpu ] || set -- "$@" --num-batches 2
  part sample 30 "$@"
}

# bench NAME SECONDS ARGUMENTS...: bench/run.py, which begins no comparison in the last 20 of these seconds.
bench() {
  have python3 || { say "| $1 | not run | 0 | needs python3 |"; return; }
  bench_name=$1 bench_limit=$2
  shift 2
  set -- python3 "$here/bench/run.py" --build "$here" --json "$logs/$bench_name.json" --library-path "$library_path" \
    --device "$device" --limit $((bench_limit - 20)) "$@"
  [ "$device" != cpu ] || set -- "$@" --gpu-list --pairs 1 --seconds 0.001 --only 4x4
  with_libraries='' part "$bench_name" "$bench_limit" "$@"
  benches="${benches:-} $bench_name"
}

# profile NAME SECONDS ARGUMENTS...: launches of the seed's step under Nsight Compute, which may not be allowed here.
profile() {
  profile_name=$1 profile_limit=$2
  shift 2
  part "$profile_name" "$profile_limit" sh -c 'printf "time mlp_512x4096/f16_scaler 0.01\n" | "$@"' sh \
    "$ncu" --clock-control none "$@" "$here/bench/mezzo_training" --device "$device"
}

# hottest LOG: of the times of launches, as ncu's CSV has them, the five kernels with the largest sums: the launch that took
# longest, counted from 0; the share of the sum in percent; the name.
hottest() {
  awk -F '","' '/^"[0-9]+","/ {
      value = $NF
      gsub(/[",\r]/, "", value)
      sum[$5] += value
      total += value
      if (!($5 in longest) || value + 0 > longest[$5]) { longest[$5] = value + 0; at[$5] = launches + 0 }
      launches++
    }
    END { for (name in sum) printf "%d %.1f %s\n", at[name], 100 * sum[name] / total, name }' "$1" |
    sort -k 2,2nr -k 1,1n | head -n 5
}

run_nsight() {
  [ "$device" != cpu ] || return
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin
  ncu=$(command -v ncu) || { say "| nsight | not run | 0 | no ncu here; it comes with Nsight Compute |"; return; }
  skip=100 # launches that make the model; steps follow
  profile nsight 60 --csv --print-units base --metrics gpu__time_duration.sum --launch-skip "$skip" --launch-count 150
  hottest "$logs/nsight.log" >"$logs/hottest.txt"
  while read -r launch share kernel; do
    profile "nsight_$launch" 30 --set full --launch-skip $((skip + launch)) --launch-count 1
    hot="${hot:-}
* $share %: \`$(printf '%s' "$kernel" | cut -c 1-160)\`, nsight_$launch.log"
  done <"$logs/hottest.txt"
}

# quote NAME TITLE: the end of a log.
quote() {
  [ -s "$logs/$1.log" ] || return
  { printf '\n%s:\n\n```\n' "$2"; tr -d '\r' <"$logs/$1.log" | tail -n 200; printf '```\n'; } >>"$out/result.md"
}

call_a() {
  say_what_is_there
  run_tests
  run_sample
  if [ "$device" = cpu ]; then bench bench 60 engine; else bench bench 80 training --only 512x4096 --pairs 5; fi
  run_other_tests
  if find_sanitizer; then
    checker memcheck $(($(left) / 2)) memcheck test_cuda
    checker memcheck_sweep "$(left)" memcheck registry_sweep
  fi
}

call_b() {
  run_failed_again
  for layer in kernels norms optimizers ops conv; do bench "bench_$layer" 50 "$layer"; done
  run_nsight
}

call_c() {
  if find_sanitizer; then
    for tool in racecheck initcheck synccheck; do checker "$tool" 80 "$tool" test_cuda; done
  fi
  run_sample
  bench bench 240 training
}

# The logs in one file, long ones without their middle where it would be too large.
pack() { tar -C "$out" -czf "$out/logs.tar.gz" logs && [ "$(wc -c <"$out/logs.tar.gz")" -lt "$most_bytes" ]; }
archive() {
  { have tar && have gzip; } || { say "No tar and gzip here: the logs are in $logs."; return; }
  if ! pack; then
    set -- "$logs"/*
    half=$((most_bytes / 3 / $#))
    for log in "$@"; do
      [ "$(wc -c <"$log")" -gt $((2 * half)) ] || continue
      { head -c "$half" "$log"; printf '\n[...]\n'; tail -c "$half" "$log"; } >"$log.short"
      mv "$log.short" "$log"
    done
    pack || { say "The logs do not fit into $most_bytes bytes: they are in $logs."; rm -f "$out/logs.tar.gz"; return; }
  fi
  rm -rf "$logs"
}

find_libraries
need_device
gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
: >"$out/result.md"
say "# Call $call, $(date -u +%Y-%m-%d), commit $(cat "$here/COMMIT"): ${gpu:-no name known}"
say ""
say "${cpu:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores, $(uname -sr). GPU (name, driver, memory): ${gpu:-unknown}. $libraries."
say ""
say "| part | result | seconds | |"
say "| --- | --- | --- | --- |"
cd "$out" || exit 2
with_libraries=yes
"call_$call"
say ""
[ -z "${hot:-}" ] || say "Share of the time of 150 launches of the seed's step, by Nsight Compute:
$hot
"
list_failed_tests
say "$failures part(s) failed; $((540 - $(left))) seconds."
quote sample "The timing sample"
for name in ${benches:-}; do quote "$name" "\`bench/run.py --device $device\`, $name"; done
for name in $failed; do
  case $name in sample | bench*) ;; *) quote "$name" "The end of $name.log" ;; esac
done
archive
printf 'results: %s\n' "$out/result.md"
[ "$failures" = 0 ]
