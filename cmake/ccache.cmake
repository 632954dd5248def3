# Units are compiled through ccache where it is installed (cmake/ccache.sh).
option(TSR_CCACHE "Compile through ccache where it is installed" ON)
if(TSR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/ccache.sh)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/ccache.sh)
endif()
