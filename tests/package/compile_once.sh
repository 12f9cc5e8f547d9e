#!/bin/sh
# A compiler launcher for builds of the library as a part of another project, whose flags are hostile
# (strict_project.cmake). Every command is checked to be proof against them. The sources listed here are compiled; of the
# others the object that mezzo's own build made is taken, as compiling the library once more would take minutes.
# usage: compile_once.sh BUILD COMMAND...
set -eu
build=$1
shift
compiled="core/tensor.cpp autograd/engine.cpp kernels/scaler/cpu.cpp kernels/reduce/cpu_plan.cpp ops/linalg/matmul.cpp
nn/layers/linear.cpp amp/grad_scaler.cpp optim/optimizer.cpp io/safetensors.cpp"

object="" dependencies="" last="" level=""
for word in "$@"; do
  case $last in -o) object=$word ;; -MF) dependencies=$word ;; esac
  case $word in -O?) level=$word ;; esac
  last=$word
done
# Only the library's objects: the consumer's own program and precompiled headers are compiled.
case $object in *CMakeFiles/mezzo_*.dir/*.o) ;; *) exec "$@" ;; esac

refuse() { echo "compile_once.sh: the command for $object $1" >&2; exit 1; }
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
for source in $compiled; do [ -e "$root/$source" ] || refuse "is not tried: there is no $source to compile"; done
# Library.cmake joins the sources of a folder and names the result after it; a project that joins all numbers them.
case $object in *Unity/unity_[0-9]*) refuse "joins sources (CMAKE_UNITY_BUILD)" ;; esac
case " $* " in
  *nvcc*) ;;
  *)
    case " $* " in
      *" -fno-fast-math "*"-ffast-math "*) refuse "ends with the project's -ffast-math" ;;
      *" -fno-fast-math "*) ;;
      *) refuse "lacks -fno-fast-math" ;;
    esac
    case " $* " in *" -fno-rtti"*" -frtti "*) ;; *) refuse "has the project's -fno-rtti" ;; esac
    case " $* " in *" -flto"*) refuse "has the project's -flto (CMAKE_INTERPROCEDURAL_OPTIMIZATION)" ;; esac
    case $level:$object in
      -O3:*_loops.dir/* | -O2:*_mpi.dir/* | -O[23]:*_objects.dir/* | -O3:*_isa_*) ;;
      *) refuse "is optimised by '$level', as the project names no build type" ;;
    esac
    case " $* " in *" -w "*) ;; *) refuse "has the project's warnings" ;; esac
    case " $* " in *" -fvisibility=hidden "*) refuse "hides symbols (CMAKE_CXX_VISIBILITY_PRESET)" ;; esac
    case " $* " in *" -std=c++20 "*) ;; *) refuse "lacks -std=c++20 (CMAKE_CXX_STANDARD)" ;; esac ;;
esac
path=${object#*CMakeFiles/mezzo_*.dir/}
path=${path%.o}
for source in $compiled; do [ "$source" != "$path" ] || exec "$@"; done
made=$build/CMakeFiles/${object#*CMakeFiles/}
[ -e "$made" ] || refuse "makes what $build does not have"
cp "$made" "$object"
[ -z "$dependencies" ] || printf '%s: %s\n' "$object" "$made" >"$dependencies"
