if(TSR_SANITIZE)
    target_compile_options(tsr_flags INTERFACE -fsanitize=${TSR_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(tsr_flags INTERFACE -fsanitize=${TSR_SANITIZE})
    # Kernels are functions of thousands of instrumented values: registers by the whole function at once take a fifth
    # less time to compile than loop by loop.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(tsr_flags INTERFACE -fira-region=one)
    endif()
    if(TSR_SANITIZE MATCHES "undefined")
        target_compile_options(tsr_flags INTERFACE -fno-sanitize-recover=undefined)
        # gcc's checks of each pointer that is used take a third of the time to compile, for what AddressSanitizer finds
        # too. The fuzz targets, which clang compiles, have them.
        if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND TSR_SANITIZE MATCHES "address")
            target_compile_options(tsr_flags INTERFACE -fno-sanitize=null,vptr,object-size,pointer-overflow)
        endif()
    endif()
endif()
if(TSR_BUILD_FUZZ)
    # Coverage feedback for everything that is linked into a fuzz target.
    target_compile_options(tsr_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
