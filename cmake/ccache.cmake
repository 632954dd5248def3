# Where ccache is installed, units are compiled through it: what one checkout has compiled no other has to. The base
# folder makes paths relative, so that they do not tell checkouts apart.
option(TSR_CCACHE "Compile through ccache where it is installed" ON)
find_program(TSR_CCACHE_PROGRAM ccache)
if(TSR_CCACHE AND TSR_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(ccache ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TSR_CCACHE_PROGRAM})
    set(CMAKE_C_COMPILER_LAUNCHER ${ccache})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache})
    # Without it, what gcc preprocesses for ccache would lack the precompiled header.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-fpch-preprocess)
    endif()
endif()
