# Toolchain of the preset aarch64: ARM (64-bit Linux) by a cross compiler, as Debian's g++-aarch64-linux-gnu is. The programs
# run under qemu-user, which tools/aarch64.sh finds. On an ARM machine it is the machine's own compiler, and no emulator.
if(NOT CMAKE_HOST_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  if(NOT CMAKE_CXX_COMPILER)
    set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
  endif()
  # Headers of libraries without code are this machine's; programs too.
  set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${CMAKE_CURRENT_LIST_DIR}/../tools/aarch64.sh")
endif()
