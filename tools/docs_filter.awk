# Turns a file of the tree into what Doxygen understands better; its INPUT_FILTER (docs/Doxyfile). The files themselves
# are written for readers of the source. Every line stays on its line, as Doxygen links to them.
# In headers: the comment at the top is the file's, "// --- title" begins a group of declarations, lines that are
# indented by three in a comment are code, the labels of a contract are bold on lines of their own, and an overload
# without a comment has that of the one before.
# In Markdown: headings get the anchors that GitHub gives them, and links lead to pages, or from build/docs/html to
# files of the tree.

NR == 1 {
  file = FILENAME
  sub(/^.*build\/docs\/mezzo\//, "", file)
  markdown = file ~ /\.md$/
}

{ line[NR] = $0 }

END {
  last = NR
  if (markdown) {
    for (at = 1; at <= last; ++at) { whole_link(); print page_line(line[at]) }
    exit
  }
  file_comment()
  for (at = 1; at <= last; ++at) {
    formula()
    groups()
    code()
    labels()
    overloads()
  }
  for (at = 1; at <= last; ++at) print line[at]
}

# --- headers

function indent_of(text) { match(text, /^ */); return RLENGTH }
function is_doc(text) { return text ~ /^ *\/\/\/( |$)/ }

function file_comment(    i) {
  for (i = 1; i <= last && line[i] ~ /^\/\/( |$)/; ++i) line[i] = "/" line[i]
  if (i > 1) sub(/^\/\/\/ /, "/// \\file \\ilinebr ", line[1])
}

# A line that begins with an operator goes on with a formula, and is no list: lists are indented.
function formula() {
  if (line[at] !~ /^ *\/\/\/ [-+*] / || !is_doc(line[at - 1])) return
  line[at - 1] = line[at - 1] " " substr(line[at], indent_of(line[at]) + 5, 1)
  sub(/\/\/\/ [-+*] /, "/// ", line[at])
}

# A group reaches to the next title or to the end of its class or namespace.
function groups(    text, title, rest, i, indent, closing) {
  indent = indent_of(line[at])
  if (in_group && line[at] !~ /^ *$|^#/ &&
      (line[at] ~ /^ *\/\/ --- / || line[at] ~ /^}  \/\/ namespace/ || indent < group_indent)) {
    line[at] = "/**@}*/ " line[at]
    in_group = 0
  }
  if (!match(line[at], /\/\/ --- /)) return
  closing = line[at] ~ /^\/\*\*@}/ ? "/**@}*/ " : ""
  text = substr(line[at], RSTART + RLENGTH)
  group_indent = indent
  for (i = at + 1; line[i] ~ /^ *\/\/ /; ++i) {
    if (line[i] !~ /^ *\/\/ ---/) { rest = line[i]; sub(/^ *\/\/ /, "", rest); text = text " " rest }
    line[i] = ""
  }
  sub(/ \([a-z_]+\/[^)]*\)/, "", text)
  title = text
  rest = ""
  if (match(text, /[.;:] /)) {
    title = substr(text, 1, RSTART - 1)
    rest = substr(text, RSTART + 2)
    rest = toupper(substr(rest, 1, 1)) substr(rest, 2)
    if (rest !~ /\.$/) rest = rest "."
  }
  sub(/\.$/, "", title)
  line[at] = closing
  if (title == "definitions" || title == "inline") return
  title = toupper(substr(title, 1, 1)) substr(title, 2)
  line[at] = line[at] "/** \\name " title (rest == "" ? "" : " \\ilinebr " rest) " */ /**@{*/"
  in_group = 1
}

