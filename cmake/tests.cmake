# One test program a folder of tests/, and one CTest entry for each of its files: FOLDER.FILE, e.g. common.arena_test for
# tests/common/arena_test.cpp. tests/support/main.cpp runs the tests of one file, so that each test belongs to exactly
# one entry.

# Builds every test program of this configuration, and only the libraries that they need.
add_custom_target(tsr_tests)

# tsr_test_flags(TARGET): the optimization of a test's own units. Large files take a third less to compile with -O1 (four of
# them 24 s instead of 36), and tests spend their time in the libraries. Under an emulator a test's own loops weigh
# more, so programs for it keep -O2.
function(tsr_test_flags target)
    if(NOT TSR_EMULATED_CPUS)
        target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
endfunction()

# A trap in a kernel (cmake/isa.cmake) is reported with its line if AddressSanitizer handles SIGILL.
set(tsr_test_environment "ASAN_OPTIONS=handle_sigill=1" "PYTHONDONTWRITEBYTECODE=1"
    "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp")

# tsr_test_wanted(OUT LABEL ENTRY): whether TSR_TEST_SELECT matches label:entry.
function(tsr_test_wanted out label entry)
    set(${out} FALSE PARENT_SCOPE)
    if("${label}:${entry}" MATCHES "${TSR_TEST_SELECT}")
        set(${out} TRUE PARENT_SCOPE)
    endif()
endfunction()

# tsr_test_program(TARGET SOURCES... LINK...): a GoogleTest program whose main runs the tests of one file or all.
function(tsr_test_program target)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${target} ${ARG_SOURCES})
    target_link_libraries(${target} PRIVATE tsr_test_main tsr_flags ${ARG_LINK} GTest::gtest)
    target_compile_definitions(${target} PRIVATE TSR_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TSR_BINARY_DIR="${CMAKE_BINARY_DIR}")
    tsr_test_flags(${target})
    tsr_precompile(${target} test)
    add_dependencies(tsr_tests ${target})
    if(TARGET tsr_test_models)
        add_dependencies(${target} tsr_test_models)
    endif()
endfunction()

# tsr_test_entry(ENTRY LABEL TARGET FILE [ONE_CPU] [ENVIRONMENT VAR=value...]): the CTest entry of a file of a program.
# Under an emulator there is one for each processor that the toolchain file names, with the label `arm`; each tests the
# kernels that it would choose, so that none are tested twice. With ONE_CPU there is only the last processor's, because
# the kernels are the same on all of them, which quants.dispatch_test checks.
function(tsr_test_entry entry label target file)
    cmake_parse_arguments(ARG "ONE_CPU" "" "ENVIRONMENT" ${ARGN})
    set(cpus ${TSR_EMULATED_CPUS})
    if(ARG_ONE_CPU AND cpus)
        list(GET cpus -1 cpus)
    endif()
    foreach(cpu IN LISTS cpus)
        set(test ${TSR_TEST_PREFIX}${cpu}.${entry})
        add_test(NAME ${test} COMMAND ${target} --file ${file})
        set_tests_properties(${test} PROPERTIES LABELS arm TIMEOUT 600
            ENVIRONMENT "QEMU_CPU=${cpu};TSR_TEST_BEST_TABLE=1;${ARG_ENVIRONMENT}")
    endforeach()
    if(NOT TSR_EMULATED_CPUS)
        add_test(NAME ${TSR_TEST_PREFIX}${entry} COMMAND ${target} --file ${file})
        set_tests_properties(${TSR_TEST_PREFIX}${entry} PROPERTIES LABELS ${label} TIMEOUT 600
            ENVIRONMENT "${tsr_test_environment};${ARG_ENVIRONMENT}")
    endif()
endfunction()

