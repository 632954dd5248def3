#!/usr/bin/env bash
# From a fresh clone to text with one command: installs what is missing, builds the program, and completes PROMPT
# with the default model. Further arguments go to `tessera run`, e.g. scripts/run.sh "Once upon a time" -n 50
set -euo pipefail

if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then
    echo 'usage: scripts/run.sh "PROMPT" [options of `tessera run`]' >&2
    echo '   e.g. scripts/run.sh "Once upon a time" -n 50 --temp 0.8' >&2
    (($# == 0)) && exit 2
    exit 0
fi
prompt=$1
shift

root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
build=$root/build/release
"$root/scripts/setup.sh" --run

# Runs a step of the build; what it says is shown only if it fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        echo "run: failed: $*" >&2
        exit 1
    fi
    rm -f "$log"
}
if [[ ! -f $build/build.ninja ]]; then
    # The tests need more packages; scripts/test.sh turns them on in the same folder.
    quietly cmake -S "$root" --preset release -DTSR_BUILD_TESTS=OFF
fi
if ! ninja -C "$build" -n tessera 2>/dev/null | grep -q 'no work to do'; then
    echo "run: building the program ..." >&2
    if [[ -t 2 ]]; then
        cmake --build "$build" --target tessera >&2 </dev/null  # ninja's one line of progress
    else
        quietly cmake --build "$build" --target tessera
    fi
fi

exec "$build/examples/tessera/tessera" run -p "$prompt" "$@"
