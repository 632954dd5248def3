# Toolchain: AArch64 from another Linux machine, with Debian's cross compiler; programs run under qemu's user mode
# emulation, each test on every processor of the list. Preset `aarch64`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
# All features; with the dot product but without 8-bit matrix products; the first version of the architecture.
if(NOT DEFINED TSR_EMULATED_CPUS)
    set(TSR_EMULATED_CPUS max cortex-a76 cortex-a72)
endif()
# Libraries of the machine that builds are of no use; header-only packages are.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
