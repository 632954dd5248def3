# tsr_archive(TARGET output OBJECTS... LIBRARIES...): one static library of our objects and of all our static
# libraries that the given ones link. Visible in it are tsr_* and constants of ours: what else a program links cannot
# clash with it.
function(tsr_collect_archives out)
    set(found ${${out}})
    foreach(library IN LISTS ARGN)
        if(NOT TARGET ${library} OR library IN_LIST found)
            continue()
        endif()
        get_target_property(type ${library} TYPE)
        get_target_property(imported ${library} IMPORTED)
        if(NOT type STREQUAL STATIC_LIBRARY OR imported)
            continue()
        endif()
        list(APPEND found ${library})
        get_target_property(linked ${library} INTERFACE_LINK_LIBRARIES)
        if(linked)
            tsr_collect_archives(found ${linked})
        endif()
    endforeach()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

function(tsr_archive target output)
    cmake_parse_arguments(ARG "" "" "OBJECTS;LIBRARIES" ${ARGN})
    tsr_collect_archives(libraries ${ARG_LIBRARIES})
    set(files)
    foreach(library IN LISTS libraries)
        list(APPEND files $<TARGET_FILE:${library}>)
    endforeach()
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.o)
    # Groups of equal functions are settled here: the linker would else drop some in favour of another's, which ours
    # could not name any more.
    add_custom_command(OUTPUT ${output}
        COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${object} ${ARG_OBJECTS} --whole-archive ${files}
        COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=tsr_* ${object}
        COMMAND ${CMAKE_COMMAND} -E rm -f ${output}
        COMMAND ${CMAKE_AR} qc ${output} ${object}
        COMMAND ${CMAKE_RANLIB} ${output}
        COMMAND ${CMAKE_COMMAND} -E rm -f ${object}
        DEPENDS ${ARG_OBJECTS} ${libraries} COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${target} ALL DEPENDS ${output})
endfunction()
