#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENTS: compiles through ccache (the compiler launcher of mezzo's own builds).
#
# Without these settings ccache keeps nothing that was compiled with a precompiled header, and preprocesses a source
# once more to find its headers, which it else takes from the compiler's list (-MD).
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1

# ccache reads a precompiled header, some 100 MB, for each source that uses it, unless its checksum lies beside it.
export CCACHE_PCH_EXTSUM=1

case " $* " in
  *" -x c++-header "*) ;;
  *) exec "$@" ;;
esac
for argument; do
  [ "${option-}" = -o ] && header=$argument
  option=$argument
done
# The header that is replaced would count as one that the new one is made of.
rm -f "$header" "$header.sum"
"$@" || exit
sum=$(sha256sum <"$header") && echo "$sum" >"$header.sum"
