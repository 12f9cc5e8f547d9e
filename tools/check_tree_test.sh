#!/bin/sh
# Proves that check_tree.sh can fail: a small tree with one violation of each kind must give exactly the expected list,
# and a clean tree none. Long functions are found where there is Universal Ctags.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir core kernels autograd ops nn optim data io amp train tests build
lines() { awk -v n="$1" -v text="${2:-  f();}" 'BEGIN { while (n-- > 0) print text }'; }
long() { printf '%s\n' "$1"; lines 60; printf '%s\n\n' "${2:-\}}"; }

# Allowed: an own folder, lower layers, ops from a .cpp file of autograd, io from data, anything from tests and the root.
printf '#include "mezzo/core/b.h"\n#include <vector>\n' >core/a.h
printf '#include "mezzo/ops/add.h"\n#include "mezzo/core/a.h"\n' >autograd/engine.cpp
printf '#include "mezzo/io/csv.h"\n' >data/csv.cpp
printf '#include "mezzo/optim/sgd.h"\n#include "mezzo/nn/module.h"\n' >amp/scaler.cpp
printf '#include "mezzo/amp/scaler.h"\n' >train/trainer.h
printf '#include "support/helper.h"\n#include "mezzo/train/trainer.h"\n' >tests/a_test.cpp
printf '#include "mezzo/train/trainer.h"\n' >mezzo.h
printf '#include "mezzo/train/trainer.h"\n' >build/generated.h
# Own headers: in the folder or above it, shared with another source, or none; what begins a list of includes is not own.
mkdir nn/layers
printf '#include <vector>\n' | tee nn/layer.h optim/shared.h optim/used.h >/dev/null
printf '#include "mezzo/nn/layer.h"\n\n#include <vector>\n' >nn/layers/layer.cpp
printf '#include "mezzo/optim/shared.h"\n\n#include <vector>\n' | tee optim/one.cpp optim/two.cpp >/dev/null
printf '#include "mezzo/optim/used.h"\n#include "mezzo/core/a.h"\n' >optim/three.cpp
{ printf 'void fits() {\n'; lines 58; printf '}\n'; } >ops/clean.cpp
begin() { find . -name '*.h' -o -name '*.cpp' | while read -r f; do grep -q '^// A file' "$f" || sed -i '1i// A file.' "$f"; done; }
begin
sh "$here/check_tree.sh" . >clean.txt || { echo "a clean tree is refused:"; cat clean.txt; exit 1; }

printf '#include "mezzo/kernels/k.h"\n#include "b.h"\n#include "mezzo/mezzo.h"\n' >core/bad.h
printf '#include "mezzo/ops/add.h"\n' >autograd/node.h
printf '#include <mezzo/optim/sgd.h>\n' >nn/bad.cpp
printf '#include "mezzo/data/csv.h"\n' >io/bad.cpp
printf '#include "mezzo/train/trainer.h"\n' >amp/bad.h
printf '#include "mezzo/autograd/node.h"\n' >kernels/bad.cpp
lines 500 'int f();' >core/long.cpp
{
  long 'void plain(int a) {'
  long 'template <class T>
[[nodiscard]] std::vector<T> Class<T>::member(const T& a,
                                              int b) const noexcept {'
  printf 'namespace a::b {\nclass C : public D {\n public:\n'
  long '  C() : d_(1), e_{2}, f_({3, 4}) {' '  }'
  printf '};\n}\n'
  long 'TEST(Suite, Name) {'
} >tests/long_functions.cpp
printf '#include "mezzo/kernels/b.h"\n' >kernels/a.h
printf '#include "mezzo/kernels/c.h"\n' >kernels/b.cpp
printf '#include "mezzo/core/a.h"\n' >kernels/b.h
printf '#include "mezzo/kernels/a.h"\n' >kernels/c.h
for i in $(seq 40); do printf '#include <vector>\n' >"ops/op_$i.cpp"; done
printf '#include <vector>\n\n#include "mezzo/nn/layer.h"\n' >nn/layers/layer.cpp
printf '#include <vector>\n' | tee io/late.h io/odd.h >/dev/null
printf '#include "mezzo/io/odd.h"\n#include "mezzo/io/late.h"\n' >io/late.cpp
printf '#include "mezzo/io/odd.h"\n\n#include <vector>\n' >io/other.cpp
begin
printf 'int f();\n' >io/silent.cpp
if sh "$here/check_tree.sh" . >bad.txt; then echo "a bad tree is accepted:"; cat bad.txt; exit 1; fi

cat >expected.txt <<'TEXT'
amp/bad.h:2: amp may not include train ("mezzo/train/trainer.h")
autograd/node.h:2: autograd may not include ops ("mezzo/ops/add.h")
core/bad.h:2: core may not include kernels ("mezzo/kernels/k.h")
core/bad.h:3: include "b.h" is not written as "mezzo/<folder>/..."
core/bad.h:4: core includes the umbrella header "mezzo/mezzo.h"
core/long.cpp: 501 lines, more than 500
io/bad.cpp:2: io may not include data ("mezzo/data/csv.h")
io/late.cpp: does not include io/late.h first
io/odd.h: its one source has another name, io/other.cpp
kernels/bad.cpp:2: kernels may not include autograd ("mezzo/autograd/node.h")
nn/bad.cpp:2: nn may not include optim (<mezzo/optim/sgd.h>)
nn/layers/layer.cpp: does not include nn/layer.h first
TEXT
sed -n -e '/^tests/d' -e '/^[a-z_/]*\.[a-z]*:/p' bad.txt | LC_ALL=C sort >found.txt
grep -q '^io/silent.cpp: does not begin with a comment' bad.txt || { echo "no opening comment is missed"; exit 1; }
grep -q '^ops: 41 files, more than 40' bad.txt || { echo "a full folder is missed"; exit 1; }
grep -q '^a cycle of includes: .*kernels/b' bad.txt || { echo "a cycle is missed"; exit 1; }
sed -i '/^io\/silent/d' found.txt
diff expected.txt found.txt || { echo "the list differs (<: expected, >: found)"; exit 1; }
count=15
if ! grep -q '^function lengths are not checked' bad.txt; then
  for name in plain member C TEST; do
    grep -q "^tests/long_functions.cpp:[0-9]*: function $name has 6[0-9] lines, more than 60" bad.txt ||
      { echo "the long function $name is missed"; exit 1; }
  done
  count=19
fi
grep -q "^check_tree: $count problem" bad.txt || { echo "wrong count, not $count"; tail -n 1 bad.txt; exit 1; }
echo "check_tree finds all it should"
