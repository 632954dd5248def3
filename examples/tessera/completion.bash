# Completion for bash: commands, the options of the command at hand, and files. Both lists are the program's own help.
_tessera() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=
    if ((COMP_CWORD == 1)); then
        words=$("$1" --help 2>/dev/null | sed -n '/^Options:/q; s/^  \([a-z][a-z]*\) .*/\1/p' | sort -u)
    elif [[ $word == -* ]]; then
        words=$("$1" "$command" --help-all 2>/dev/null | grep -oE -e '^ +-[-a-zA-Z]+(, --[-a-z]+)?' | tr -d ,)
    fi
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _tessera tessera
