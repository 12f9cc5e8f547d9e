# The checks of check_tree.sh on the tree as a whole, for awk. A unit is a header and the source of its name.
#  * No cycle: the includes between the units of the library's folders have an order.
#  * A folder of the library has at most 40 files.
#  * Every file begins with a comment that says what it holds.
# Prints one line per violation; paths are relative to the root.

BEGIN {
  most_files = 40
  count = split("core autograd kernels ops nn optim io data amp dist train", names, " ")
  for (i = 1; i <= count; ++i) in_library[names[i]] = 1
}

function unit_of(path) { sub(/\.(h|cpp|cu)$/, "", path); return path }

FNR == 1 {
  file = FILENAME
  sub(/^\.\//, "", file)
  if ($0 !~ /^\/\//) print file ": does not begin with a comment that says what it holds"
  split(file, parts, "/")
  is_ours = parts[1] in in_library
  if (is_ours) {
    folder = file
    sub(/\/[^\/]*$/, "", folder)
    ++files[folder]
    unit = unit_of(file)
    units[unit] = 1
  }
}

is_ours && match($0, /^[ \t]*#[ \t]*include[ \t]*["<]mezzo\/[^">]*/) {
  included = substr($0, RSTART, RLENGTH)
  sub(/.*mezzo\//, "", included)
  included = unit_of(included)
  if (included != unit && !((unit, included) in edge)) {
    edge[unit, included] = 1
    targets[unit] = targets[unit] " " included
  }
}

END {
  for (folder in files) {
    if (files[folder] > most_files) print folder ": " files[folder] " files, more than " most_files
  }
  # Units without an include of another go, again and again; what remains is on a cycle or leads to one.
  do {
    gone = 0
    for (unit in units) {
      n = split(targets[unit], list, " ")
      open = 0
      for (i = 1; i <= n; ++i) if (list[i] in units) open = 1
      if (!open) { leaves[++gone] = unit }
    }
    for (i = 1; i <= gone; ++i) delete units[leaves[i]]
  } while (gone > 0)
  # From there on, include by include, until a unit comes a second time.
  for (unit in units) {
    path = unit
    while (!(unit in seen)) {
      seen[unit] = 1
      n = split(targets[unit], list, " ")
      for (i = 1; i <= n; ++i) if (list[i] in units) { unit = list[i]; break }
      path = path " -> " unit
    }
    print "a cycle of includes: " path
    break
  }
}
