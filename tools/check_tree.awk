# The checks of check_tree.sh, for awk. Reads C++ files formatted by clang-format; paths are relative to the root.
# Prints one line per violation, and "LINES <count> <path>" for each file and "FUNCTION <count> <path>:<line> <name>" for
# each function of several lines, which check_tree.sh turns into statistics.
#
# Functions are found by counting braces: a `{` at the end of a line, outside any function, opens a function when the
# text since the last `;` or `}` ends like a function head. Everything inside it belongs to it, lambdas too.

BEGIN {
  # The layer table: for each folder, those it may include besides itself. A trailing star: from .cpp files only.
  may["core"] = ""
  may["kernels"] = "core"
  may["autograd"] = "core ops*"
  may["ops"] = "autograd kernels core"
  below = "ops autograd kernels core"
  may["nn"] = may["optim"] = may["io"] = may["dist"] = below
  may["data"] = "io " below
  may["amp"] = "nn optim data io dist " below
  may["train"] = "amp nn optim data io dist " below
  max_file = 500
  max_function = 60
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

# An #include line of a layered folder.
function check_include(line,    path, parts) {
  if (!(folder in may)) return
  path = line
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", path)
  if (path ~ /^"/ && path !~ /^"mezzo\//) {
    report(file ":" FNR, "include " path " is not written as \"mezzo/<folder>/...\"")
    return
  }
  if (path !~ /^["<]mezzo\//) return
  split(path, parts, "/")
  if (path ~ /^["<]mezzo\/[^\/]*$/) {
    report(file ":" FNR, folder " includes the umbrella header " path)
  } else if (!allowed(folder, parts[2], file)) {
    report(file ":" FNR, folder " may not include " parts[2] " (" path ")")
  }
}

# The line without comments, and with strings and characters emptied. Keeps in_comment and raw_end across lines.
function strip(line,    out, c, two, at, match_end) {
  out = ""
  while (line != "") {
    if (in_comment) {
      at = index(line, "*/")
      if (at == 0) return out
      line = substr(line, at + 2)
      in_comment = 0
      continue
    }
    if (raw_end != "") {
      at = index(line, raw_end)
      if (at == 0) return out
      line = substr(line, at + length(raw_end))
      raw_end = ""
      out = out "\"\""
      continue
    }
    # All up to the next character that can open something is taken as it stands.
    if (match(line, /["'\/]/) == 0) return out line
    out = out substr(line, 1, RSTART - 1)
    line = substr(line, RSTART)
    c = substr(line, 1, 1)
    two = substr(line, 1, 2)
    if (two == "//") return out
    if (two == "/*") {
      in_comment = 1
      line = substr(line, 3)
    } else if (c == "\"" && out ~ /R$/) {
      at = index(line, "(")
      raw_end = ")" substr(line, 2, at - 2) "\""
      line = substr(line, at + 1)
      sub(/R$/, "", out)
    } else if (c == "'" && out ~ /[0-9a-fA-F]$/ && line ~ /^'[0-9a-fA-F]/) {
      out = out "_"  # a digit separator
      line = substr(line, 2)
    } else if (c == "\"" || c == "'") {
      match_end = c == "\"" ? match(line, /^"([^"\\]|\\.)*"/) : match(line, /^'([^'\\]|\\.)*'/)
      out = out "\"\""
      line = match_end ? substr(line, RLENGTH + 1) : ""
    } else {
      out = out c
      line = substr(line, 2)
    }
  }
  return out
}

function trim(text) { gsub(/[ \t\r]+/, " ", text); sub(/^ /, "", text); sub(/ $/, "", text); return text }

# A declaration without its template parameters and without specifiers that take arguments.
function plain_head(head,    i, open, c) {
  if (head ~ /^template ?</) {
    for (i = index(head, "<"); i <= length(head); ++i) {
      c = substr(head, i, 1)
      if (c == "<") ++open
      if (c == ">" && --open == 0) break
    }
    head = substr(head, i + 1)
  }
  gsub(/(alignas|__attribute__|requires|decltype|noexcept|explicit) ?\(+[^()]*(\([^()]*\)[^()]*)*\)+/, "", head)
  return head
}

# What a `{` after this text opens: function, or scope (namespace, class, initialiser).
function kind_of(text,    head) {
  head = plain_head(text)
  if (head ~ /(^|[ >])(namespace|struct|class|union|enum|extern)[^()]*$/ && head !~ /\)/) return "scope"
  if (head ~ /(^|[ >])(struct|class|union|enum)( [^()<>]*)?$/) return "scope"
  if (text ~ /\)( ?(const|volatile|noexcept|override|final|mutable|constexpr|&|&&|try))*( ?noexcept\(.*\))?( ?->[^;=]*)?( ?requires .*)?$/) {
    return "function"
  }
  if (text ~ /\) ?(noexcept )?: ?[A-Za-z_].*[)@]$/) return "function"  # a constructor with member initialisers
  if (text ~ /\[[^][]*\]$/ && text !~ /[A-Za-z0-9_]\[[^][]*\]$/) return "function"  # a lambda without parameters
  return "scope"
}

function name_of(text,    head, name) {
  head = plain_head(text)
  if (match(head, /(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\([^()]*\)/)) return substr(head, RSTART, RLENGTH)
  if (match(head, /operator ?[^A-Za-z0-9_ (]+ ?\(/) || match(head, /operator\(\)\(/)) {
    name = substr(head, RSTART, RLENGTH - 1)
    return trim(name)
  }
  if (head ~ /= ?\[[^][]*\]/) {
    match(head, /[A-Za-z_][A-Za-z0-9_]* ?= ?\[/)
    name = substr(head, RSTART, RLENGTH)
    sub(/ ?= ?\[$/, "", name)
    return "lambda " name
  }
  if (match(head, /[A-Za-z_~][A-Za-z0-9_:~]*(<[^<>()]*>[A-Za-z0-9_:~]*)? ?\(/)) return trim(substr(head, RSTART, RLENGTH - 1))
  return "lambda"
}

function start_file() {
  if (file != "") finish_file()
  file = FILENAME
  sub(/^\.\//, "", file)
  folder = file ~ /\// ? file : ""
  sub(/\/.*$/, "", folder)
  in_comment = 0
  raw_end = ""
  in_macro = 0
  depth = 0
  function_depth = 0
  text = ""
}

function finish_file() {
  print "LINES " lines " " file
  if (lines > max_file) report(file, lines " lines, more than " max_file)
  if (depth != 0) report(file, "braces do not balance for this check (depth " depth " at the end); is it formatted?")
}

function open_brace() {
  ++depth
  if (function_depth == 0 && kind_of(trim(text)) == "function") {
    function_depth = depth
    function_line = FNR
    function_name = name_of(trim(text))
  }
  text = ""
}

function close_brace(    length_) {
  if (depth == function_depth) {
    length_ = FNR - function_line + 1
    print "FUNCTION " length_ " " file ":" function_line " " function_name
    if (length_ > max_function) {
      report(file ":" function_line, "function " function_name " has " length_ " lines, more than " max_function)
    }
    function_depth = 0
  }
  --depth
  text = ""
}

FNR == 1 { start_file() }

{
  lines = FNR
  if (raw_end == "" && !in_comment && (in_macro || $0 ~ /^[ \t]*#/)) {
    if (!in_macro && $0 ~ /^[ \t]*#[ \t]*include/) check_include($0)
    in_macro = $0 ~ /\\[ \t\r]*$/
    next
  }
  line = strip($0)
  if (line ~ /[^ \t]/) {
    # A pair of braces within the line opens nothing; @ stands for it.
    while (gsub(/\{[^{}]*\}/, "@", line)) {}
    while (match(line, /[{}]/)) {
      brace = substr(line, RSTART, 1)
      text = text " " substr(line, 1, RSTART - 1)
      line = substr(line, RSTART + 1)
      if (brace == "{") open_brace()
      else close_brace()
    }
    text = text " " line
    if (line ~ /[;@][ \t]*$/ || line ~ /^[ \t]*(public|private|protected):[ \t]*$/) text = ""
  }
}

END { if (file != "") finish_file() }
