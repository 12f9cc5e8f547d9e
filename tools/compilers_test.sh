#!/bin/sh
# Tests of tools/compilers.sh with compilers, CMake and Ninja that are made up: scripts which say what they are asked
# for, and fail as the test wants them to. Nothing is built here.
# shellcheck disable=SC2016 # the stubs expand
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p root/tools bin
cp "$source/tools/compilers.sh" root/tools
cp "$source/mezzo.sh" root
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
script() { { echo '#!/bin/sh'; cat; } >"$1"; chmod 755 "$1"; }
for name in sh dirname basename env getconf sed awk tr sort uniq readlink rm mkdir cp cat grep tail xargs; do
  ln -s "$(command -v "$name")" "bin/$name"
done

# run STATUS ARGUMENTS...: its output is in out.txt; no program but those in bin is there.
run() {
  expected=$1; shift
  status=0
  PATH=$tree/bin root/tools/compilers.sh "$@" >out.txt 2>&1 </dev/null || status=$?
  [ "$status" = "$expected" ] || { fail "compilers.sh $* ends with $status, not $expected"; cat out.txt; }
}
says() { grep -q -e "$1" "${2:-out.txt}" || { fail "does not say: $1"; cat "${2:-out.txt}"; }; }
says_not() { ! grep -q -e "$1" "${2:-out.txt}" || { fail "says: $1"; cat "${2:-out.txt}"; }; }
one_line() { [ "$(wc -l <out.txt)" = 1 ] || { fail "more than one line"; cat out.txt; }; says "$1"; }

run 0 --help; says "usage: tools/compilers.sh"
run 2 --fast; one_line "unknown option '--fast'; there are"
run 3; one_line "needs cmake; ./mezzo.sh setup"

# CMake configures and builds as $tree/refuse and $tree/says tell it; the tests are ctest's.
script bin/cmake <<TEXT
echo "cmake \$* recache=\${CCACHE_RECACHE:-}"
case "\$*" in
  *--build*) cat '$tree/says'; eval "\$(cat '$tree/refuse')" ;;
  *-B*) mkdir -p "\$4" && cp '$tree/build.ninja' '$tree/compile_commands.json' "\$4" ;;
esac
TEXT
script bin/ctest <<TEXT
cat '$tree/tests'; ! grep -q '^[^1]' '$tree/tests'
TEXT
script bin/ninja </dev/null
echo '100% tests passed, 0 tests failed out of 3' >tests
: >says; : >refuse; : >build.ninja; : >compile_commands.json
run 3; one_line "neither g++ nor clang++ is here"
run 3 g++-12; one_line "no compiler g++-12 here"

# All that are installed, each once; one that is too old is left out.
for name in g++-9 g++-12 clang++-16; do script "bin/$name" <<TEXT; done
[ "\$*" != -dumpversion ] || echo ${name##*-}.1.0
TEXT
ln -s g++-12 bin/g++
run 0
says '^g++-9  *skipped: 11 or newer is needed$'
says '^g++-12  *ok  *library [0-9]* CPU-s, 0 tests failed out of 3$'
says '^clang++-16  *ok  '
says '^ok$'
[ "$(wc -l <out.txt)" = 4 ] || { fail "not one line for each compiler"; cat out.txt; }
says 'CMAKE_CXX_COMPILER=g++-12 .*-DMEZZO_CUDA=OFF' root/build/compilers/g++-12.log
says 'target mezzo .*recache=1$' root/build/compilers/g++-12.log
[ ! -e root/build/compilers/g++-12 ] || fail "the build folder stays"

# Arguments for CMake come after its own, so they win.
run 0 --library --keep g++-12 -- -DMEZZO_CUDA=ON
says '^g++-12  *ok  *library [0-9]* CPU-s$'
says '-DMEZZO_CUDA=OFF -DMEZZO_CUDA=ON' root/build/compilers/g++-12.log
says_not 'tests passed' root/build/compilers/g++-12.log
[ -d root/build/compilers/g++-12 ] || fail "--keep keeps nothing"

# It can fail: by tests, by warnings, by a crash of the compiler; the others go on.
echo '66% tests passed, 1 tests failed out of 3' >tests
run 1 g++-12; says '^g++-12  *FAILED library [0-9]* CPU-s, 1 tests failed out of 3, see .*/g++-12.log$'
[ -d root/build/compilers/g++-12 ] || fail "the build folder of a failure is gone"
printf 'a.cpp:%s: error: this [-Werror=odd]\n' 1 2 >says
echo 'case $* in *++-12*) exit 1 ;; esac' >refuse
run 1 --library
says '^g++-12  *FAILED library [0-9]* CPU-s, 2 x \[-Werror=odd\], see '
says '^clang++-16  *ok  '
says '^FAILED: g++-12$'
echo 'PLEASE submit a bug report' >says
run 1 --library g++-12; says 'the compiler crashed on 1 files'

# --warnings gives each source to the compiler, without an object; joined sources are written before.
: >says; echo 'exit 1' >refuse
cat >build.ninja <<TEXT
build joined/one.cpp | \${cmake_ninja_workdir}joined/one.cpp: CUSTOM_COMMAND /a || lib
  COMMAND = echo "cost: \$\$5\$: no" >'$tree/joined.txt'

TEXT
pch='-Winvalid-pch -Xclang -include-pch -Xclang "/a b/cmake_pch.hxx.pch"'
pch=$(printf '%s' "$pch" | sed 's/"/\\"/g')
cat >compile_commands.json <<TEXT
[{ "directory": "/a",
  "command": "$tree/bin/count -DTEXT=\\\\\"a\\\\\" -o a.o -c a.cpp",
  "file": "a.cpp" },
{
  "command": "$tree/bin/count $pch -Xclang -include -o b.o -c b.cpp",
  "file": "b.cpp" },
{
  "command": "$tree/bin/count -x c++-header -o pch -c cmake_pch.hxx.cxx",
  "file": "b.cpp" }]
TEXT
script bin/count <<TEXT
echo "compiles \$*"; case \$* in *b.cpp) exit 1 ;; esac
TEXT
run 1 --warnings g++-12
says '^g++-12  *FAILED sources [0-9]* CPU-s, see '
says 'compiles -DTEXT="a" -fsyntax-only a.cpp' root/build/compilers/g++-12.log
says 'compiles -Xclang -include -fsyntax-only b.cpp' root/build/compilers/g++-12.log
says_not 'compiles .*pch' root/build/compilers/g++-12.log
says '^cost: :* no$' joined.txt
says_not 'cmake --build' root/build/compilers/g++-12.log

[ "$failures" = 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "compilers.sh does all it should"
