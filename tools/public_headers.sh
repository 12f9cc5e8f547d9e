#!/bin/sh
# Prints the headers that are installed by a build without CUDA, one on each line: the roots that cmake/Install.cmake
# names, and what they include of mezzo. It needs no CMake; tests/package/public_headers.sh compares the two.
# usage: public_headers.sh [ROOT]
set -eu
cd "${1:-$(dirname -- "$0")/..}"
awk '
  FILENAME == "cmake/Install.cmake" {
    if (!sub(/^set\(mezzo_public_headers /, "")) next
    sub(/\).*/, "")
    last = split($0, header, " ")
    for (i = 1; i <= last; ++i) known[header[i]] = 1
  }
  END {
    if (!last) { print "public_headers: no mezzo_public_headers in cmake/Install.cmake" >"/dev/stderr"; exit 1 }
    for (i = 1; i <= last; ++i) {
      while ((got = (getline line <header[i])) > 0) {
        if (line !~ /^ *# *include [<"]mezzo\//) continue
        sub(/^[^<"]*[<"]mezzo\//, "", line)
        sub(/[>"].*/, "", line)
        if (!(line in known)) { known[line] = 1; header[++last] = line }
      }
      if (got < 0) { print "public_headers: cannot read " header[i] >"/dev/stderr"; exit 1 }
      close(header[i])
    }
    # What includes the headers of CUDA itself is left out, as in cmake/Install.cmake.
    for (i = 1; i <= last; ++i) {
      if (header[i] !~ /\/cuda\/|^kernels\/[a-z]+\/cuda[_.]/) print header[i]
    }
  }' cmake/Install.cmake
