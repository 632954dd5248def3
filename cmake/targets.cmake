# tsr_library(NAME SOURCES... LINK...): one layer's static library.
function(tsr_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC tsr_flags ${ARG_LINK})
    tsr_precompile(${name} library)
endfunction()

# tsr_test_flags(TARGET): the optimization of a test's own units. Large files take a third less to compile (four of them
# 36 s, now 24), and tests spend their time in the libraries. Not where they run under an emulator, which makes more of a
# test's own loops; that has not been measured.
function(tsr_test_flags target)
    if(NOT TSR_EMULATED_CPUS)
        target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
endfunction()

# The line of a trap in a kernel (cmake/isa.cmake) is told by AddressSanitizer, asked to.
set(tsr_trap_lines "ASAN_OPTIONS=handle_sigill=1")

# Builds every test program of this configuration, and nothing that they do not need.
add_custom_target(tsr_tests)

# tsr_test(NAME [ONE_CPU] LABEL unit|model|server|npu|fuzz|slow SOURCES... LINK...): one GoogleTest program, one CTest entry.
# A test that needs the reference data beside the checkout skips where it is absent (tests/support/shared.h).
function(tsr_test name)
    cmake_parse_arguments(ARG "ONE_CPU" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
    if(NOT ARG_LABEL)
        set(ARG_LABEL unit)
    endif()
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 600)
    endif()
    if(NOT "${ARG_LABEL}:${name}" MATCHES "${TSR_TEST_SELECT}")
        return()
    endif()
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE tsr_flags ${ARG_LINK} GTest::gtest GTest::gtest_main)
    target_compile_definitions(${name} PRIVATE TSR_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
        TSR_BINARY_DIR="${CMAKE_BINARY_DIR}")
    tsr_test_flags(${name})
    tsr_precompile(${name} test)
    add_dependencies(tsr_tests ${name})
    # Under an emulator: on each of the processors that the toolchain file names, all with the label `arm`; each tests
    # the kernels that it would choose, so that none are tested twice. With ONE_CPU on the last alone, because the kernels
    # tested are the same ones on all: quants_dispatch_test fails when they no longer are.
    set(cpus ${TSR_EMULATED_CPUS})
    if(ARG_ONE_CPU AND cpus)
        list(GET cpus -1 cpus)
    endif()
    foreach(cpu IN LISTS cpus)
        set(test ${TSR_TEST_PREFIX}${cpu}.${name})
        add_test(NAME ${test} COMMAND ${name})
        set_tests_properties(${test} PROPERTIES LABELS arm TIMEOUT ${ARG_TIMEOUT}
            ENVIRONMENT "QEMU_CPU=${cpu};TSR_TEST_BEST_TABLE=1")
    endforeach()
    if(NOT TSR_EMULATED_CPUS)
        add_test(NAME ${TSR_TEST_PREFIX}${name} COMMAND ${name})
        set_tests_properties(${TSR_TEST_PREFIX}${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
            ENVIRONMENT "${tsr_trap_lines}")
    endif()
endfunction()

# tsr_script_test(NAME LABEL label [DEPENDS target...] COMMAND program arguments...): a CTest entry that is a script. It
# skips with exit status 77. Where only a selection is wanted, it needs DEPENDS to be a part of that: what it runs.
function(tsr_script_test name)
    cmake_parse_arguments(ARG "" "LABEL;TIMEOUT;LOCK" "DEPENDS;COMMAND" ${ARGN})
    if(TSR_TEST_SELECT AND NOT (ARG_DEPENDS AND "${ARG_LABEL}:${name}" MATCHES "${TSR_TEST_SELECT}"))
        return()
    endif()
    if(ARG_DEPENDS)
        add_dependencies(tsr_tests ${ARG_DEPENDS})
    endif()
    set(name ${TSR_TEST_PREFIX}${name})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 600)
    endif()
    add_test(NAME ${name} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
        ENVIRONMENT "${tsr_trap_lines};PYTHONDONTWRITEBYTECODE=1;TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp")
    if(ARG_LOCK)
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${ARG_LOCK})
    endif()
endfunction()

# tsr_fuzz(NAME SOURCE LINK...): a libFuzzer program (preset `fuzz`).
function(tsr_fuzz name source)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    if(TSR_BUILD_FUZZ)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE tsr_flags ${ARG_LINK})
        target_compile_definitions(${name} PRIVATE TSR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endif()
endfunction()
