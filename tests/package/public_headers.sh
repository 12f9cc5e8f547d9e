#!/bin/sh
# The API reference shows the installed headers: what tools/public_headers.sh lists is what CMake has installed. A build
# with CUDA installs headers for it as well, which the list leaves out.
# And what a program includes (the first list of cmake/Install.cmake) holds no kernels but for the headers named below.
# usage: public_headers.sh INCLUDE_DIR ROOT    status 1 and the difference when there is one
set -eu
LC_ALL=C
export LC_ALL
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
sh "$2/tools/public_headers.sh" "$2" | sort >"$lists/listed"
(cd "$1/mezzo" && find . -name '*.h') | sed 's|^[.]/||' |
  grep -Ev '/cuda/|^kernels/[a-z]+/cuda[_.]' >"$lists/some" || true
if [ -e "$1/mezzo/core/cuda/trace.h" ]; then echo core/cuda/trace.h >>"$lists/some"; fi
sort "$lists/some" >"$lists/installed"
[ -s "$lists/installed" ] || { echo "no headers in $1/mezzo"; exit 1; }
diff "$lists/listed" "$lists/installed" || { echo "listed (<) and installed (>) headers differ"; exit 1; }

# Plain structs and modes that optimizers, schedules, ops and tensors of a program are declared with.
cat >"$lists/allowed" <<'TEXT'
kernels/optim/optimizer.h
kernels/optim/schedule_node.h
kernels/pool/windows.h
kernels/resample/grid_modes.h
kernels/scaler/scaler_record.h
kernels/view.h
TEXT
sh "$2/tools/public_headers.sh" "$2" program | sort >"$lists/program"
[ -s "$lists/program" ] || { echo "no headers of programs"; exit 1; }
grep -E '^(kernels|core/cuda|core/parallel)/' "$lists/program" >"$lists/found" || true
diff "$lists/allowed" "$lists/found" ||
  { echo "what a program may include of kernels (<) and what it includes (>) differ"; exit 1; }
