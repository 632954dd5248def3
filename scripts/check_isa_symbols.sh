#!/usr/bin/env bash
# No object compiled with an instruction set's flags may define a weak symbol: an inline function or template that
# another file emits too. The linker keeps one copy, and if that is the one for a newer processor, the program dies
# with an illegal instruction on an older one.   scripts/check_isa_symbols.sh BUILD_DIR
# cmake/isa.cmake writes the lists of objects, one file a library, while configuring.
set -euo pipefail

build=${1:?usage: check_isa_symbols.sh BUILD_DIR}
lists=("$build"/isa-objects/*.txt)
if [[ ! -f ${lists[0]} ]]; then
    echo "$build/isa-objects: no list of objects; expected one a library from cmake/isa.cmake (configure first)"
    exit 1
fi

count=0
failed=0
while IFS= read -r object; do
    [[ -n $object ]] || continue
    if [[ ! -f $object ]]; then
        echo "$object: the object is missing; expected a finished build"
        failed=1
        continue
    fi
    count=$((count + 1))
    # W and V are weak definitions, u is a definition unique in the process.
    weak=$(nm -C --defined-only "$object" | awk '$2 ~ /^[WVu]$/') || true
    if [[ -n $weak ]]; then
        while IFS= read -r symbol; do
            echo "$object: weak symbol '${symbol#* * }'; expected only local and strong ones (no std header, no inline)"
        done <<<"$weak"
        failed=1
    fi
done < <(cat "${lists[@]}")

if ((count == 0 && !failed)); then
    echo "$build/isa-objects: the lists are empty; expected at least one object"
    exit 1
fi
((failed)) || echo "check_isa_symbols: $count objects, no weak symbol"
exit "$failed"
