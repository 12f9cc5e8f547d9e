#!/bin/sh
# Tests of tools/gpu.sh, a bundle's start script, on a bundle and a machine that are made up: stub programs, no GPU.
# shellcheck disable=SC2016 # the stubs expand
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p bin bundle/tests bundle/examples cuda/lib64
cp "$source/tools/gpu.sh" bundle/run
echo abc123 >bundle/COMMIT
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
for name in sh env dirname date mkdir sed grep tee timeout head tail tr sort paste uname getconf cat; do
  ln -s "$(command -v "$name")" "bin/$name"
done
# program FILE TEXT...: a program made of these lines.
program() { file=$1; shift; { echo '#!/bin/sh'; printf '%s\n' "$@"; } >"$file"; chmod +x "$file"; }
passes() { program "bundle/tests/$1" 'echo "[  PASSED  ] 7 tests."'; }
for name in test_cuda registry_sweep test_amp test_kernels test_core; do passes "$name"; done
no_gpu='echo "golden_test: zeros: expected a usable device, got cuda:0; no driver" >&2; exit 77'
program bundle/tests/golden_test 'case $* in *cuda*) : ;; esac' 'echo "golden: 5 passed, 0 failed"'
program bundle/examples/mlp_timing 'echo "the table"; echo "libraries: $LD_LIBRARY_PATH, data: $MEZZO_TEST_DATA"'

# run STATUS ARGUMENTS...: its output is in out.txt, its result in result.md, with S for every number of seconds.
run() {
  expected=$1; shift
  status=0
  env -i "PATH=$tree/bin" "CUDA_HOME=$tree/cuda" "MEZZO_CUDA_ROOTS=$tree/none" ${refuse:+refuse=1} \
    bundle/run "$@" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || { fail "run $* ends with $status, not $expected"; cat out.txt; }
  [ ! -e results/result.md ] || sed 's/| [0-9]* |/| S |/' results/result.md >result.md
}
says() { grep -qF -- "$1" "${2:-out.txt}" || { fail "does not say: $1"; cat "${2:-out.txt}"; }; }
one_line() { [ "$(wc -l <out.txt)" = 1 ] || { fail "more than one line"; cat out.txt; }; says "$1"; says "$2"; }

run 2 --help; one_line "expected a folder for the results" "usage: run [FOLDER]"
run 2 one two; one_line "got 2" "usage: run [FOLDER]"
: >file
run 2 file/results; one_line "cannot write to file/results" "run FOLDER"
run 3 results; one_line "no cuBLAS" "pip install nvidia-cublas"
: >cuda/lib64/libcublasLt.so.13
cp bundle/tests/golden_test golden_passes
program bundle/tests/golden_test "$no_gpu"
run 3 results; one_line "no GPU to test on: zeros: expected a usable device" "no driver"
cp golden_passes bundle/tests/golden_test

# All passes, and there is neither memory checker nor Python.
run 0 results
says "cuBLAS: $tree/cuda/lib64/libcublasLt.so.13; cuDNN: none" result.md
says "commit abc123" result.md
for name in test_cuda registry_sweep test_amp test_kernels test_core; do says "| $name | passed | S | 7 PASSED |" result.md; done
says "| golden_cuda | passed | S | golden: 5 passed, 0 failed |" result.md
says "no compute-sanitizer here" result.md
says "| bench | not run | S | needs python3 |" result.md
says "the table" result.md
says "libraries: $tree/cuda/lib64, data: $tree/bundle/data" result.md
says "0 part(s) failed" result.md

# A checker that starts finds an error in one program; one that refuses the device is no failure.
program bin/compute-sanitizer '[ -z "${refuse:-}" ] || { echo "Device not supported"; exit 1; }' \
  'case $* in *registry_sweep*) echo "========= ERROR SUMMARY: 3 errors"; exit 88 ;; esac' \
  '[ "${MEZZO_CUDA_CACHE:-1}" = 0 ] || case $* in *CudaCopy*) ;; *) exit 9 ;; esac' \
  'echo "========= ERROR SUMMARY: 0 errors"'
run 1 results
says "| check_memcheck | passed | S | ERROR SUMMARY: 0 errors |" result.md
says "| check_memcheck_sweep | FAILED | S | ERROR SUMMARY: 3 errors |" result.md
says "| check_initcheck | passed |" result.md
says "1 part(s) failed" result.md
refuse=1
run 0 results
says "| memory checker | refused | S | compute-sanitizer does not start here: Device not supported |" result.md

# A test that fails: so does the run, and everything after it runs all the same.
program bundle/tests/test_amp 'echo "[  FAILED  ] 2 tests, listed below:"; exit 1'
run 1 results
says "| test_amp | FAILED | S | 2 FAILED |" result.md
says "| sample | passed |" result.md
says "The end of test_amp.log:" result.md
says "2 tests, listed below" result.md

[ "$failures" = 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "the start script of a bundle does all it should"
