# One interface target with the flags every translation unit of ours gets. -ffp-contract=off is part of the
# numerical contract: a fused multiply-add happens only where the source says fma.
add_library(tsr_flags INTERFACE)
target_compile_options(tsr_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # gcc 12 sees an overlap in every `"text" + std::string` that it inlines (GCC bug 105651, mended in 13).
    target_compile_options(tsr_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(TSR_WERROR)
    target_compile_options(tsr_flags INTERFACE -Werror)
endif()
target_include_directories(tsr_flags INTERFACE ${CMAKE_SOURCE_DIR})