# tsr_tests(FOLDER UNIT|MODEL|NPU|SLOW files... [ONE_CPU files...] [SOURCES other units...] LINK libraries...): the program
# FOLDER_tests of the files that are selected, and an entry for each of them with its list's name as the label. Names of
# anonymous namespaces must be unique within a folder: batches of files are compiled as one unit (cmake/unity.cmake).
function(tsr_tests folder)
    cmake_parse_arguments(ARG "" "" "UNIT;MODEL;NPU;SLOW;ONE_CPU;SOURCES;LINK" ${ARGN})
    set(files "")
    foreach(label IN ITEMS unit model npu slow)
        string(TOUPPER ${label} list)
        foreach(file IN LISTS ARG_${list})
            get_filename_component(stem ${file} NAME_WE)
            tsr_test_wanted(wanted ${label} ${folder}.${stem})
            if(NOT wanted)
                continue()
            endif()
            set(one_cpu "")
            if(file IN_LIST ARG_ONE_CPU)
                set(one_cpu ONE_CPU)
            endif()
            list(APPEND files ${file})
            tsr_test_entry(${folder}.${stem} ${label} ${folder}_tests ${file} ${one_cpu})
        endforeach()
    endforeach()
    if(files)
        tsr_test_program(${folder}_tests SOURCES ${files} ${ARG_SOURCES} LINK ${ARG_LINK})
        tsr_unity(${folder}_tests)
    endif()
endfunction()

# tsr_lone_test(FOLDER UNIT|MODEL|NPU|SLOW file LINK libraries...): a program of one file, e.g. because it replaces operator
# new (tests/support/count_allocations.h).
function(tsr_lone_test folder list file)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    get_filename_component(stem ${file} NAME_WE)
    string(TOLOWER ${list} label)
    tsr_test_wanted(wanted ${label} ${folder}.${stem})
    if(wanted)
        tsr_test_program(${folder}_${stem} SOURCES ${file} LINK ${ARG_LINK})
        tsr_test_entry(${folder}.${stem} ${label} ${folder}_${stem} ${file})
    endif()
endfunction()

# tsr_longer_test(FOLDER FILE VAR=value): the entry FOLDER.FILE.long with the label `slow`: a file of the folder's program
# with an environment variable that makes it do more.
function(tsr_longer_test folder file variable)
    get_filename_component(stem ${file} NAME_WE)
    tsr_test_wanted(wanted slow ${folder}.${stem}.long)
    if(wanted AND TARGET ${folder}_tests)
        tsr_test_entry(${folder}.${stem}.long slow ${folder}_tests ${file} ENVIRONMENT ${variable})
        set_tests_properties(${TSR_TEST_PREFIX}${folder}.${stem}.long PROPERTIES TIMEOUT 1800)
    endif()
endfunction()

# tsr_script_test(ENTRY LABEL label [DEPENDS target...] COMMAND program arguments...): a CTest entry that is a script. It
# skips with exit status 77. TSR_TEST_SELECT selects scripts only if DEPENDS names the targets that they run.
function(tsr_script_test name)
    cmake_parse_arguments(ARG "" "LABEL;TIMEOUT;LOCK" "DEPENDS;COMMAND" ${ARGN})
    tsr_test_wanted(wanted ${ARG_LABEL} ${name})
    if(NOT wanted OR (TSR_TEST_SELECT AND NOT ARG_DEPENDS))
        return()
    endif()
    add_dependencies(tsr_tests ${ARG_DEPENDS} tsr_test_models)
    set(name ${TSR_TEST_PREFIX}${name})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 600)
    endif()
    add_test(NAME ${name} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
        ENVIRONMENT "${tsr_test_environment}")
    if(ARG_LOCK)
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${ARG_LOCK})
    endif()
endfunction()

# tsr_fuzz(NAME SOURCE LINK...): a libFuzzer program (preset `fuzz`), and an entry fuzz.NAME that runs it for ten seconds.
function(tsr_fuzz name source)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    if(TSR_BUILD_FUZZ)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE tsr_flags ${ARG_LINK})
        target_compile_definitions(${name} PRIVATE TSR_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
            TSR_BINARY_DIR="${CMAKE_BINARY_DIR}")
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        add_dependencies(tsr_tests ${name})
        add_test(NAME ${TSR_TEST_PREFIX}fuzz.${name} COMMAND ${name} -max_total_time=10 -seed=1 -artifact_prefix=${name}-)
        set_tests_properties(${TSR_TEST_PREFIX}fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 600)
    endif()
endfunction()
