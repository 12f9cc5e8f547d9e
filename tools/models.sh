# shellcheck shell=sh disable=SC2154,SC2034 # the names are those of mezzo.sh
# `./mezzo.sh models [--data FOLDER]`, read by mezzo.sh: the example programs that train a model, one after the other, at
# the settings that they have without flags, and a table of what each was to reach, what it reached, and the minutes. In
# FOLDER, mnist/ and the first *.txt there or one folder below are read; without it the programs make their own data.

data=""
while [ $# -gt 0 ]; do
  case $1 in
    --data) [ $# -ge 2 ] || die 2 "--data needs a folder"; data=$2; shift ;;
    --data=*) data=${1#--data=} ;;
    *) die 2 "models takes --data FOLDER, not '$1'" ;;
  esac
  shift
done
mnist="" text=""
if [ -n "$data" ]; then
  [ -d "$data" ] || die 2 "no folder $data; --data names one with mnist/ or a text in it"
  data=$(CDPATH='' cd -- "$data" && pwd)
  if [ -d "$data/mnist" ]; then mnist=$data/mnist; fi
  for file in "$data"/*.txt "$data"/*/*.txt; do
    if [ -z "$text" ] && [ -f "$file" ]; then text=$file; fi
  done
  [ -n "$mnist$text" ] || die 2 "neither mnist/ nor a text in $data; --data names a folder with one of them"
fi

# model PROGRAM FLAGS...: one row of the table. Programs that are not there are left out.
failed_models=0 started_models=0 rows=""
model() {
  program=$1; shift
  [ -x "$root/build/$preset/examples/$program" ] || return 0
  started_models=$((started_models + 1))
  begin "models-$started_models-$program"
  say "models: $program $*"
  status=0
  "$root/build/$preset/examples/$program" "$@" >>"$log" 2>&1 </dev/null &
  job=$!
  start_reporter
  wait "$job" || status=$?
  job=
  stop_reporter
  [ "$status" -le 128 ] || die "$status" "$program was ended; all of it is in $log"
  line=$(grep -E '^(goal|reached)' "$log" | grep -v '^goal not reached' | tail -n 1)
  case $line in
    "goal "*": "*) goal=${line#goal } reached=${goal#*: } goal=${goal%%: *} reached=${reached% in *} reached=${reached#reached } ;;
    *) goal=- reached=${line:-ended} ;;
  esac
  if [ "$status" != 0 ]; then
    failed_models=$((failed_models + 1))
    reached="${line:+$reached, }FAILED with status $status"
    say "$program failed: $(tail -n 1 "$log") (all of it: $log)"
  fi
  flags=$(printf '%s ' "$@" | sed -e "s|$data/||g" -e 's/--check //' -e 's/ *$//')
  minutes=$(awk -v seconds=$(($(now) - began)) 'BEGIN { printf "%.1f", seconds / 60 }')
  cpu=$(sed -n 's/.* \([0-9]*\) s of processor time.*/\1/p' "$log" | tail -n 1)
  rows="$rows
| $program | $flags | $goal | $reached | $minutes | ${cpu:--} |"
}

configure "$all_mb" examples
wanted=
for program in mnist_cnn char_gpt cifar_resnet tabular gpt2 wgan_gp; do
  if [ -d "$root/examples/$program" ]; then wanted="$wanted $program"; fi
done
# shellcheck disable=SC2086 # several names
build $wanted
cd "$here" || exit
for precision in fp32 amp_fp16 amp_bf16; do
  model mnist_cnn --check --precision $precision ${mnist:+--data "$mnist"}
done
for precision in amp_fp16 amp_bf16; do
  model mnist_cnn --check --precision $precision --low-precision-norms ${mnist:+--data "$mnist"}
done
for precision in fp32 amp_bf16; do
  model char_gpt --check --precision $precision ${text:+--data "$text"}
  model cifar_resnet --check --precision $precision
done
model tabular --check --target price
model tabular --check --target segment
model gpt2 ${text:+--data "$text"}
model wgan_gp
printf '| program | flags | goal | reached | minutes | s of processors |\n| --- | --- | --- | --- | --- | --- |%s\n' "$rows"
[ "$failed_models" = 0 ] || exit 1
