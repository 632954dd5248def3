#!/usr/bin/env bash
# Installs the Debian packages that are missing, and nothing when none is.
#   scripts/setup.sh --run     packages for building and running the program
#   scripts/setup.sh --test    these, and packages for the tests and lints (the default)
#   scripts/setup.sh --list    with one of the above: print the packages, install nothing
set -euo pipefail

# The libraries are the ones that cmake/deps.cmake looks for.
run_packages=(g++ cmake ninja-build pkg-config
              libexpected-dev nlohmann-json3-dev libcli11-dev libsentencepiece-dev libpcre2-dev libedit-dev
              libcpp-httplib-dev libssl-dev libopenblas-dev)
test_packages=(libgtest-dev python3 python3-numpy git clang-format abigail-tools tmux openssl ccache)
# Another processor's kernels are tested under emulation.
if [[ $(uname -m) == x86_64 ]]; then
    test_packages+=(g++-aarch64-linux-gnu qemu-user googletest)
fi

# A browser for the test of the chat page, which skips without one: about 100 MB, and not every distribution has it.
optional_packages=(chromium-headless-shell)
# Third-party clients and validators, installed by the tests that use them. An npm that is already there is kept.
command -v npm >/dev/null || optional_packages+=(nodejs npm)

die() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

packages=("${run_packages[@]}" "${test_packages[@]}")
optional=("${optional_packages[@]}")
list=0
for argument in "$@"; do
    case $argument in
        --run) packages=("${run_packages[@]}") optional=() ;;
        --test) packages=("${run_packages[@]}" "${test_packages[@]}") optional=("${optional_packages[@]}") ;;
        --list) list=1 ;;
        -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) die "unknown argument '$argument': expected --run, --test or --list" ;;
    esac
done
if ((list)); then
    printf '%s\n' "${packages[@]}" "${optional[@]}"
    exit 0
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "this is not Debian or Ubuntu (no apt-get), so packages cannot be installed for you." \
        "Install a C++20 compiler, CMake 3.25 and these libraries by hand: ${packages[*]}" \
        "Then: cmake --preset release && cmake --build --preset release"
fi

missing=()
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" "${optional[@]}" 2>/dev/null || true)
is_installed() { [[ $'\n'$installed$'\n' == *$'\n'"$1 installed"$'\n'* ]]; }
is_offered() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[!\(]* ]]; }
add_optional() {
    for package in "${optional[@]}"; do
        if ! is_installed "$package" && is_offered "$package"; then missing+=("$package"); fi
    done
}
for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
done
# Before the lists of packages are fetched, it may be unknown what is offered.
n_needed=${#missing[@]}
((n_needed)) || add_optional
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null ||
        die "these packages are missing, and this user is not root and has no sudo: ${missing[*]}" \
            "Ask an administrator for: apt-get install ${missing[*]}"
    as_root=(sudo)
fi

printf 'setup: installing %s\n' "${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
        -o Acquire::Retries=3 "$@" </dev/null >>"$log" 2>&1
}
fetched=1
apt update || fetched=0
((!n_needed)) || add_optional
if ((!fetched)) || ! apt install -y --no-install-recommends "${missing[@]}"; then
    tail -n 30 "$log" >&2
    die "apt-get could not install: ${missing[*]}" \
        "The lines above are the end of its output; the package names are those of Debian 12."
fi
