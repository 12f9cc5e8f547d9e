#!/bin/sh
# Tests of tools/gpu.sh, a bundle's start script, on a bundle and a machine that are made up: stub programs, no GPU.
# shellcheck disable=SC2016 # the stubs expand
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p bin bundle/tests bundle/examples bundle/bench bundle/lib cuda/lib64
cp "$source/tools/gpu.sh" bundle/run
echo abc123 >bundle/COMMIT
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
for name in sh env dirname date mkdir sed grep tee timeout head tail tr sort paste uname getconf cat cut wc tar gzip rm mv awk; do
  ln -s "$(command -v "$name")" "bin/$name"
done
# program FILE TEXT...: a program made of these lines.
program() { file=$1; shift; { echo '#!/bin/sh'; printf '%s\n' "$@"; } >"$file"; chmod +x "$file"; }
passes() { program "bundle/tests/$1" 'echo "[  PASSED  ] 7 tests."'; }
for name in test_cuda registry_sweep test_amp test_kernels test_core; do passes "$name"; done
no_gpu='echo "golden_test: zeros: expected a usable device, got cuda:0; no driver" >&2; exit 77'
program bundle/tests/golden_test 'case $* in *cuda*) : ;; esac' 'echo "golden: 5 passed, 0 failed"'
program bundle/examples/mlp_timing 'echo "the table"; echo "libraries: $LD_LIBRARY_PATH, data: $MEZZO_TEST_DATA"'

# run STATUS ARGUMENTS...: its output is in out.txt, its result in result.md, with S for every number of seconds, and its logs
# in unpacked/logs.
run() {
  expected=$1; shift
  status=0
  rm -rf results unpacked
  env -i "PATH=$tree/bin" "CUDA_HOME=$tree/cuda" "MEZZO_CUDA_ROOTS=$tree/none" ${refuse:+refuse=1} ${device:+MEZZO_GPU_DEVICE="$device"} \
    bundle/run "$@" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || { fail "run $* ends with $status, not $expected"; cat out.txt; }
  [ ! -e results/result.md ] || sed 's/| [0-9]* |/| S |/' results/result.md >result.md
  mkdir unpacked
  [ ! -e results/logs.tar.gz ] || tar -C unpacked -xzf results/logs.tar.gz
}
says() { grep -qF -- "$1" "${2:-out.txt}" || { fail "does not say: $1"; cat "${2:-out.txt}"; }; }
silent() { ! grep -qF -- "$1" result.md || { fail "says: $1"; cat result.md; }; }
one_line() { [ "$(wc -l <out.txt)" = 1 ] || { fail "more than one line"; cat out.txt; }; says "$1"; says "$2"; }
leaves() { found=$(cd results && echo *); [ "$found" = "$1" ] || fail "leaves $found, not $1"; }

run 2 --help; one_line "expected a, b, c, all or a folder for the results" "usage: run [a|b|c|all] [FOLDER [RESULT]]"
run 2 a one two three; one_line "got 3 arguments" "usage: run [a|b|c|all] [FOLDER [RESULT]]"
: >file
run 2 a file/results; one_line "cannot write to file/results" "run a FOLDER"
run 2 b results nowhere.md; one_line "cannot read nowhere.md" "name the result.md of call a"
run 3 a results; one_line "no cuBLAS" "pip install nvidia-cublas"
: >cuda/lib64/libcublasLt.so.13
cp bundle/tests/golden_test golden_passes
program bundle/tests/golden_test "$no_gpu"
run 3 a results; one_line "no GPU to test on: zeros: expected a usable device" "no driver"
run 3 results; says "no GPU to test on"
cp golden_passes bundle/tests/golden_test

