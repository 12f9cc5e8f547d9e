#!/bin/sh
# A source that holds kernels for all devices must end in .cu, or the operation throws on a GPU. Its object shows it: the
# front ends of the kernels (kernels/device_code.h) put the text of that error into what no device compiler has seen.
# usage: check_kernel_sources.sh OBJECTS...    status 1 when a .cpp should be a .cu
set -eu
text="compile this source file as CUDA"
problems=0 kernels=0
for object in "$@"; do
  case $object in
    */kernels/* | *.gch) continue ;; # the kernels themselves, and precompiled headers, which CMake counts as objects
    *.cu.o) if grep -q "$text" "$object"; then kernels=$((kernels + 1)); fi ;;
    *)
      if grep -q "$text" "$object"; then
        name=${object##*.dir/}
        printf '%s holds kernels: the name of its source must end in .cu\n' "${name%.o}"
        problems=$((problems + 1))
      fi ;;
  esac
done
printf '%s objects of .cu sources have kernels, %s problem(s)\n' "$kernels" "$problems"
[ "$problems" = 0 ] || exit 1
[ "$kernels" -gt 0 ] || { echo "no kernels found: is the text still in kernels/device_code.h?"; exit 1; }
