#!/usr/bin/env bash
# Every C and C++ file is laid out as .clang-format says. Exit 77 (skipped) without clang-format 14, whose output
# differs from other versions'.   scripts/lint_format.sh [--root DIR] [--fix]
set -euo pipefail

scripts=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
root=$scripts/..
mode=(--dry-run --Werror)
while (($#)); do
    case $1 in
        --root) root=${2:?--root needs a folder}; shift ;;
        --fix) mode=(-i) ;;
        *) echo "lint_format: unknown argument '$1': expected --root DIR or --fix" >&2; exit 2 ;;
    esac
    shift
done

formatter=
for candidate in clang-format-14 clang-format; do
    if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
        formatter=$candidate
        break
    fi
done
if [[ -z $formatter ]]; then
    echo "lint_format: skipped: no clang-format 14 here (scripts/setup.sh --test installs it on Debian 12)"
    exit 77
fi

cd "$root"
mapfile -t files < <(python3 "$scripts/lintlib.py" . .h .hpp .c .cpp .inl)
if ((${#files[@]})) && ! printf '%s\0' "${files[@]}" | xargs -0 "$formatter" -style=file "${mode[@]}" 2>&1; then
    echo "lint_format: expected the layout of .clang-format; scripts/lint_format.sh --fix makes it"
    exit 1
fi
echo "lint_format: ${#files[@]} files"
