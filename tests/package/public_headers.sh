#!/bin/sh
# The API reference shows the installed headers: what tools/public_headers.sh lists is what CMake has installed. A build
# with CUDA installs headers for it as well, which the list leaves out.
# usage: public_headers.sh INCLUDE_DIR ROOT    status 1 and the difference when there is one
set -eu
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
sh "$2/tools/public_headers.sh" "$2" | sort >"$lists/listed"
(cd "$1/mezzo" && find . -name '*.h') | sed 's|^[.]/||' |
  grep -Ev '/cuda/|^kernels/[a-z]+/cuda[_.]' >"$lists/some" || true
if [ -e "$1/mezzo/core/cuda/trace.h" ]; then echo core/cuda/trace.h >>"$lists/some"; fi
sort "$lists/some" >"$lists/installed"
[ -s "$lists/installed" ] || { echo "no headers in $1/mezzo"; exit 1; }
diff "$lists/listed" "$lists/installed" || { echo "listed (<) and installed (>) headers differ"; exit 1; }
