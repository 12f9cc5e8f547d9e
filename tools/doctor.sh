# shellcheck shell=sh disable=SC2154 # the names are those of mezzo.sh
# `./mezzo.sh doctor`, read by mezzo.sh. Everything that is looked for stands in mezzo.sh (check_all); here is how it is
# told. The last line says whether a build can start; status 3 when it cannot.

# version_of PREFIX FILE.pc, or PREFIX FILE MACRO...: the version that a file below the prefix states, if it does. Without
# a file none.
version_of() {
  [ $# -gt 1 ] || return 0
  case $2 in
    *.pc)
      for pc in "$1/lib/pkgconfig/$2" "$1"/lib*/*/pkgconfig/"$2" "$1/share/pkgconfig/$2"; do
        if [ -e "$pc" ]; then sed -n 's/^Version: *//p' "$pc"; fi
      done | head -n 1
      return ;;
  esac
  version_file=$1/$2
  shift 2
  [ -e "$version_file" ] || return 0
  for macro; do
    sed -n "s/^ *# *define *$macro  *\"\{0,1\}\([0-9.][0-9.]*\).*/\1/p" "$version_file" | head -n 1
  done | awk '{ text = text (NR > 1 ? "." : "") $1 }
    END { if (text ~ /^[0-9]+$/) text = int(text / 10000) "." int(text / 100) % 100 "." text % 100; print text }'
}

report_found() { printf '  %-14s %-9s %s\n' "$name" "${version:--}" "$found"; }
report_missing() {
  # shellcheck disable=SC2086 # may be several
  set_apt_line $package
  printf '  %-14s %s (%s): %s; cure: %s\n' "$name" "$problem" "$kind" "$meaning" "$apt_line"
}

# has_all FLAG...: does the processor have them all?
has_all() { for flag; do case $flags in *" $flag "*) ;; *) return 1 ;; esac; done; }

report_processor() {
  model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
  flags=" $(sed -n 's/^flags[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1) "
  set="$(uname -m): the baseline of the compiler"
  if [ "$(uname -m)" = x86_64 ]; then
    set="x86-64: the slowest of the three that kernels are compiled for"
    if has_all avx2 fma f16c bmi1 bmi2 movbe; then set="x86-64-v3 (AVX2)"; fi
    if has_all avx512f avx512bw avx512cd avx512dq avx512vl; then set="x86-64-v4 (AVX-512)"; fi
    if has_all amx_tile amx_bf16; then set="$set, matrix units (AMX bf16)"; else set="$set, no matrix units (AMX)"; fi
  fi
  printf '  %-14s %s\n' processor "${model:-unknown}" "" "$set" threads "$(jobs)"
}

report_cuda() {
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || nvcc=
  toolkit="no toolkit found: a build has no CUDA"
  if [ -n "$nvcc" ]; then toolkit="toolkit $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p') at $nvcc: builds have CUDA"; fi
  gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || gpus=
  printf '  %-14s %s; %s\n' CUDA "$toolkit" "${gpus:-no usable GPU (nvidia-smi shows none): the CPU runs}"
}

printf 'mezzo in %s\n' "$root"
check_all yes required examples tests
report_processor
report_cuda
printf '  %-14s %s MB free, a build with all tests takes about %s\n' disk "$(free_mb)" "$all_mb"
# shellcheck disable=SC2086 # several
set_apt_line $packages $test_packages
[ -z "$missing$missing_optional" ] || printf 'missing:%s; this installs everything: %s\n' "$(first_names "$missing$missing_optional")" "$apt_line"
[ -z "$missing" ] || { printf 'not ready: required packages are missing\n'; exit 3; }
printf 'ready: ./mezzo.sh demo\n'
