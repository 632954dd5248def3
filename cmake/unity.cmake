# tsr_unity(TARGET): compiles the target's sources in batches, each as one unit, so that the headers they share are parsed
# once a batch: half of the time of a unit by itself. In batches, names of anonymous namespaces must be unique within a
# library. Off where one edits and compiles one file at a time (presets dev and those of the sanitizers). Never for ISA units.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(TSR_UNITY_PRESET ON)
else()
    set(TSR_UNITY_PRESET OFF)
endif()
option(TSR_UNITY "Compile several sources of a library as one unit" ${TSR_UNITY_PRESET})
set(TSR_UNITY_BATCH 12 CACHE STRING "Sources a unit, with TSR_UNITY")

function(tsr_unity target)
    if(TSR_UNITY)
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TSR_UNITY_BATCH})
        # gcc takes included sources for headers, in which a type with members of an anonymous namespace would be a fault.
        target_compile_options(${target} PRIVATE
            $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
    endif()
endfunction()

# tsr_cold(TARGET): code that never runs in a loop over tokens, rows or weights: -O1 takes 15 % less time to compile than -O2.
function(tsr_cold target)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
