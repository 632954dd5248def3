# tsr_isa_library(NAME isa FLAGS... SOURCES...): an object library compiled with one instruction set's flags, the
# only place where such flags may appear. Its units include no std headers with inline functions, so that no copy
# compiled for a newer processor can be the one the linker keeps. scripts/check_isa_symbols.sh proves it, from the
# lists of objects written to isa-objects/.
file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/isa-objects)

# Kernels take long to compile, and a sanitizer finds little in them: they do not synchronize, and tests with guard pages
# find reads past the end. So a sanitized build may link another build's objects.
set(TSR_KERNEL_OBJECTS "" CACHE PATH "A build folder whose kernel objects are linked instead of compiling them again")
set(TSR_KERNEL_OBJECTS_MATCH "." CACHE STRING "The libraries of kernels that TSR_KERNEL_OBJECTS is for, as a pattern of names")

function(tsr_isa_library name)
    cmake_parse_arguments(ARG "" "" "FLAGS;SOURCES" ${ARGN})
    set(list ${TSR_KERNEL_OBJECTS}/isa-objects/${name}.txt)
    if(TSR_KERNEL_OBJECTS AND name MATCHES "${TSR_KERNEL_OBJECTS_MATCH}")
        if(NOT EXISTS ${list})
            message(FATAL_ERROR "TSR_KERNEL_OBJECTS: expected the configured build of a checkout, found no ${list}")
        endif()
        file(STRINGS ${list} objects)
        add_library(${name} OBJECT IMPORTED GLOBAL)
        set_target_properties(${name} PROPERTIES IMPORTED_OBJECTS "${objects}")
        return()
    endif()
    add_library(${name} OBJECT ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE tsr_flags)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3>)
    # -falign-functions: otherwise the code before a kernel in the file changes its alignment, and its speed by up to 3 %.
    target_compile_options(${name} PRIVATE ${ARG_FLAGS} -falign-functions=64 -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables)
    # For AArch64 gcc also schedules instructions before register allocation, which spilled tiles' sums. It schedules
    # again afterwards.
    if(TSR_ARM64 AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${name} PRIVATE -fno-schedule-insns)
    endif()
    # -fexpensive-optimizations: without it gcc, at -O1 and below, returns from a kernel with the upper halves of vector
    # registers in use, and an Intel processor pays for every change between SSE and AVX encodings until the next kernel
    # clears them: 285 ns instead of 5.6 for a product of scalar code that calls fmaf.
    # -mtune=generic: tuned for one processor, as by -march=native among a user's flags, gcc 12's kernels may be slower
    # on that very processor: -march=znver3 loses 9 % with eight tokens of Q4_K and 17 % of prompts on Zen 3.
    # scripts/check_isa_flags.py checks this.
    if(TSR_X86 AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${name} PRIVATE -fexpensive-optimizations -mtune=generic)
    endif()
    # Undefined behaviour as traps: a unit then takes a quarter less time to compile. A trap shows only its line, and only
    # with ASAN_OPTIONS=handle_sigill=1.
    if(TSR_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${name} PRIVATE -fsanitize-undefined-trap-on-error)
    endif()
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/isa-objects/${name}.txt
        CONTENT "$<JOIN:$<TARGET_OBJECTS:${name}>,\n>\n")
endfunction()

# gcc 12 warns of uninitialized values in its own AVX-512 header, where they are deliberate.
set(TSR_AVX512_FLAGS -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
    $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

# Which kernel tables are compiled: all, so that the program runs at its best on every machine, or those of this one: the
# best and the scalar one. On AArch64 native is the same as all.
set(TSR_ISA all CACHE STRING "The kernel tables: all, or native for those of this machine")
set_property(CACHE TSR_ISA PROPERTY STRINGS all native)
if(NOT TSR_ISA MATCHES "^(all|native)$")
    message(FATAL_ERROR "TSR_ISA: expected all or native, found ${TSR_ISA}")
endif()

# TSR_AVX2 includes what AVX-VNNI and AVX-512 take from it: packing, the float functions, sampling.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(TSR_X86 ON)
    set(TSR_AVX2 ON)
    set(TSR_AVX2_PRODUCTS ON)
    set(TSR_AVXVNNI ON)
    set(TSR_AVX512 ON)
    if(TSR_ISA STREQUAL "native")
        execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null
            OUTPUT_VARIABLE macros COMMAND_ERROR_IS_FATAL ANY)
        macro(tsr_find_isa variable)
            set(${variable} ON)
            foreach(name ${ARGN})
                if(NOT macros MATCHES "#define __${name}__ ")
                    set(${variable} OFF)
                endif()
            endforeach()
        endmacro()
        tsr_find_isa(TSR_AVX2 AVX2 FMA F16C)
        tsr_find_isa(TSR_AVXVNNI AVX2 FMA F16C AVXVNNI)
        tsr_find_isa(TSR_AVX512 AVX2 FMA F16C AVX512F AVX512BW AVX512DQ AVX512VL AVX512VNNI)
        # dispatch.cpp chooses the widest one.
        if(TSR_AVX512)
            set(TSR_AVXVNNI OFF)
            set(TSR_AVX2_PRODUCTS OFF)
        endif()
    endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(TSR_ARM64 ON)
endif()
