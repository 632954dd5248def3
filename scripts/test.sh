#!/usr/bin/env bash
# Installs missing packages, builds, and runs the tests and lints; the last lines are the count of all of them.
#   scripts/test.sh [--quick | --full] [options of ctest]
# --quick: the release build's tests. Default: also the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer, the
# tests of threads and scheduling under ThreadSanitizer, and the kernels and the bits of logits for AArch64 on one emulated processor.
# --full: also the slow tests, all unit tests of threaded code under ThreadSanitizer, the server under AddressSanitizer,
# every emulated processor, and each fuzz target for some seconds (needs clang-19 and libclang-rt-19-dev). E.g. scripts/test.sh --quick -L unit
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
extent=default
case ${1:-} in
    --quick | --full) extent=${1#--}; shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
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

# Warnings are errors where this script configures the folder. A folder that scripts/run.sh configured keeps its flags,
# so that only the tests are compiled.
step "release build"
werror=()
[[ -f $root/build/release/CMakeCache.txt ]] || werror=(-DTSR_WERROR=ON)
build release all -DCMAKE_BUILD_TYPE=Release -DTSR_BUILD_TESTS=ON -DTSR_PCH=TESTS "${werror[@]}"

if [[ $extent != quick ]]; then
    # Fast enough to run, small enough to link. The sanitizers' instrumentation makes gcc warn without reason. Kernels
    # have no synchronization and take long to compile: ThreadSanitizer's build links the release build's objects,
    # AddressSanitizer's and that of the fuzz targets link those of every instruction set but the scalar one (tests with
    # guard pages look for reads past the end in release).
    sanitized=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DTSR_WERROR=OFF -DTSR_PCH=ON
        -DTSR_UNITY=ON -DTSR_KERNEL_OBJECTS="$root/build/release")
    wide_tables='_(avx|emulated|neon|dotprod|i8mm)'
    unit='^unit:(capi|chat|common|convert|cpu|engine|gguf|grammar|jinja|kv|measure|model|program|quants|record|recurrent|sample|text)\.|^unit:npu\.(device|recipe|weights)_'
    threads='^unit:(common\.threads|cpu\.runs|engine\.(session|scheduler|requests|load)_)'
    cpus=max npu=OFF
    if [[ $extent == full ]]; then
        unit='^unit:|^server:server\.(http|routes)_'
        threads='^unit:(cpu\.|engine\.|common\.|model\.|text\.(bpe|tokenizer)_)'
        cpus="max;cortex-a76;cortex-a72" npu=ON
    fi
    step "AddressSanitizer and UndefinedBehaviorSanitizer build"
    build check-asan tsr_tests "${sanitized[@]}" -DTSR_SANITIZE=address,undefined -DTSR_TEST_SELECT="$unit" \
        -DTSR_TEST_PREFIX=asan. -DTSR_KERNEL_OBJECTS_MATCH="$wide_tables"
    step "ThreadSanitizer build"
    build check-tsan tsr_tests "${sanitized[@]}" -DTSR_SANITIZE=thread -DTSR_TEST_SELECT="$threads" -DTSR_TEST_PREFIX=tsan. \
        -DTSR_NPU="$npu"
    # An AArch64 processor runs the same tests in the release build.
    if [[ $(uname -m) != aarch64 ]]; then
        step "AArch64 build of the kernels and the forward pass"
        if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null &&
            [[ -d /usr/src/googletest ]]; then
            build check-aarch64 tsr_tests --toolchain "$root/cmake/aarch64.cmake" -DTSR_ONLY_KERNELS=ON \
                -DCMAKE_BUILD_TYPE=Release -DTSR_EMULATED_CPUS="$cpus" -DTSR_TEST_PREFIX=aarch64. \
                -DTSR_TEST_SELECT='^unit:(quants\.|cpu\.vec_|npu\.tile_)|^model:model\.logits_hash_'
        else
            echo "skipped: aarch64-linux-gnu-g++, qemu-aarch64 or /usr/src/googletest is missing (scripts/setup.sh)"
        fi
    fi
fi
if [[ $extent == full ]]; then
    step "fuzz targets"
    if command -v clang++-19 >/dev/null && compgen -G "/usr/lib/llvm-19/lib/clang/*/lib/*/libclang_rt.fuzzer*" >/dev/null; then
        build check-fuzz tsr_tests "${sanitized[@]}" -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
            -DTSR_PCH=OFF -DTSR_BUILD_FUZZ=ON -DTSR_SANITIZE=address,undefined -DTSR_TEST_SELECT='^fuzz:' \
            -DTSR_KERNEL_OBJECTS_MATCH="$wide_tables"
    else
        echo "skipped: clang++-19 or its runtime is missing (apt-get install clang-19 libclang-rt-19-dev)"
    fi
fi

# One run over all builds, so that one count says it all; the slowest first, so that no long test is left for the end.
mkdir -p "$root/build/check"
printf 'subdirs("%s")\n' "${folders[@]}" | tac >"$root/build/check/CTestTestfile.cmake"
slow=()
[[ $extent == full ]] || slow=(--label-exclude '^slow$')

# gcc 12's ThreadSanitizer does not start where the kernel spreads mappings over more than 28 bits.
runner=()
bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
if ((bits > 28)) && setarch "$(uname -m)" -R true 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
fi

step "tests"
"${runner[@]}" ctest --test-dir "$root/build/check" --parallel 2 --output-on-failure --no-tests=error "${slow[@]}" "$@"
