# shellcheck shell=sh disable=SC2154,SC2034 # the names are those of mezzo.sh
# `./mezzo.sh fuzz [TARGET...] [--seconds N]`, read by mezzo.sh: libFuzzer on the targets of tests/fuzz, each for N seconds
# (60). What it finds new is kept in build/fuzz/found, so that the next run goes on from there, and an input that breaks
# something in build/fuzz/crashes.

all_targets="json safetensors idx npy npz torch csv bpe image cifar token_file log checkpoint state op"
# These are linked with a few sources of the library instead of all, which takes minutes to compile.
reader_targets="json safetensors"
targets="" seconds=60
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) [ $# -ge 2 ] || die 2 "--seconds needs a number"; seconds=$2; shift ;;
    --seconds=*) seconds=${1#--seconds=} ;;
    readers) targets="$targets $reader_targets" ;;
    *) case " $all_targets " in
      *" $1 "*) targets="$targets $1" ;;
      *) die 2 "unknown fuzz target '$1'; there are: $all_targets, and readers for $reader_targets" ;;
    esac ;;
  esac
  shift
done
case $seconds in "" | *[!0-9]* | 0*) die 2 "--seconds needs a number from 1 on, got '$seconds'" ;; esac

# The time of one input has no tight limit, as the machine may be slow; its memory has.
fuzz_target() {
  begin "fuzz-$1"
  say "fuzz $1 for $(duration "$seconds")"
  found=$root/build/fuzz/found/$1 crashes=$root/build/fuzz/crashes
  mkdir -p "$found" "$crashes" || die 3 "cannot write $found: $cure_of_folder"
  status=0
  ASAN_OPTIONS=max_allocation_size_mb=256${ASAN_OPTIONS:+:$ASAN_OPTIONS} "$root/build/fuzz/fuzz/fuzz_$1" -seed=1 -max_total_time="$seconds" -max_len=4096 -timeout=1200 -rss_limit_mb=4096 \
    -malloc_limit_mb=0 -artifact_prefix="$crashes/$1-" "$found" "$root/tests/fuzz/corpus/$1" >>"$log" 2>&1 </dev/null &
  job=$!
  start_reporter
  wait "$job" || status=$?
  job=
  stop_reporter
  [ "$status" = 0 ] || fuzz_failed "$1"
  say "fuzz $1: $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log" | tail -n 1) inputs, nothing found"
}

fuzz_failed() {
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  cause=$(grep -m 1 -E 'broken promise|runtime error|ERROR: |terminate called' "$log" || tail -n 1 "$log")
  [ -n "$input" ] || die 1 "fuzz $1 failed: $cause; all of it is in $log"
  say "fuzz $1 failed: $cause"
  die 1 "the input is kept: $input; again: build/fuzz/fuzz/fuzz_$1 $input; all of it is in $log"
}

preset=fuzz
configure "$all_mb" tests
programs=
for target in ${targets:=$all_targets}; do programs="$programs fuzz_$target"; done
# shellcheck disable=SC2086 # several names
build $programs
for target in $targets; do fuzz_target "$target"; done
