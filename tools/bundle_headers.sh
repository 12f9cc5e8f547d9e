#!/bin/sh
# Packs the libraries that mezzo is compiled with, so that a machine without them can build it again from its sources:
# headers, CMake's packages, and the static libraries of GoogleTest. Unpacked, the folder is a CMAKE_PREFIX_PATH.
# usage: bundle_headers.sh FILE.tar.gz FOLDER...   FOLDER: where CMake's package is, as find_package says (fmt_DIR)
set -eu
file=$1
shift
die() { printf 'bundle_headers: %s\n' "$*" >&2; exit 1; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# take PREFIX PATTERN...: what there is of it, at the same place.
take() {
  prefix=$1
  shift
  for pattern in "$@"; do
    for found in "$prefix"/$pattern; do
      [ -e "$found" ] || continue
      to=$stage${found#"$prefix"}
      mkdir -p "$(dirname "$to")"
      cp -R "$found" "$to"
    done
  done
}

for folder in "$@"; do
  [ -d "$folder" ] || die "expected a folder of a CMake package, got '$folder'"
  case $folder in
    */share/*) prefix=${folder%/share/*} ;;
    */lib/*) prefix=${folder%/lib/*} ;;
    */lib64/*) prefix=${folder%/lib64/*} ;;
    *) die "expected a folder below lib/, lib64/ or share/, got '$folder'" ;;
  esac
  take "$prefix" "${folder#"$prefix"/}"
  # The packages of fmt and GoogleTest look for their libraries.
  case $folder in
    *[Ee]igen3*) take "$prefix" include/eigen3/Eigen include/eigen3/signature_of_eigen3_matrix_library ;;
    *nlohmann*) take "$prefix" include/nlohmann ;;
    *CLI11*) take "$prefix" include/CLI ;;
    *fmt*) take "$prefix" include/fmt 'lib*/libfmt*' 'lib/*/libfmt*' ;;
    *GTest*)
      take "$prefix" include/gtest include/gmock 'lib*/libgtest*' 'lib*/libgmock*' 'lib/*/libgtest*' 'lib/*/libgmock*' ;;
    *) die "expected a package of Eigen3, fmt, nlohmann_json, CLI11 or GTest, got '$folder'" ;;
  esac
done
tar -C "$stage" -czf "$file" .