# All passes, and there is neither memory checker nor Python.
run 0 a results
leaves "logs.tar.gz result.md"
says "# Call a," result.md
says "cuBLAS: $tree/cuda/lib64/libcublasLt.so.13; cuDNN: none" result.md
says "commit abc123" result.md
says "| there | passed | S | no PyTorch: " result.md
for name in test_cuda registry_sweep test_amp test_kernels test_core; do says "| $name | passed | S | 7 PASSED |" result.md; done
says "| golden_cuda | passed | S | golden: 5 passed, 0 failed |" result.md
says "no compute-sanitizer here" result.md
says "| bench | not run | S | needs python3 |" result.md
says "the table" result.md
says "libraries: $tree/cuda/lib64, data: $tree/bundle/data" result.md
says "0 part(s) failed" result.md
says "[  PASSED  ] 7 tests." unpacked/logs/test_core.log

# A library that the bundle needs is not there.
: >bundle/lib/libmezzo.so
program bin/ldd 'case $* in *libmezzo*) echo "	libodd.so.1 => not found" ;; esac'
run 1 a results
says "| there | FAILED | S | no PyTorch" result.md
says "missing libraries: libodd.so.1 |" result.md
rm bin/ldd

# A checker that starts finds an error in one program; one that refuses the device is no failure. Call a has memcheck, call c
# the others.
program bin/compute-sanitizer '[ -z "${refuse:-}" ] || { echo "Device not supported"; exit 1; }' \
  'case $* in *memcheck*registry_sweep* | *racecheck*) echo "========= ERROR SUMMARY: 3 errors"; exit 88 ;; esac' \
  '[ "${MEZZO_CUDA_CACHE:-1}" = 0 ] || case $* in *CudaCopy*) ;; *) exit 9 ;; esac' \
  'echo "========= ERROR SUMMARY: 0 errors"'
run 1 a results
says "| check_memcheck | passed | S | ERROR SUMMARY: 0 errors |" result.md
says "| check_memcheck_sweep | FAILED | S | ERROR SUMMARY: 3 errors |" result.md
says "1 part(s) failed" result.md
run 1 c results
leaves "logs.tar.gz result.md"
says "# Call c," result.md
says "| check_racecheck | FAILED | S | ERROR SUMMARY: 3 errors |" result.md
says "| check_initcheck | passed |" result.md
says "| check_synccheck | passed |" result.md
says "| sample | passed |" result.md
says "1 part(s) failed" result.md
silent "| test_core"
refuse=1
run 0 a results
says "| memory checker | refused | S | compute-sanitizer does not start here: Device not supported |" result.md

# A test that fails: so does the run, everything after it runs all the same, and call b runs it again, alone and with a wait
# after every launch. A program that crashed in a test names it.
program bundle/tests/test_amp 'echo "$* sync ${MEZZO_CUDA_SYNC:-no}"; echo "[  FAILED  ] 2 tests, listed below:"' \
  'echo "[  FAILED  ] Scaler.Skips (3 ms)"' 'echo "[  FAILED  ] Each/Autocast.Casts/bf16, where GetParam() = 4"; exit 1'
program bundle/tests/test_cuda 'echo "[ RUN      ] CudaA.First"; echo "[       OK ] CudaA.First (0 ms)"' \
  'echo "[ RUN      ] CudaA.Second"' '[ "${MEZZO_CUDA_SYNC:-}" = 1 ] && echo "asked for $*" || kill -SEGV $$'
run 1 a results
says "| test_amp | FAILED | S | 2 FAILED |" result.md
says "| sample | passed |" result.md
says "The end of test_amp.log:" result.md
says "2 tests, listed below" result.md
says '* failed: `test_amp Scaler.Skips`' result.md
says '* failed: `test_amp Each/Autocast.Casts/bf16`' result.md
says '* failed: `test_cuda CudaA.Second`' result.md
silent 'CudaA.First`'
says "2 part(s) failed" result.md
cp results/result.md a.md
run 0 b results
says "| failed tests | not run | S | no result of call a was named |" result.md
run 1 b results a.md
leaves "logs.tar.gz result.md"
says "# Call b," result.md
says "| again_test_amp | FAILED | S |" result.md
says "--gtest_filter=Each/Autocast.Casts/bf16:Scaler.Skips sync 1" unpacked/logs/again_test_amp.log
says "| again_test_cuda | passed | S |" result.md
says "asked for --gtest_filter=CudaA.Second" unpacked/logs/again_test_cuda.log
for layer in kernels norms optimizers ops conv; do says "| bench_$layer | not run | S | needs python3 |" result.md; done
says "| nsight | not run | S | no ncu here" result.md
passes test_amp
passes test_cuda

