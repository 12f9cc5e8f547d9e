#!/bin/sh
# Prints the headers that are installed by a build without CUDA, one on each line: the two lists of roots that
# cmake/Install.cmake names, and what they include of mezzo. With "program", only what the first list leads to, headers
# of CUDA among it if there are any. It needs no CMake; tests/package/public_headers.sh compares the two.
# usage: public_headers.sh [ROOT [program]]
set -eu
cd "${1:-$(dirname -- "$0")/..}"
awk -v program="${2:-}" '
  FILENAME == "cmake/Install.cmake" {
    if (!sub(/^set\(mezzo_program_headers /, "") && (program || !sub(/^set\(mezzo_kernel_headers /, ""))) next
    sub(/\).*/, "")
    ++lists
    count = split($0, roots, " ")
    for (i = 1; i <= count; ++i) { header[++last] = roots[i]; known[roots[i]] = 1 }
  }
  END {
    if (lists != (program ? 1 : 2)) {
      print "public_headers: no mezzo_program_headers or mezzo_kernel_headers in cmake/Install.cmake" >"/dev/stderr"
      exit 1
    }
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
    # What includes the headers of CUDA itself is not installed without CUDA, as in cmake/Install.cmake.
    for (i = 1; i <= last; ++i) {
      if (program || header[i] !~ /\/cuda\/|^kernels\/[a-z]+\/cuda[_.]/) print header[i]
    }
  }' cmake/Install.cmake
