#!/bin/sh
# Prints the table of public free functions that tests/misuse calls, made from the installed headers: a line per
# function, MISUSE(namespace, name, (result), (arguments)). tests/misuse/exempt.txt names the others and says why.
# With --check it compares that with tests/misuse/functions.inc, and looks for each class of layers, optimizers, schedules,
# amp and files, and for each public member, in the sources of tests/misuse or in exempt.txt.
# usage: misuse_table.sh [--check]; it needs Universal Ctags, without which --check ends with 77
set -eu
cd -- "$(dirname -- "$0")/.."
if [ "${1:-}" = --check ]; then
  if ! ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
    echo "misuse_table: no Universal Ctags; nothing was compared (./mezzo.sh setup installs it)"
    exit 77
  fi
  failed=0
  if ! sh tools/misuse_table.sh | diff tests/misuse/functions.inc - >&2; then
    echo "misuse_table: functions have changed; write them by tools/misuse_table.sh >tests/misuse/functions.inc, or name them with a reason in tests/misuse/exempt.txt" >&2
    failed=1
  fi
  # shellcheck disable=SC2046
  for class in $(ctags --languages=C++ --language-force=C++ --kinds-C++=cs --fields=+SsatKzZ -x --_xformat='%Z|%N' \
    $(sh tools/public_headers.sh) | awk -F'|' '$1 ~ /^mezzo::(nn|optim|amp|io)$/ { print $2 }' | LC_ALL=C sort -u); do
    grep -qw -- "$class" tests/misuse/*.cpp tests/misuse/*.h && continue
    grep -qE -- "^class ([A-Za-z0-9 ]+ )?$class( [A-Za-z0-9 ]+)?: ." tests/misuse/exempt.txt && continue
    echo "misuse_table: no misuse of the class $class; call it in tests/misuse, or write 'class $class: reason' into tests/misuse/exempt.txt" >&2
    failed=1
  done
  # Public members of all classes but those that are exempt: their names behind ., -> or ::, or in MISUSE_GETTER.
  # shellcheck disable=SC2046
  for member in $(ctags --languages=C++ --language-force=C++ --kinds-C++=pf --fields=+SsatKzZ -x --_xformat='%Z|%a|%N' \
    $(sh tools/public_headers.sh) | awk -F'|' '
      FILENAME ~ /exempt/ { if (/^class /) { sub(/^class /, ""); sub(/: .*/, ""); n = split($0, c, " "); while (n) none[c[n--]] = 1 }
        else if (/^member /) { sub(/^member /, ""); sub(/: .*/, ""); n = split($0, c, " "); while (n) none[c[n--]] = 1 }
        next }
      FILENAME ~ /misuse/ {
        line = $0
        while (match(line, /(\.|->|::|MISUSE_GETTER\()[A-Za-z_0-9]+/)) {
          name = substr(line, RSTART, RLENGTH); sub(/^(\.|->|::|MISUSE_GETTER\()/, "", name)
          called[name] = 1
          line = substr(line, RSTART + RLENGTH)
        }
        next
      }
      $2 == "public" && $1 ~ /^mezzo::((nn|optim|amp|io|cuda|autograd)::|(Tensor|Value|Generator|Device)$)/ && $3 !~ /^(~|operator)/ {
        n = split($1, scope, "::"); class = scope[n]
        if ($3 != class && !(class in none) && !((class "::" $3) in none) && !($3 in called)) print class "::" $3
      }' tests/misuse/exempt.txt tests/misuse/*.cpp tests/misuse/*.h - | LC_ALL=C sort -u); do
    echo "misuse_table: no misuse of the member $member; call it in tests/misuse, or write 'member $member: reason' into tests/misuse/exempt.txt" >&2
    failed=1
  done
  exit "$failed"
fi
echo "// The public free functions that the sweep calls. Made by tools/misuse_table.sh; the test misuse_table compares."
# shellcheck disable=SC2046
ctags --languages=C++ --language-force=C++ --kinds-C++=pf --fields=+SsatKzZ -x --_xformat='%Z@%a@%t@%N@%S@%F' \
  $(sh tools/public_headers.sh) | LC_ALL=C sort -u | awk -F@ '
  FILENAME == "tests/misuse/exempt.txt" {
    if ($0 ~ /^#/ || $0 == "") next
    name = $0; sub(/: .*/, "", name)
    exempt[name] = 1
    next
  }
  # The types of a signature, without names and default values.
  function types(signature,    i, c, depth, part, out, rest) {
    sub(/^\(/, "", signature)
    depth = 0; part = ""; out = ""
    for (i = 1; i <= length(signature); ++i) {
      c = substr(signature, i, 1)
      if (c == ")" && depth == 0) break
      if (c ~ /[(<{]/) ++depth
      if (c ~ /[)>}]/) --depth
      if (c == "," && depth == 0) { out = out one(part) ", "; part = ""; continue }
      part = part c
    }
    return out one(part)
  }
  function one(part) {
    sub(/=.*/, "", part)
    gsub(/^ +| +$/, "", part)
    if (part ~ /[&>A-Za-z0-9_] +[A-Za-z_][A-Za-z_0-9]*$/ && part !~ /^(const )?[A-Za-z_:]+$/) sub(/ +[A-Za-z_][A-Za-z_0-9]*$/, "", part)
    gsub(/ +&/, "\\&", part); gsub(/ +\*/, "*", part); gsub(/ +>/, ">", part)
    return part
  }
  {
    scope = $1; access = $2; result = $3; name = $4; signature = $5; header = $6
    if (scope !~ /^mezzo(::(amp|io|optim|nn|nn::init|layout|cuda))?$/ || access != "-") next
    key = scope "::" name
    if (header != "nn/init.h") {
      for (start in exempt) if (index(header, start) == 1 || index(key, start) == 1) next
    }
    if (signature ~ /initializer_list|NestedValues|VjpArgs|<(const )?(A|T)>|&&|[^A-Za-z_](A|T|F|I|M|O|Args)[ .&*]|\.\.\./ || result ~ /<T>|:(auto|A|T)$/) next  # templates and lists
    sub(/^typename:/, "", result); gsub(/ +&/, "\\&", result)
    printf "MISUSE(%s, %s, (%s), (%s))\n", scope, name, result, types(signature)
  }' tests/misuse/exempt.txt - | LC_ALL=C sort -u
