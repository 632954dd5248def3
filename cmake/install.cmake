# Installation of all but the library (src/capi has its rules): program, documents, the demo model, manual pages and the
# completion for bash. default_model.cpp looks for the model relative to the program.
#
# `cmake --install` builds what it installs, so that it works after scripts/run.sh, which builds the program alone.
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target tsr_installed
    COMMAND_ERROR_IS_FATAL ANY)" ALL_COMPONENTS)
add_custom_target(tsr_installed ALL)
add_dependencies(tsr_installed tessera tsr_shared tsr_static)

install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY models DESTINATION share/tessera COMPONENT program)
install(FILES examples/tessera/completion.bash DESTINATION share/bash-completion/completions RENAME tessera
    COMPONENT program)

# Manual pages are the program's own help.
if(NOT CMAKE_CROSSCOMPILING)
    set(man ${CMAKE_BINARY_DIR}/man)
    add_custom_command(OUTPUT ${man}/tessera.1
        COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:tessera> -DFOLDER=${man} -DVERSION=${PROJECT_VERSION}
            -P ${CMAKE_SOURCE_DIR}/cmake/man.cmake
        DEPENDS tessera ${CMAKE_SOURCE_DIR}/cmake/man.cmake VERBATIM)
    add_custom_target(tsr_man DEPENDS ${man}/tessera.1)
    add_dependencies(tsr_installed tsr_man)
    install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program FILES_MATCHING PATTERN *.1)
endif()
