#!/bin/sh
# Compiles each program of tests/messages, which holds one mistake, and expects that this fails, that the first line with
# an error matches what the program's first line says behind "expects:", and that there are at most five such lines.
# usage: check_messages.sh COMPILER INCLUDE_FOLDER
set -u
cd -- "$(dirname -- "$0")/.."
failed=0
for program in tests/messages/*.cpp; do
  expected=$(sed -n '1s/^.*expects: //p' "$program")
  if said=$("$1" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I"$2" "$program" 2>&1); then
    echo "check_messages: $program expected an error, got none; is the mistake one still?"
    failed=1
    continue
  fi
  first=$(printf '%s\n' "$said" | grep -m 1 'error')
  count=$(printf '%s\n' "$said" | grep -c ' error: ')
  if ! printf '%s\n' "$first" | grep -qE -- "$expected" || [ "$count" -gt 5 ]; then
    echo "check_messages: $program expected '$expected' in at most 5 errors, got $count, the first: $first"
    failed=1
  fi
done
[ "$failed" = 0 ] && echo "check_messages: $(ls tests/messages/*.cpp | wc -l) mistakes, each named by its first error"
exit "$failed"
