# The toolchain of the presets embedded-clang and fuzz: clang 14, with which CI compares, else what the system calls clang.
find_program(CMAKE_CXX_COMPILER NAMES clang++-14 clang++ REQUIRED)
