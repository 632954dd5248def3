# tsr_precompile(TARGET library|program|test): the std headers that most units include (a test's: GoogleTest's, too) are
# read as compiled once for the kind, whose targets share all flags that such a header depends on: with TSR_PCH=ON all
# kinds, with TESTS only tests. gcc 12 forgets that precompiled headers are the system's and warns of what it inlines from
# them; tests, compiled with little inlining, keep all warnings as errors. Never for ISA units.
set(TSR_PCH OFF CACHE STRING "Precompile the headers that most units include: OFF, TESTS or ON")
set_property(CACHE TSR_PCH PROPERTY STRINGS OFF TESTS ON)
if(TSR_PCH AND NOT TSR_PCH MATCHES "^(TESTS|ON)$")
    message(FATAL_ERROR "TSR_PCH: expected OFF, TESTS or ON, found ${TSR_PCH}")
endif()

set(tsr_precompiled_kinds "")
if(TSR_PCH AND TSR_BUILD_TESTS)
    list(APPEND tsr_precompiled_kinds test)
endif()
if(TSR_PCH AND NOT TSR_PCH STREQUAL "TESTS")
    list(APPEND tsr_precompiled_kinds library program)
endif()

# Without -fpch-preprocess, what gcc preprocesses for ccache would lack the precompiled header.
function(tsr_precompiled_flags target)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

function(tsr_precompile target kind)
    if(kind IN_LIST tsr_precompiled_kinds)
        target_precompile_headers(${target} REUSE_FROM tsr_precompiled_${kind})
        tsr_precompiled_flags(${target})
    endif()
endfunction()

if(tsr_precompiled_kinds)
    # Those warnings, the overlap that cmake/warnings.cmake names in other words among them.
    if("library" IN_LIST tsr_precompiled_kinds AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
       CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        target_compile_options(tsr_flags INTERFACE -Wno-stringop-overflow -Wno-stringop-overread
            -Wno-array-bounds -Wno-maybe-uninitialized)
    endif()
    # A target of CMake's own needs a source; what shares its header waits for it to be built.
    set(source ${CMAKE_BINARY_DIR}/precompiled.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    foreach(kind IN LISTS tsr_precompiled_kinds)
        set(target tsr_precompiled_${kind})
        if(kind STREQUAL "library")
            add_library(${target} OBJECT EXCLUDE_FROM_ALL ${source})
        else()
            add_executable(${target} EXCLUDE_FROM_ALL ${source})
        endif()
        set(headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstdlib> <cstring>
            <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <random> <set> <span>
            <string> <string_view> <thread> <tl/expected.hpp> <unordered_map> <utility> <vector>)
        if(kind STREQUAL "library" OR kind STREQUAL "program")
            tsr_sections(${target})
        endif()
        if(kind STREQUAL "test")
            target_link_libraries(${target} PRIVATE GTest::gtest)
            list(PREPEND headers <gtest/gtest.h>)
            tsr_test_flags(${target})
        endif()
        target_link_libraries(${target} PRIVATE tsr_flags)
        tsr_precompiled_flags(${target})
        target_precompile_headers(${target} PRIVATE ${headers})
    endforeach()
endif()