# The five kernels with the most time are looked at, each by its longest launch; a bench program is told what to run.
program bundle/bench/mezzo_training 'read -r command; echo "ran $command"'
program bin/ncu 'case $* in *--csv*) ;; *) echo "details of $*"; exit 0 ;; esac' 'echo "==PROF== Connected"' \
  'echo "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\""' \
  'for launch in "f(int, float) 100" "g 2,000" "f(int, float) 300" "h 50" "i 40" "j 30" "k 20"; do' \
  '  echo "\"$((n))\",\"1\",\"p\",\"h\",\"${launch% *}\",\"time\",\"ns\",\"${launch##* }\""; n=$((n + 1))' \
  'done' 'while [ "${1##*/}" != mezzo_training ]; do shift; done' '"$@"'
run 0 b results
says "| nsight | passed | S |" result.md
says "ran time mlp_512x4096/f16_scaler 0.01" unpacked/logs/nsight.log
says '* 78.7 %: `g`, nsight_1.log' result.md
says '* 15.7 %: `f(int, float)`, nsight_2.log' result.md
says '* 1.2 %: `j`, nsight_5.log' result.md
silent '`k`'
says "--launch-skip 102 --launch-count 1" unpacked/logs/nsight_2.log
program bin/ncu 'echo "==ERROR== ERR_NVGPUCTRPERM"; exit 1'
run 0 b results
says "| nsight | refused | S |" result.md
rm bin/ncu

# Python: call a times the seed's step in 5 pairs, call b each layer, call c the training in 20.
: >bundle/bench/run.py
program bin/python3 'case $1 in -c) echo "PyTorch 9.9" ;; *) echo "asked for $*"; echo "2 of 3 goals reached" ;; esac'
run 0 a results
says "| there | passed | S | PyTorch 9.9 |" result.md
says "| bench | passed | S | 2 of 3 goals reached |" result.md
says "--device cuda --limit 60 training --only 512x4096 --pairs 5" unpacked/logs/bench.log
run 0 b results
says "| bench_conv | passed | S | 2 of 3 goals reached |" result.md
says "--limit 30 norms" unpacked/logs/bench_norms.log
run 0 c results
says "--limit 220 training" unpacked/logs/bench.log

# Logs that are too large, and cannot be packed, lose their middle.
program bundle/tests/test_core 'echo the beginning; head -c 20000000 /dev/urandom; echo; echo the end'
run 0 a results
[ "$(wc -c <results/logs.tar.gz)" -lt 16777216 ] || fail "the logs take $(wc -c <results/logs.tar.gz) bytes"
[ "$(head -n 1 unpacked/logs/test_core.log)" = "the beginning" ] || fail "the log lost its beginning"
[ "$(tail -n 1 unpacked/logs/test_core.log)" = "the end" ] || fail "the log lost its end"
passes test_core

# All three, one after the other, and the rehearsal on a CPU.
program bundle/tests/test_amp '[ "${MEZZO_CUDA_SYNC:-}" = 1 ] || { echo "[  FAILED  ] Scaler.Skips"; exit 1; }'
run 1 results
leaves "a b c result.md"
for call in a b c; do says "# Call $call," result.md; [ -s "results/$call/logs.tar.gz" ] || fail "no logs of $call"; done
says "| again_test_amp | passed |" result.md
passes test_amp
rm cuda/lib64/libcublasLt.so.13
device=cpu
run 0 results
says "| golden_cpu | passed |" result.md
silent "memory checker"
silent "| nsight"

[ "$failures" = 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "the start script of a bundle does all it should"
