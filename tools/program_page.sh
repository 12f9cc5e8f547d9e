#!/bin/sh
# Writes docs/programs.md from examples/from_pytorch: a table of the programs and their twins.
# The last losses of the programs are those that the programs in BUILD print; those of the twins stand in expected/.
# usage: program_page.sh BUILD      writes the page; BUILD is build/release, for example
#        program_page.sh --check    compares it, but for the losses of the programs; status 1 when it is stale
set -eu
LC_ALL=C
export LC_ALL
cd -- "$(dirname -- "$0")/.."
page=docs/programs.md
folder=examples/from_pytorch
names="mnist dcgan word_language_model time_series super_resolution vae actor_critic siamese translation
  lbfgs_regression physics_informed graph_convolution"

# lines_of FILE: how many are neither blank nor comment. Docstrings are comments; those of the twins are of one line.
lines_of() { awk '$1 != "" && $1 !~ /^(\/\/|#$|""")/ { ++n } END { print n }' "$1"; }

# last_loss <TEXT: the number behind the last word that begins with "loss".
last_loss() { awk '{ for (i = 1; i < NF; ++i) if ($i ~ /^loss/) last = $(i + 1) } END { print last }'; }

# link TEXT FILE; loss_in_page NAME: what stands there now.
link() { echo "[$1](../$folder/$2)"; }
loss_in_page() { awk -F' *[|] *' -v first="$(link "$1" "$1.cpp")" '$2 == first { print $6 }' "$page"; }

make_page() {
  cat <<'TEXT'
<!-- Made by tools/program_page.sh; the test program_page compares. -->
# Well-known PyTorch programs on mezzo

The programs that one learns PyTorch by, each in C++ on mezzo and in Python on PyTorch, in the same structure. They
stand in [examples/from_pytorch](../examples/from_pytorch) and are built as
`build/<preset>/examples/from_pytorch/<name>`.

* They download nothing: data, first weights and noise come from one small generator of random numbers, which
  [twin.h](../examples/from_pytorch/twin.h) and [twin.py](../examples/from_pytorch/twin.py) both have. So each program
  prints the losses that its twin prints, line by line, as far as f32 is rounded alike; the tests compare them
  ([expected](../examples/from_pytorch/expected)).
* `--cuda` runs on a GPU, `--steps N` changes the length, and `--bf16` or `--f16` trains in mixed precision where the
  program has it.
* A twin runs by `python3 examples/from_pytorch/<name>.py` and needs PyTorch only.

Lines are counted without blank ones and comments; the losses are the last ones that are printed.

| program | what it shows | lines of C++ | lines of Python | loss, mezzo | loss, PyTorch |
| --- | --- | --- | --- | --- | --- |
TEXT
  for name in $names; do
    shows=$(sed -n '1s/^"""[a-z_]*: \(.*\)\."""$/\1/p' "$folder/$name.py")
    if [ -z "$shows" ]; then
      echo "program_page: expected '$name: what it shows.' as the first line of $folder/$name.py" >&2
      exit 1
    fi
    if [ -n "$build" ]; then loss=$("$build/$folder/$name" | last_loss); else loss=$(loss_in_page "$name"); fi
    twin=$(sed -e 1d -e 's/ # .*//' "$folder/expected/$name.txt" | last_loss)
    python=$(link "$(lines_of "$folder/$name.py")" "$name.py")
    echo "| $(link "$name" "$name.cpp") | $shows | $(lines_of "$folder/$name.cpp") | $python | $loss | $twin |"
  done
}

case "${1:-}" in
--check)
  build=
  made=$(make_page)
  printf '%s\n' "$made" | diff "$page" - >&2 || {
    echo "program_page: $page is stale; tools/program_page.sh build/release writes it" >&2
    exit 1
  }
  ;;
'' | -*) sed -n '4,5s/^# //p' "$0" >&2; exit 2 ;;
*)
  build=$1
  made=$(make_page)
  printf '%s\n' "$made" >"$page"
  ;;
esac
