# The checks of check_tree.sh on the tree as a whole, for awk. A unit is a header and the source of its name.
#  * No cycle: the includes between the units of the library's folders have an order.
#  * A folder of the library has at most 40 files.
#  * Every file begins with a comment that says what it holds.
#  * In core, autograd, amp, optim, io and nn, a source with a header of its own (of the same name, in its folder or in
#    one above) includes that first, and a header that one source alone begins with has a source of its name.
# Prints one line per violation; paths are relative to the root.

BEGIN {
  most_files = 40
  count = split("core autograd kernels ops nn optim io data amp dist onnx profile train", names, " ")
  for (i = 1; i <= count; ++i) in_library[names[i]] = 1
  count = split("core autograd amp optim io nn", names, " ")
  for (i = 1; i <= count; ++i) is_named[names[i]] = 1
  # Slots and their module know each other: with a source of its name, slot.h would be on a cycle with module.h.
  named["nn/module/slot.h"] = 1
}

function unit_of(path) { sub(/\.(h|cpp|cu)$/, "", path); return path }
function name_of(path) { sub(/.*\//, "", path); return unit_of(path) }

# The header of a source's name in its folder or the nearest one above, or nothing.
function own_header(source,    name, folder) {
  name = "/" name_of(source) ".h"
  folder = source
  while (sub(/\/[^\/]*$/, "", folder)) if ((folder name) in headers) return folder name
  return ""
}

# A header that stands alone in the first block of includes, of the source's folder or of one above, is what the source
# implements.
function check_names(    source, own, header, folder, claims, claimed_by) {
  for (source in first_include) {
    own = own_header(source)
    header = first_include[source]
    if (own != "" && header != own) print source ": does not include " own " first"
    folder = header
    sub(/[^\/]*$/, "", folder)
    if (!(header in headers) || !is_alone[source] || index(source, folder) != 1) continue
    ++claims[header]
    claimed_by[header] = source
    if (name_of(source) == name_of(header)) named[header] = 1
  }
  for (header in claims) {
    if (claims[header] == 1 && !(header in named)) print header ": its one source has another name, " claimed_by[header]
  }
}

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
    if (file ~ /\.h$/) headers[file] = 1
  }
  is_source = is_ours && file ~ /\.(cpp|cu)$/ && parts[1] in is_named
  if (is_source) first_include[file] = ""
  after_first = 0
}

is_source && after_first {
  is_alone[file] = $0 !~ /^[ \t]*#[ \t]*include/
  after_first = 0
}

is_source && first_include[file] == "" && /^[ \t]*#[ \t]*include/ {
  first_include[file] = $0
  sub(/^[^<"]*[<"](mezzo\/)?/, "", first_include[file])
  sub(/[>"].*/, "", first_include[file])
  after_first = 1
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
  check_names()
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
