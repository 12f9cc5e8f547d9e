# The checks of check_tree.sh on each file, for awk: what its #include lines may name, and how long it is. Paths are
# relative to the root. Prints one line per violation, and "LINES <count> <path>" for each file.

BEGIN {
  # The layer table: for each folder, those it may include besides itself. A trailing star: from sources only.
  may["core"] = ""
  may["kernels"] = "core"
  may["autograd"] = "core ops*"
  may["ops"] = "autograd kernels core"
  below = "ops autograd kernels core"
  may["nn"] = may["optim"] = may["io"] = below
  may["data"] = "io " below
  may["dist"] = "nn optim io " below
  may["amp"] = "nn optim " below
  may["onnx"] = "amp nn io " below
  may["profile"] = "amp nn optim data io " below
  may["train"] = "profile amp nn optim data io dist " below
  max_file = 500
}

function report(where, text) { print where ": " text }

function allowed(from, to, file,    list, count, i) {
  if (from == to) return 1
  count = split(may[from], list, " ")
  for (i = 1; i <= count; ++i) {
    if (list[i] == to) return 1
    if (list[i] == to "*" && file ~ /\.(cpp|cu)$/) return 1
  }
  return 0
}

function finish_file() {
  if (file == "") return
  print "LINES " lines " " file
  if (lines > max_file) report(file, lines " lines, more than " max_file)
}

FNR == 1 {
  finish_file()
  file = FILENAME
  sub(/^\.\//, "", file)
  folder = file ~ /\// ? file : ""
  sub(/\/.*$/, "", folder)
}

{ lines = FNR }

folder in may && /^[ \t]*#[ \t]*include/ {
  path = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", path)
  if (path ~ /^"/ && path !~ /^"mezzo\//) {
    report(file ":" FNR, "include " path " is not written as \"mezzo/<folder>/...\"")
  } else if (path ~ /^["<]mezzo\/[^\/]*$/) {
    report(file ":" FNR, folder " includes the umbrella header " path)
  } else if (path ~ /^["<]mezzo\//) {
    split(path, parts, "/")
    if (!allowed(folder, parts[2], file)) report(file ":" FNR, folder " may not include " parts[2] " (" path ")")
  }
}

END { finish_file() }
