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
    endif()
endif()
if(TSR_BUILD_FUZZ)
    # Coverage feedback for everything that is linked into a fuzz target.
    target_compile_options(tsr_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
