# shellcheck shell=sh disable=SC2154 # the names are those of mezzo.sh
# How mezzo.sh runs what takes long: the output goes to a log, and a reporter says how far it is. On a terminal it
# rewrites one line every second, without one it writes a line every 15 s. Interrupted, mezzo.sh ends what it started.

interval=${MEZZO_PROGRESS_SECONDS:-15}
job="" reporter=""

now() { date +%s; }

# duration SECONDS: as it was measured. roughly SECONDS: as an estimate may say it.
duration() {
  if [ "$1" -lt 100 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}
roughly() {
  if [ "$1" -lt 90 ]; then echo "$(($1 / 10 * 10 + 10)) s"; else echo "$((($1 + 30) / 60)) minutes"; fi
}

on_terminal() { [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; }

# show TEXT: in place of what stands in the terminal's line.
show() {
  columns=$(stty size <&2 2>/dev/null | sed 's/.* //')
  [ "${columns:-0}" -gt 0 ] || columns=80
  printf '\r%.*s\033[K' "$((columns - 1))" "$1" >&2
}

# Sets made: the files of the running ninja, and those that were made before it (see build).
count_files() {
  made=$(awk '/^ninja: Entering/ { n = 0 }
    /^\[[0-9]+\/[0-9]+\] / && !/\] Re-(checking|running)/ { n = substr($1, 2) + 0 }
    END { print n + 0 }' "$log")
  made=$((made + made_before))
  if [ "$made" -gt "$total" ]; then total=$made; fi
}

# Milliseconds per file: those of the first files (if they were measured), and more and more of all that have been
# made.
seconds_left() {
  rate=$(($1 * 1000 / made))
  if [ -n "$rate_before" ]; then rate=$(((rate_before * (total - made) + rate * made) / total)); fi
  echo $((rate * (total - made) / 1000))
}

# progress SECONDS: what there is to say after them.
progress() {
  if [ "$label" != build ]; then
    printf '%s (%s): %s%s' "$label" "$preset" "$(duration "$1")" "$(sed -n '/./s/^/, /p' "$log" | tail -n 1 | cut -c 1-60)"
    return
  fi
  count_files
  printf 'build (%s)' "$preset"
  if [ "$total" -gt 0 ]; then printf ': %s of %s files' "$made" "$total"; fi
  printf ', %s' "$(duration "$1")"
  # The first few files of a build say too little.
  if [ "$made" -lt "$total" ] && { [ -n "$rate_before" ] || { [ -z "$first" ] && [ "$made" -ge $((2 * workers)) ]; }; }; then
    printf ', about %s left' "$(roughly "$(seconds_left "$1")")"
  fi
}

# The reporter. It ends with mezzo.sh however that ends, and then ends a build that nobody waits for.
report() {
  spoken=$began
  while sleep 1 >/dev/null 2>&1; do
    if ! kill -0 "$$" 2>/dev/null; then
      [ -z "$job" ] || kill -TERM "$job"
      exit
    fi
    time=$(now)
    if on_terminal; then
      show "mezzo: $(progress $((time - began)))"
    elif [ $((time - spoken)) -ge "$interval" ]; then
      say "$(progress $((time - began)))"
      spoken=$time
    fi
  done
}

start_reporter() { report & reporter=$!; }
stop_reporter() {
  [ -n "$reporter" ] || return 0
  # By a signal that cannot get lost: a shell that has just been started drops others.
  { kill -KILL "$reporter" && wait "$reporter"; } 2>/dev/null || true
  reporter=
  if on_terminal; then show ""; printf '\r' >&2; fi
}

interrupted() {
  trap '' INT TERM HUP
  if [ -n "$job" ]; then { kill -TERM "$job" && wait "$job"; } 2>/dev/null || true; fi
  stop_reporter
  die "$1" "interrupted; the same command goes on from here"
}
trap 'interrupted 129' HUP
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

# begin LABEL: an empty log for what follows.
begin() {
  label=$1 log="$root/build/$preset-$1.log" began=$(now) made_before=0 total=0 rate_before=""
  { mkdir -p "$root/build" && true >"$log"; } 2>/dev/null || die 3 "cannot write $log: $cure_of_folder"
}

# logged COMMAND...: runs it, with the reporter beside it, and stops where it fails. It runs in the background,
# because a shell acts on a signal only between the commands it runs in the foreground. COMMAND ends its own children
# on SIGTERM.
logged() {
  status=0
  "$@" >>"$log" 2>&1 </dev/null &
  job=$!
  start_reporter
  wait "$job" || status=$?
  job=
  stop_reporter
  [ "$status" = 0 ] || failed 1
}

# in_front COMMAND...: the same for apt-get, which must get Ctrl-C from the terminal (sudo passes no signal of ours
# on) and must not be ended in the middle.
in_front() {
  status=0
  start_reporter
  "$@" >>"$log" 2>&1 </dev/null || status=$?
  stop_reporter
  return "$status"
}

# failed STATUS: what is told of a step that ended with $status. A known cause is one line. Otherwise what the command
# said: a compiler's message or the end of the log.
failed() {
  [ "$status" -gt 128 ] || status=$1
  [ "$status" -gt 128 ] || rm -f "$root/build/$preset.configuring"
  if cause=$(cause_in "$log"); then die "$status" "$label failed: $cause (all of it: $log)"; fi
  if grep -q 'FAILED:' "$log"; then
    sed -n '/FAILED:/,$p' "$log" | head -n 200 >&2
  else
    tail -n 60 "$log" >&2
  fi
  die "$status" "$label failed; all of it is in $log"
}

# What ninja would do, by a manifest that it does not try to bring up to date: otherwise it says no more than that.
plan() {
  { echo 'include build.ninja' >"$root/build/$preset/plan.ninja"; } 2>/dev/null || return 0
  ninja -C "$root/build/$preset" -f plan.ninja -n "$@" 2>/dev/null || true
}

# build TARGET...: says first how many files there are to make. A few of them, taken evenly from the whole plan, are
# made before the rest, and tell how long it takes on this machine, with its load and its compiler cache. Processors are
# idle meanwhile: MEZZO_ESTIMATE=no leaves it out.
build() {
  begin build
  planned=$(plan "$@")
  total=$(printf '%s\n' "$planned" | sed -n 's/^\[[0-9]*\/\([0-9]*\)\].*/\1/p' | tail -n 1)
  total=${total:-0}
  workers=${CMAKE_BUILD_PARALLEL_LEVEL:-$(jobs)}
  first=$(printf '%s\n' "$planned" | awk -v count=$((2 * workers + 2)) '/Building [A-Z]+ object / { name[++n] = $NF }
    END {
      if (n < 4 * count || ENVIRON["MEZZO_ESTIMATE"] == "no") exit
      for (i = 0; i < count; ++i) print name[int((i + 0.5) * n / count) + 1]
    }')
  if [ -n "$first" ]; then
    say "build ($preset): $total files on $workers processors; the first $((2 * workers + 2)) tell how long it takes"
    # shellcheck disable=SC2086 # one word for each file: no file of the tree has a space in its name
    run_ninja $first
    count_files
    made_before=$made
    rate_before=$((($(now) - began) * 1000 / made))
    say "build ($preset): about $(roughly $((rate_before * (total - made) / 1000))) for the other $((total - made)) files"
  elif [ "$total" -gt 0 ]; then
    say "build ($preset): $total files on $workers processors"
  fi
  run_ninja "$@"
  if [ "$total" -gt 0 ]; then say "build ($preset): $total files in $(duration $(($(now) - began)))"; fi
}

# Ninja by itself runs two compilers more than there are processors, which takes more memory and not less time.
run_ninja() { NINJA_STATUS='[%f/%t] ' logged ninja -C "$root/build/$preset" -j"$workers" "$@"; }
