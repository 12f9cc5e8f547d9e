#!/bin/sh
# Checks installed headers: they include the standard library and each other only, do not depend on macros that are
# private to the library's build, and each compiles on its own. Those in a folder cuda/ may include CUDA's runtime too,
# and are compiled by nvcc. Without nvcc only those are installed that need no CUDA, and the C++ compiler takes them.
# And checks that mezzo.h leaves out the standard headers that cost a program most.
# usage: headers.sh INCLUDE_DIR COMPILER [NVCC]    one line per violation, status 1 when there is one
set -eu
LC_ALL=C
export LC_ALL
cd "$1"
compiler=$2 nvcc=${3:-}
# What projects ask for that take our headers as their own. g++ warns of a base class's destructor with -Weffc++ only, whose
# other advice is not meant.
flags="-std=c++20 -Wall -Wextra -Wredundant-decls -Weffc++ -Werror -Wno-error=effc++ -Werror=non-virtual-dtor"
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
headers=$(find mezzo -name '*.h' | sort)
[ -n "$headers" ] || { echo "no headers in $1/mezzo"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
problems=$work/problems

# Headers of the standard library have no dot; the others named here come with every compiler for the processor.
for header in $headers; do
  sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*\).*/\1/p' "$header" | while read -r name; do
    case $name in
      \"mezzo/kernels/cuda/* | \"mezzo/kernels/*/cuda[._]*) ;; # asked for only where it is installed (kernels/device_code.h)
      [\"\<]mezzo/*) [ -e "${name#?}" ] || echo "$header: includes ${name#?}, which is not installed" ;;
      \<immintrin.h) ;;
      \<cuda_runtime.h) case $header in */cuda/* | */kernels/*/cuda[._]*) ;; *) echo "$header: includes ${name#?}, and is installed without CUDA as well" ;; esac ;;
      \<*[./]* | \"*) echo "$header: includes ${name#?}, which is not of the standard library" ;;
    esac
  done
  if grep -q 'MEZZO_HAVE_' "$header"; then echo "$header: depends on a private macro $(grep -o 'MEZZO_HAVE_[A-Z_0-9]*' "$header" | head -n 1)"; fi
done >"$problems"

# Most headers include tensor.h, themselves or by another. As it compiles on its own, it may as well come first, and is
# parsed once for all of them.
: >"$work/with_tensor"
if [ -e mezzo/core/tensor.h ]; then
  printf '#include <mezzo/core/tensor.h>\n' >"$work/tensor.h"
  # shellcheck disable=SC2086 # several words
  $compiler $flags -I. -x c++-header -o "$work/tensor.h.gch" "$work/tensor.h" >/dev/null 2>&1 || true
  found=mezzo/core/tensor.h
  while [ -n "$found" ]; do
    # shellcheck disable=SC2086 # several names
    found=$(printf '#include ["<]%s\n' $found | grep -lf - $headers | grep -vxFf "$work/with_tensor" -e mezzo/core/tensor.h) || true
    printf '%s\n' "$found" | sed '/^$/d' >>"$work/with_tensor"
  done
fi

# shellcheck disable=SC2016 # $1 to $5 are those of the inner shell
printf '%s\n' "$headers" | xargs -P "$jobs" -n 1 sh -c '
  compiler=$1 nvcc=$2 work=$3 flags=$4 header=$5
  shift 5
  case $nvcc:$header in
    ?*:*/cuda/* | ?*:*/kernels/*/cuda[._]*)
      source=$(mktemp -p "$work" --suffix=.cu)
      printf "#include <%s>\n" "$header" >"$source"
      "$nvcc" -std=c++20 --expt-relaxed-constexpr -Werror=all-warnings -I. --cuda -o /dev/null "$source" ;;
    *)
      if grep -qxF "$header" "$work/with_tensor"; then set -- -include "$work/tensor.h"; fi
      printf "#include <%s>\n" "$header" | "$compiler" $flags -fsyntax-only -I. "$@" -x c++ - ;;
  esac >/dev/null 2>&1 || printf "%s: does not compile on its own\n" "$header"' sh "$compiler" "$nvcc" "$work" "$flags" |
  sort >>"$problems"

# Windows are drawn by programs that include X11, whose headers define words as macros.
{
  for macro in None=0L Bool=int Status=int Success=0 True=1 False=0 Always=2 Above=0 Below=1 Complex=0 Convex=2 Unsorted=0 \
    BadValue=2 AllValues=15 FocusIn=9 KeyPress=2 CursorShape=0; do printf '#define %s %s\n' "${macro%%=*}" "${macro#*=}"; done
  for header in mezzo/*.h; do printf '#include <%s>\n' "$header"; done
  printf '#if !defined None\n#error a macro of the program is gone\n#endif\nlong none() { return None; }\n'
} | $compiler -std=c++20 -fsyntax-only -I. -x c++ - >/dev/null 2>&1 ||
  echo "mezzo/mezzo.h: does not compile beside X11's macros" >>"$problems"

# What mezzo.h pulls in every program compiles. With libstdc++ only, as others share headers in other ways.
printf '#include <mezzo/mezzo.h>\n' | $compiler -std=c++20 -I. -M -x c++ - 2>/dev/null | tr -s ' \\' '\n' |
  grep -E '/c\+\+/[0-9][^/]*/(algorithm|atomic|deque|functional|iostream|mutex|random|regex|sstream|thread|unordered_map|unordered_set|variant)$' |
  sed 's|.*/|mezzo/mezzo.h: pulls in the costly header |' | sort -u >>"$problems" || true

cat "$problems"
printf '%s headers, %s problem(s)\n' "$(printf '%s\n' "$headers" | wc -l)" "$(wc -l <"$problems")"
[ ! -s "$problems" ]
