# cmake -DPROGRAM=tessera -DFOLDER=folder -DVERSION=version -P man.cmake: writes tessera.1 and a page for each command, from
# what the program prints with --help.

# tsr_page(NAME summary help): FOLDER/NAME.1. A title of the help, a line that ends with a colon, becomes a section.
function(tsr_page name summary help)
    string(REPLACE "\\" "\\e" help "\n${help}")
    string(REPLACE "-" "\\-" help "${help}")
    string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" help "${help}")
    string(REGEX REPLACE "\nUsage: ([^\n]*)" "\n.fi\n.SH SYNOPSIS\n.nf\n\\1" help "${help}")
    string(REGEX REPLACE "\n([A-Z][A-Za-z, ]*):\n" "\n.fi\n.SH \\1\n.nf\n" help "${help}")
    string(TOUPPER ${name} title)
    string(REPLACE "-" "\\-" title "${title}")
    string(REPLACE "-" "\\-" named "${name}")
    file(WRITE ${FOLDER}/${name}.1 ".TH ${title} 1 \"\" \"tessera ${VERSION}\" \"User Commands\"\n"
        ".SH NAME\n${named} \\- ${summary}\n.SH DESCRIPTION\n.nf${help}.fi\n")
endfunction()

function(tsr_help out)
    execute_process(COMMAND ${PROGRAM} ${ARGN} --help OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        set(text "")
    endif()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
tsr_help(all)
tsr_page(tessera "runs language models (GGUF files)" "${all}")
string(REGEX MATCHALL "\n  [a-z]+( (calibrate|compile|devices|inspect|report) |  +)" rows "${all}")
foreach(row IN LISTS rows)
    string(STRIP "${row}" command)
    string(REPLACE " " ";" words "${command}")
    string(REPLACE " " "-" name "tessera-${command}")
    tsr_help(help ${words})
    string(REGEX MATCH "\n  ${command} +([^\n]*)" found "${all}")
    if(help)
        tsr_page(${name} "${CMAKE_MATCH_1}" "${help}")
    endif()
endforeach()
