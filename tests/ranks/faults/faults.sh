#!/bin/sh
# Starts several processes, lets one of them fail in each way there is, and checks what a user sees: that all end in
# time and with an error, that none is left behind, and that one line says which rank, where it was, and why.
# usage: faults.sh MPIEXEC WORKER [--rounds N] [--ranks N] [FAULT...]      status 1 when something was not so
set -u
mpiexec=$1 worker=$2
shift 2
rounds=1 ranks=3 faults=""
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift ;;
    --ranks) ranks=$2; shift ;;
    *) faults="$faults $1" ;;
  esac
  shift
done
# stop_before is for by hand: it takes 12 s.
all="none kill launcher stop throw catch hang call size return exit_0 exit_3 debug_call debug_size all_throw all_catch other_mpi no_module"
# Other MPIs end all at once when a process dies, with words of their own, and know what other_mpi sets.
open_mpi=yes
"$mpiexec" --version 2>/dev/null | grep -qi 'open.mpi' || { open_mpi=no; all="${all% other_mpi*} no_module"; }
faults=${faults:-$all}
timeout=2
# All that may pass until the last process is gone: the timeout, what the ranks ask each other, and mpirun.
limit=$((timeout + 5))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# The processes that a run has left behind, by a variable that they all have.
left_behind() { grep -lza "^MEZZO_FAULT_RUN=$1\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | tr '\n' ' '; }
now() { date +%s%3N; }

# bad TEXT: what was not as it should be, and what was printed.
bad() {
  echo "$fault, rank $rank, step $step: $1"
  sed 's/^/    /' "$folder/out"
  failed=1
}

# run FAULT: starts it, and sets status and milliseconds.
run() {
  id=$$.$fault.$round
  began=$(now)
  case $1 in
    debug_*) MEZZO_DIST_DEBUG=1; export MEZZO_DIST_DEBUG; action=${1#debug_} ;;
    all_*) action=${1#all_} rank=-1 ;;
    *) action=$1 ;;
  esac
  case $1 in
    other_mpi)  # as MPICH's mpiexec would start them, of which Open MPI knows nothing
      (
        for r in $(seq 1 $((ranks - 1))); do
          MEZZO_FAULT_RUN=$id PMI_RANK=$r PMI_SIZE=$ranks "$worker" none 0 0 >/dev/null 2>&1 &
        done
        MEZZO_FAULT_RUN=$id PMI_RANK=0 PMI_SIZE=$ranks timeout 60 "$worker" none 0 0
        result=$?
        wait
        exit $result
      ) >"$folder/out" 2>&1 ;;
    no_module) MEZZO_FAULT_RUN=$id MEZZO_MPI_MODULE=/nowhere/libmezzo_mpi.so timeout 60 "$mpiexec" -n "$ranks" "$worker" \
      none 0 0 >"$folder/out" 2>&1 ;;
    *) MEZZO_FAULT_RUN=$id MEZZO_DIST_TIMEOUT=$timeout timeout 60 "$mpiexec" -n "$ranks" "$worker" "$action" "$rank" "$step" \
      >"$folder/out" 2>&1 ;;
  esac
  status=$?
  unset MEZZO_DIST_DEBUG
  milliseconds=$(($(now) - began))
}

# expected FAULT: what the line says, as an extended regular expression.
expected() {
  place="step $step"
  case $1 in
    kill) echo "rank [0-9] of $ranks, (in all_reduce|behind all_reduce|before).*: rank $rank is gone" ;;
    stop_before) echo "mezzo: MPI did not begin within 10 s: another process is stopped, or did not start" ;;
    stop) echo "in all_reduce $((step + 1)) \(250000 f32, sum\), $place: not completed within $timeout s: rank $rank is stopped" ;;
    throw) echo "rank $rank of $ranks, .*(behind all_reduce $step |before its first).*: ended by the disk is full" ;;
    catch) echo "rank $rank of $ranks, .*(behind all_reduce $step |before its first).*: an exception ended its session" ;;
    all_throw) echo "rank 0 of $ranks, .*: ended by the disk is full" ;;
    all_catch) echo "rank 0 of $ranks, .*: an exception ended its session" ;;
    hang) echo "in all_reduce $((step + 1)) .*not completed within $timeout s: rank $rank is (behind all_reduce $step |before its first)" ;;
    # Without debug mode these end by the timeout, or by MPI where it sees that sizes differ.
    # What MPI does with sizes that differ is undefined: with a smaller buffer than another rank's it may even crash.
    size) echo "mezzo: rank .* in all_reduce .*(not completed within|MPI says|is gone)" ;;
    call) echo "mezzo: rank .* in (all_reduce|broadcast) .*(not completed within $timeout s: rank .*DEBUG=1|MPI says)" ;;
    debug_call) echo "at (all_reduce|broadcast) $((step + 1)) .*, and rank [0-9]+ at (broadcast|all_reduce) $((step + 1)) " ;;
    debug_size) echo "at all_reduce $((step + 1)) .*, and rank [0-9]+ at all_reduce $((step + 1)) " ;;
    return | exit_0) echo "(rank $rank of $ranks, at the end of its session, .*not completed within $timeout s: rank [0-9] is in all_reduce|not completed within $timeout s: .*rank $rank is at the end of its session)" ;;
    exit_3) echo "rank $rank of $ranks, .*(behind all_reduce $step |before its first).*: the program ended with status 3" ;;
    other_mpi) echo "expected the MPI of the launcher, .*PMI_RANK is set.*finds 1 process; start it by the mpirun" ;;
    no_module) echo "expected a build of mezzo with MPI, .*/nowhere/libmezzo_mpi.so" ;;
  esac
}

slowest=0 runs=0
round=0
while [ $round -lt "$rounds" ]; do
  for fault in $faults; do
    rank=$((round % ranks)) step=$(((round * 7) % 20 + 3))
    [ "$fault" != none ] || rank=99
    run "$fault"
    runs=$((runs + 1))
    [ "$milliseconds" -le $slowest ] || slowest=$milliseconds
    if [ "$fault" = none ]; then
      if [ $status != 0 ] || grep -q mezzo "$folder/out"; then bad "status $status without a fault"; fi
      continue
    fi
    [ $status != 0 ] || bad "status 0"
    [ $status != 124 ] || bad "did not end"
    most=$limit
    [ "$fault" != stop_before ] || most=$((limit + 10))
    [ $milliseconds -le $((most * 1000)) ] || bad "took $milliseconds ms, more than $most s"
    # Who is being killed when mpirun ends may take a moment; and these have no mpirun that waits for them.
    patience=10
    case $fault in other_mpi | launcher) patience=50 ;; esac
    while left=$(left_behind "$id") && [ -n "$left" ] && [ $patience -gt 0 ]; do
      patience=$((patience - 1))
      sleep 0.1
    done
    [ -z "$left" ] || { bad "left behind: $left"; kill -9 $left 2>/dev/null; }
    # Who was killed was the one who prints.
    case $open_mpi.$fault in *.launcher | no.kill) continue ;; esac
    grep -Eq "$(expected "$fault")" "$folder/out" ||
      bad "no line with: $(expected "$fault")"
    lines=$(grep -Ec '^mezzo: |what\(\): ' "$folder/out")
    [ "$lines" -le 1 ] || bad "$lines lines and not one"
    [ $rounds -gt 1 ] || echo "$fault: status $status, $milliseconds ms: $(grep -Eo "$(expected "$fault").*" "$folder/out" | head -n 1 | cut -c 1-300)"
  done
  round=$((round + 1))
done
echo "$runs runs, the slowest $slowest ms"
exit $failed
