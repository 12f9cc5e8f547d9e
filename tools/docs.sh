# shellcheck shell=sh disable=SC2154,SC2034 # the names are those of mezzo.sh
# `./mezzo.sh docs`, read by mezzo.sh: the API reference by Doxygen, of the headers that are installed and of the pages.
# docs/Doxyfile has the options, tools/docs_filter.awk makes of each file what Doxygen understands. CMake is not needed.

docs=$root/build/docs

# The package is asked for only here: nothing else needs it.
need_doxygen() {
  if have doxygen; then return; fi
  missing=" doxygen" missing_optional="" remarks="" meanings="" packages=doxygen
  install_missing "$packages"
  have doxygen || die 3 "still missing: doxygen; install it by hand"
}

# The options of this run: the version, and every file by its name below build/docs/mezzo, a link to the tree.
docs_options() {
  cat docs/Doxyfile
  printf 'PROJECT_NUMBER = "%s"\nINPUT =' "$(sed -n 's/^project(mezzo VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
  for file in README.md docs/*.md bench/README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md $headers; do
    printf ' \\\n  build/docs/mezzo/%s' "$file"
  done
  printf '\n'
}

check_folder
check_space "$docs_mb"
need_doxygen
cd "$root" || exit 1
headers=$(tools/public_headers.sh) || die 1 "docs failed: the installed headers are not known"
{ mkdir -p "$docs" && rm -rf "$docs/html" "$docs/mezzo" && ln -s ../.. "$docs/mezzo" &&
  docs_options >"$docs/Doxyfile"; } 2>/dev/null || die 3 "cannot write to $docs: $cure_of_folder"
begin docs
logged doxygen build/docs/Doxyfile
# Doxygen may say the same several times.
warnings=$(sed "s|^$root/build/docs/mezzo/||" "$log" | awk '!seen[$0]++')
[ -z "$warnings" ] || printf '%s\n' "$warnings" >&2
count=$(printf '%s\n' "$warnings" | grep -c '\.h:[0-9]*: warning: ') || true
[ "$count" = 0 ] || die 1 "docs failed: $count warning(s) of public headers, see above: mend these comments"
say "API reference: $docs/html/index.html"
