# tsr_library(NAME SOURCES... LINK...): one layer's static library.
function(tsr_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC tsr_flags ${ARG_LINK})
endfunction()

# tsr_test(NAME LABEL unit|model|server|npu|fuzz|slow SOURCES... LINK...): one GoogleTest program, one CTest entry.
# TSR_SHARED_DIR points at the reference data beside the checkout; a test that needs it skips where it is absent.
function(tsr_test name)
    cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE tsr_flags ${ARG_LINK} GTest::gtest GTest::gtest_main)
    target_compile_definitions(${name} PRIVATE TSR_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
        TSR_BINARY_DIR="${CMAKE_BINARY_DIR}")
    add_test(NAME ${name} COMMAND ${name})
    if(NOT ARG_LABEL)
        set(ARG_LABEL unit)
    endif()
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 600)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# tsr_fuzz(NAME SOURCE LINK...): a libFuzzer program (preset `fuzz`).
function(tsr_fuzz name source)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    if(TSR_BUILD_FUZZ)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE tsr_flags ${ARG_LINK})
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endif()
endfunction()
