#!/bin/sh
# Prints the loops of a compiled function: how many instructions each has, and which. Where a processor cannot be had, their
# number per element says what a kernel costs (docs/performance.md).
# usage: inner_loops.sh OBJDUMP LIBRARY FUNCTION      FUNCTION: a part of its demangled name
set -eu
[ $# = 3 ] || { sed -n 's/^# usage/usage/p' "$0" >&2; exit 2; }
"$1" -dC --no-show-raw-insn "$2" | awk -F '\t' -v wanted="$3" '
  # Hexadecimal as text: equally long, it compares as numbers do.
  function padded(hex) { while (length(hex) < 16) hex = "0" hex; return hex }
  /^[0-9a-f]+ <.*>:$/ { inside = index($0, wanted) > 0; if (inside) print substr($0, 18); n = 0; next }
  !inside || NF < 2 { next }
  {
    address[++n] = $1
    gsub(/[ :]/, "", address[n])
    address[n] = padded(address[n])
    mnemonic[n] = $2
    sub(/ .*/, "", mnemonic[n])
    if ($0 !~ /\t(b\.|cbn?z|tbn?z|j[a-z]+)/ || !match($0, /[0-9a-f]+ </)) next
    target = padded(substr($0, RSTART, RLENGTH - 2))
    if (target > address[n] || target < address[1]) next
    delete count
    for (i = n; i > 0 && address[i] >= target; --i) ++count[mnemonic[i]]
    line = ""
    for (name in count) line = line " " name (count[name] > 1 ? " x" count[name] : "")
    printf "  %d instructions:%s\n", n - i, line
  }'
