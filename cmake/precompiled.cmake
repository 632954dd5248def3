# tsr_precompile(TARGET library|program|test): with TSR_PCH, the std headers that most units include (a test's:
# GoogleTest's, too) are read as compiled once for the kind, whose targets share all flags that such a header depends
# on. Off by default: gcc 12 forgets that precompiled headers are the system's and warns of
# what it inlines from them, so that only a build without can have all warnings as errors. Never for ISA units.
option(TSR_PCH "Precompile the headers that most units include" OFF)

function(tsr_precompile target kind)
    if(TSR_PCH)
        target_precompile_headers(${target} REUSE_FROM tsr_precompiled_${kind})
    endif()
endfunction()

if(TSR_PCH)
    set(headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstdlib> <cstring> <filesystem>
        <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <random> <set> <span> <string> <string_view>
        <thread> <tl/expected.hpp> <unordered_map> <utility> <vector>)
    # Those warnings, the overlap that cmake/warnings.cmake names in other words among them.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        target_compile_options(tsr_flags INTERFACE -Wno-stringop-overflow -Wno-stringop-overread
            -Wno-array-bounds -Wno-maybe-uninitialized)
    endif()
    # A target of CMake's own needs a source; what shares its header waits for it to be built.
    set(source ${CMAKE_BINARY_DIR}/precompiled.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    add_library(tsr_precompiled_library OBJECT EXCLUDE_FROM_ALL ${source})
    add_executable(tsr_precompiled_program EXCLUDE_FROM_ALL ${source})
    set(kinds library program)
    if(TSR_BUILD_TESTS)
        add_executable(tsr_precompiled_test EXCLUDE_FROM_ALL ${source})
        target_link_libraries(tsr_precompiled_test PRIVATE GTest::gtest)
        target_precompile_headers(tsr_precompiled_test PRIVATE <gtest/gtest.h>)
        list(APPEND kinds test)
    endif()
    foreach(kind IN LISTS kinds)
        target_link_libraries(tsr_precompiled_${kind} PRIVATE tsr_flags)
        target_precompile_headers(tsr_precompiled_${kind} PRIVATE ${headers})
    endforeach()
endif()
