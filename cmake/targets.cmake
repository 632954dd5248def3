# tsr_sections(TARGET): each function and datum in a section of its own, so that the linker may leave it out. Not the
# kernels, all of which are used.
function(tsr_sections target)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
endfunction()

# tsr_library(NAME [UNITY] [COLD] SOURCES... LINK...): one layer's static library (cmake/unity.cmake has the options).
function(tsr_library name)
    cmake_parse_arguments(ARG "UNITY;COLD" "" "SOURCES;LINK" ${ARGN})
    add_library(${name} STATIC ${ARG_SOURCES})
    if(ARG_UNITY)
        tsr_unity(${name})
    endif()
    if(ARG_COLD)
        tsr_cold(${name})
    endif()
    target_link_libraries(${name} PUBLIC tsr_flags ${ARG_LINK})
    tsr_sections(${name})
    tsr_precompile(${name} library)
endfunction()
