# Joins sources to one. Two tests may use one name in their anonymous namespaces, so each is named after its file: nothing
# outside of it refers to what is in it. In other sources (golden/, sweep/) something does, and these keep theirs apart by
# themselves.
# usage: awk -v joined=FILE -f join_sources.awk SOURCES...
FNR == 1 {
  printf "#line 1 \"%s\"\n", FILENAME > joined
  named = FILENAME ~ /\/tests\/[a-z_]+\/[a-z0-9_]+_test\.cpp$/
  name = FILENAME
  sub(/.*\//, "", name)
  sub(/\.cpp$/, "", name)
}
{
  if (named) sub(/^namespace \{$/, "namespace in_" name " {")
  print > joined
}
