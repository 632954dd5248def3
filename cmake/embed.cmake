# tsr_embed(out HEADER header NAMESPACE namespace FUNCTION name TYPE type PREFIX text INDEX file FILES files...): `out` is
# a generated source that defines the function, declared in the header, which lists the files as rows {path, bytes} of
# the type. A file's path is the prefix and its name; that of INDEX is "/".
function(tsr_embed out)
    cmake_parse_arguments(ARG "" "HEADER;NAMESPACE;FUNCTION;TYPE;PREFIX;INDEX" "FILES" ${ARGN})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${ARG_FUNCTION}.cpp)
    list(TRANSFORM ARG_FILES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
    string(REPLACE ";" "|" joined "${paths}")
    add_custom_command(OUTPUT ${source}
        COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DHEADER=${ARG_HEADER} -DNAMESPACE=${ARG_NAMESPACE}
            -DFUNCTION=${ARG_FUNCTION} -DTYPE=${ARG_TYPE} -DPREFIX=${ARG_PREFIX} -DINDEX=${ARG_INDEX} -DFILES=${joined}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    set(${out} ${source} PARENT_SCOPE)
endfunction()

# The command of above.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    string(REPLACE "|" ";" FILES "${FILES}")
    set(arrays "")
    set(rows "")
    set(number 0)
    foreach(file IN LISTS FILES)
        get_filename_component(name ${file} NAME)
        set(path ${PREFIX}${name})
        if(name STREQUAL INDEX)
            set(path /)
        endif()
        file(READ ${file} bytes HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
        string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}};\n")
        string(APPEND rows
            "{\"${path}\", {reinterpret_cast<const char*>(kFile${number}), sizeof kFile${number}}},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    file(WRITE ${SOURCE} "#include \"${HEADER}\"\nnamespace ${NAMESPACE} {\nnamespace {\n${arrays}}\n"
        "std::span<const ${TYPE}> ${FUNCTION}() {\nstatic const ${TYPE} kFiles[] = {\n${rows}};\nreturn kFiles;\n}\n}\n")
endif()
