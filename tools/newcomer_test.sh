#!/bin/sh
# Tests of tools/newcomer.sh on a tree that is made up: one test program, which says what it finds. Nothing is built
# here, and no processor emulated.
# shellcheck disable=SC2016 # the stub expands
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
cd "$tree"
mkdir -p root/tools root/tests/package root/build/release/tests bin
cp "$source/tools/newcomer.sh" root/tools
chmod -R a+rX root
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
script() { { echo '#!/bin/sh'; cat; } >"$1"; chmod 755 "$1"; }

# The tests of the tree: all pass, or the program fails when the line in $tree/refuse holds.
script root/tools/check_tree.sh <<'TEXT'
exit 0
TEXT
script root/tools/a_test.sh <<'TEXT'
echo "a script's test, compiler $1"
exit 77
TEXT
cp root/tools/a_test.sh root/tests/package/b_test.sh
script root/build/release/tests/golden_test <<TEXT
[ -w tools/a_test.sh ] && echo "tree writable" || echo "tree read only"
(exec 3<&0) 2>/dev/null && echo "stdin open" || echo "stdin closed"
echo "user \$(id -u), home \$HOME, umask \$(umask), zone \${TZ:-}, locale \${LC_ALL:-}, oneDNN \${ONEDNN_MAX_CPU_ISA:-}"
: >"\$(mktemp)" && echo "temporary files are possible"
eval "\$(cat '$tree/refuse')"
TEXT
cp -p root/build/release/tests/golden_test root/build/release/tests/test_kernels
echo 'true' >refuse

# run STATUS ARGUMENTS...: its output is in out.txt. says TEXT [CONDITION]: there, or in the log of a condition.
run() {
  expected=$1; shift
  status=0
  root/tools/newcomer.sh "$@" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || { fail "newcomer.sh $* ends with $status, not $expected"; cat out.txt; }
}
says() {
  log=out.txt
  [ $# = 1 ] || log=root/build/newcomer/$2.log
  grep -q -- "$1" "$log" || { fail "does not say: $1"; cat "$log"; }
}
one_line() { [ "$(wc -l <out.txt)" = 1 ] || { fail "more than one line"; cat out.txt; }; says "$1"; says "$2"; }

run 0 --help; says "haswell, nehalem"
run 2 moonlight; one_line "unknown condition 'moonlight'" "there are: haswell nehalem"
run 2 --preset; one_line "needs a name" newcomer

# Without the emulator nothing is begun.
for name in sh dirname date env id; do ln -s "$(command -v "$name")" "bin/$name"; done
status=0
PATH=$tree/bin root/tools/newcomer.sh nobf16 nehalem >out.txt 2>&1 || status=$?
[ "$status" = 3 ] || fail "without qemu-x86_64 it ends with $status"
one_line "nehalem needs qemu-x86_64" "apt-get install -y --no-install-recommends qemu-user"
PATH=$tree/bin root/tools/newcomer.sh debian13 >out.txt 2>&1 && fail "a Debian without debootstrap"
one_line "debian13 needs " "apt-get install -y --no-install-recommends debootstrap\|with sudo"
[ ! -e root/build/newcomer ] || fail "something was begun without the emulator"

# Each condition is one, and what it runs passes. A locale takes seconds to compile, and is done without where it fails.
script bin/localedef <<'TEXT'
exit 1
TEXT
PATH=$tree/bin:$PATH
run 0 nobf16 user locale readonly closed
says "^ok: nobf16 user locale readonly closed$"
says "oneDNN AVX512_CORE" nobf16
if [ "$(id -u)" = 0 ]; then nobody=65534; else nobody=$(id -u); fi
says "user $nobody, home /nonexistent" user
says "temporary files are possible" user
says "a script's test, compiler c++" user
says "umask 0077, zone XYZ-12:45, locale de_DE.UTF-8" locale
says "tree read only" readonly
says "stdin closed" closed

# It can fail: by one program in one condition, and the others go on.
echo '[ "$(umask)" != 0077 ]' >refuse
run 1 locale closed
says "^locale .* FAILED, see "
says "^closed .* ok$"
says "^FAILED: locale$"
says "ended with status 1: .*golden_test" locale

# A preset that is not built is left to mezzo.sh.
script root/mezzo.sh <<'TEXT'
echo "mezzo.sh $*" >&2
exit 1
TEXT
run 1 --preset debug closed
says "mezzo.sh test --preset debug -- -N"
says "preset debug could not be built"

[ "$failures" = 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "newcomer.sh does all it should"