function code(    i) {
  if (!is_doc(line[at]) || line[at] !~ /\/\/\/   / || line[at] ~ /\/\/\/ *[*] / || at <= coded) return
  for (i = at; line[i] ~ /\/\/\/   /; ++i) {
    is_code[i] = 1
    if (i > at) sub(/\/\/\/   /, "///  ", line[i])  # Doxygen takes one space less from all but the first line
  }
  coded = i - 1
  sub(/\/\/\//, "/// @code{.cpp}", line[at])
  line[coded] = line[coded] " @endcode"
}

function labels() {
  if (!is_doc(line[at]) || at in is_code) return
  gsub(/(Shapes|Dtypes|Throws|Source):( |$)/, "<br><b>&</b>", line[at])
  if (!is_doc(line[at - 1])) sub(/\/\/\/ <br>/, "/// ", line[at])
}

# The name that a line declares as a function, if it is seen on this line.
function function_name(text) {
  if (text !~ /\(/ || text ~ /^ *(\/\/|#|}|~)|= (delete|default);/) return ""
  sub(/\(.*/, "", text)
  if (!match(text, /(operator *[^a-z ]+|[A-Za-z_][A-Za-z_0-9]*)$/)) return ""
  return substr(text, RSTART)
}

function overloads(    name, text) {
  if (is_doc(line[at])) {
    text = line[at]
    sub(/^ *\/\/\/ ?/, "", text)
    if (!doc_open) { doc = ""; doc_open = 1 }
    if (!(at in is_code)) doc = doc " " text
    return
  }
  if (line[at] ~ /^ *$|^ *\/\// || (doc_name != "" && indent_of(line[at]) < doc_indent)) {
    doc_name = ""
    doc_open = 0
    return
  }
  name = function_name(line[at])
  if (doc_open) {
    if (line[at] ~ /^ *template/) return
    doc_open = 0
    doc_name = name
    doc_indent = indent_of(line[at])
    return
  }
  if (name == "" || name != doc_name || indent_of(line[at]) != doc_indent || line[at] ~ /\/\/\/</) return
  gsub(/\*\//, "* /", doc)
  line[at] = "/**" doc " */ " line[at]
}

# --- pages

function id_of(path) {
  sub(/\.md$/, "", path)
  gsub(/[^A-Za-z0-9]/, "_", path)
  return tolower(path)
}

# The anchor that GitHub makes of a heading.
function slug(text) {
  text = tolower(text)
  gsub(/[^a-z0-9 _-]/, "", text)
  gsub(/ /, "-", text)
  return text
}

# The path from the root of what a link of this file names.
function from_root(target,    path) {
  path = file
  if (!sub(/\/[^\/]*$/, "/", path)) path = ""
  path = path target
  while (match(path, /[^\/]+\/\.\.\//)) path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
  return path
}

function link(target,    anchor, path) {
  if (target ~ /^[a-z]+:/) return target
  anchor = ""
  if (match(target, /#.*/)) { anchor = "_" substr(target, RSTART + 1); target = substr(target, 1, RSTART - 1) }
  path = target == "" ? file : from_root(target)
  if (path ~ /\.md$/) return "@ref " id_of(path) anchor
  return "../../../" path
}

# The text of a link must stand on one line.
function whole_link() {
  if (!match(line[at], /\[[^]]*$/) || line[at + 1] !~ /^[^][]*\]\(/) return
  line[at + 1] = substr(line[at], RSTART) " " line[at + 1]
  line[at] = substr(line[at], 1, RSTART - 1)
}

function page_line(text,    result, title, start, length_) {
  if (text ~ /^ *```/) fenced = !fenced
  if (fenced || text ~ /^ *```/) return text
  if (text ~ /^#+ /) {
    title = text
    sub(/^#+ /, "", title)
    gsub(/`/, "", text)
    if (text ~ /^# /) return text " {#" id_of(file) "}"
    return text " {#" id_of(file) "_" slug(title) "}"
  }
  result = ""
  while (match(text, /\]\([^)]*\)/)) {
    start = RSTART
    length_ = RLENGTH
    result = result substr(text, 1, start) "(" link(substr(text, start + 2, length_ - 3)) ")"
    text = substr(text, start + length_)
  }
  return result text
}
