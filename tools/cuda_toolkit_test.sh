#!/bin/sh
# Proves what cmake/CudaToolkit.cmake makes of toolkits: which it refuses, in one line with cause and cure, which
# architectures it takes, and which host compiler it chooses. nvcc and the compilers are scripts.
#   cuda_toolkit_test.sh CMAKE
set -eu
cmake=$1
look=$(CDPATH='' cd -- "$(dirname -- "$0")/../cmake" && pwd)/CudaToolkit.cmake
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset CUDACXX CUDAARCHS CUDAHOSTCXX CUDA_HOME CUDA_PATH
export RELEASE=12.4 SAYS= PATH="$work/bin:$PATH"
mkdir bin
# Knows RELEASE and some architectures; compiles for g++-13, and for its own choice unless it SAYS something.
cat >bin/nvcc <<'TEXT'
#!/bin/sh
case "$*" in
  --version) echo "Cuda compilation tools, release $RELEASE, V$RELEASE.131" ;;
  --list-gpu-arch) printf 'compute_%s\n' 50 70 75 80 86 89 90 ;;
  "-ccbin "*/bin/g++-13\ *) ;;
  "-ccbin "*) echo "error: -- unsupported GNU version" >&2; exit 1 ;;
  *) [ -z "$SAYS" ] || { echo "$SAYS" >&2; exit 1; } ;;
esac
TEXT
for number in 12 13 14 20; do printf '#!/bin/sh\n' >"bin/g++-$number"; done
chmod +x bin/*
cat >look.cmake <<TEXT
cmake_minimum_required(VERSION 3.22)
include("$look")
string(JOIN " " said "[\${CMAKE_CUDA_ARCHITECTURES}]" "\${CMAKE_CUDA_HOST_COMPILER}" "\${MEZZO_CUDA_WHY_NOT}")
message("\${said}")
TEXT
expect() {  # expect TEXT ARGUMENT...: what CMake says has the text, lines that it breaks being one
  text=$1
  shift
  said=$("$cmake" -DPROJECT_BINARY_DIR="$work" "$@" -P look.cmake 2>&1 | tr -s '\n ' ' ')
  case $said in *"$text"*) ;; *) echo "cmake/CudaToolkit.cmake: expected '$text', got: $said"; exit 1 ;; esac
}

expect "[75-real;80-real;90] "
expect "[90] " -DMEZZO_BUNDLE=ON
CUDAARCHS=70 expect "[70] "
expect "[90a-real;native] " "-DCMAKE_CUDA_ARCHITECTURES=90a-real;native"
for unknown in 50 120 none; do
  expect "expected some of 70, 75, 80, 86, 89, 90, which mezzo and nvcc 12.4 know, got $unknown; name the compute \
capability of your GPU" -DCMAKE_CUDA_ARCHITECTURES="80;$unknown"
done
expect "no CUDA toolkit found, set CUDACXX" -DCMAKE_CUDA_COMPILER=/nowhere/nvcc
RELEASE=11.8 expect "nvcc 11.8 does not know C++20, 12 or newer does"
SAYS="x.h:1: fatal error: cuda_runtime.h: No such file or directory" \
  expect "bin/nvcc is there, its header cuda_runtime.h is not: install the toolkit's headers too (Debian: nvidia-cuda-dev"
SAYS="ld: cannot find -lcudart_static: No such file" expect "its library -lcudart_static is not: install the toolkit's"
export SAYS="error: -- unsupported GNU version! gcc versions later than 13 are not supported!"
expect "nvcc 12.4 does not take the system's C++ compiler; its host compiler is $work/bin/g++-13 "
expect "does not work with the C++ compilers here (error: -- unsupported GNU version): install one that it takes and set \
CUDAHOSTCXX to it" -DCMAKE_CUDA_HOST_COMPILER=/mine/g++
echo "toolkits are taken and refused as they should"
