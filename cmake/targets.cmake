# tsr_library(NAME SOURCES... LINK...): one layer's static library.
function(tsr_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC tsr_flags ${ARG_LINK})
    tsr_precompile(${name} library)
endfunction()
