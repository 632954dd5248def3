#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test and lint; the last lines are the count of all of them.
#   scripts/test.sh [--quick] [options of ctest]
# Without --quick the unit tests and the server's run a second time under AddressSanitizer and UndefinedBehaviorSanitizer,
# the unit tests that start threads under ThreadSanitizer, and those of the kernels for AArch64 under emulation.
# E.g. scripts/test.sh --quick -L unit
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
quick=0
case ${1:-} in
    --quick) quick=1; shift ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

step() { printf '\n== %s\n' "$*"; }

# build NAME TARGET [cmake option...]: configures and builds build/NAME.
folders=()
build() {
    local folder=$root/build/$1 target=$2
    shift 2
    cmake -S "$root" -B "$folder" -G Ninja --log-level=WARNING "$@"
    cmake --build "$folder" --target "$target"
    folders+=("$folder")
}

step "packages"
"$root/scripts/setup.sh" --test

step "release build"
build release all -DCMAKE_BUILD_TYPE=Release -DTSR_BUILD_TESTS=ON -DTSR_PCH=TESTS

if ((!quick)); then
    # Fast enough to run, small enough to link. The sanitizers' instrumentation makes gcc warn without reason.
    sanitized=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DTSR_WERROR=OFF -DTSR_PCH=ON
        -DTSR_WIDE_TABLES=OFF)
    step "AddressSanitizer and UndefinedBehaviorSanitizer build of the unit tests and the server"
    build check-asan tsr_tests "${sanitized[@]}" -DTSR_SANITIZE=address,undefined \
        -DTSR_TEST_SELECT='^unit:|^server:server_(http|routes)_' -DTSR_TEST_PREFIX=asan.
    step "ThreadSanitizer build of the tests that start threads"
    build check-tsan tsr_tests "${sanitized[@]}" -DTSR_SANITIZE=thread \
        -DTSR_TEST_SELECT='^unit:(engine_|.*(thread|session|backend|text_bpe|text_tokenizer))' -DTSR_TEST_PREFIX=tsan.
    # A processor of the kind runs the same tests in the release build. About 90 seconds of one core.
    if [[ $(uname -m) != aarch64 ]]; then
        step "AArch64 build of the kernels' tests"
        if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null &&
            [[ -d /usr/src/googletest ]]; then
            build check-aarch64 tsr_tests --toolchain "$root/cmake/aarch64.cmake" -DTSR_ONLY_KERNELS=ON \
                -DCMAKE_BUILD_TYPE=Release -DTSR_TEST_SELECT='^unit:(quants_|cpu_vec|npu_tile)' -DTSR_TEST_PREFIX=aarch64.
        else
            echo "skipped: aarch64-linux-gnu-g++, qemu-aarch64 or /usr/src/googletest is missing (scripts/setup.sh)"
        fi
    fi
fi

# One run over all builds, so that one count says it all; the slowest first, so that no long test is left for the end.
mkdir -p "$root/build/check"
printf 'subdirs("%s")\n' "${folders[@]}" | tac >"$root/build/check/CTestTestfile.cmake"

# gcc 12's ThreadSanitizer does not start where the kernel spreads mappings over more than 28 bits.
runner=()
bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
if ((bits > 28)) && setarch "$(uname -m)" -R true 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
fi

step "tests"
"${runner[@]}" ctest --test-dir "$root/build/check" --parallel 2 --output-on-failure --no-tests=error "$@"
