#!/usr/bin/env python3
"""The binary interface of the C library is the one of the baseline: its functions, their types and those of structs.

The interface is declared by include/tessera.h: the library is compiled against it, and tests/capi/install_test.py compares
the exported names with it. A library of empty functions made from the header therefore has the same interface; abidiff, of
Debian's abigail-tools, compares it with tests/capi/tessera.abi. Any difference is a finding. An addition enters the
baseline with --update, in the same change; a removal or modification breaks callers, and requires another
TSR_ABI_VERSION and symbol version. Exits with 77 if a tool or the baseline's architecture is missing.
"""
import argparse
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASELINE = ROOT / "tests/capi/tessera.abi"
MACHINE = "x86_64"  # of the baseline


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, **options)


def stub(header):
    """Each declared function with an empty body, in C."""
    out = ["#include <tessera.h>"]
    for returned, name, parameters in re.findall(r"^TSR_API ([\w\s*]+?)(\w+)\(([^;]*)\);", header, re.MULTILINE):
        body = "" if returned.strip() == "void" else " return 0; "
        out.append(f"{returned}{name}({parameters}) {{{body}}}")
    return "\n".join(out) + "\n"


def dump(folder, header, out):
    """The interface in abigail's XML, without places."""
    (folder / "tessera.h").write_text(header)
    (folder / "stub.c").write_text(stub(header))
    for command in (
            ("cc", "-std=c99", "-g", "-O0", "-w", "-fPIC", "-shared", "-I.", "stub.c", "-o", "libtessera.so",
             f"-fdebug-prefix-map={folder}=.", f"-Wl,--version-script={ROOT / 'src/capi/exports.map'}", "-Wl,-soname,libtessera.so.1"),
            ("abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--out-file", out, "libtessera.so")):
        done = run(*command, cwd=folder)
        if done.returncode != 0:
            sys.exit(f"check_abi: {command[0]}: {done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=pathlib.Path, default=ROOT / "include/tessera.h")
    parser.add_argument("--baseline", type=pathlib.Path, default=BASELINE)
    parser.add_argument("--update", action="store_true", help="write the baseline, and show what changes in it")
    options = parser.parse_args()
    missing = [tool for tool in ("cc", "abidw", "abidiff") if not shutil.which(tool)]
    if missing or platform.machine() != MACHINE:
        print(f"check_abi: skipped: no {' and no '.join(missing)}" if missing else
              f"check_abi: skipped: the baseline is of {MACHINE}, this is {platform.machine()}")
        return 77
    with tempfile.TemporaryDirectory(prefix="tessera-abi-") as folder:
        now = pathlib.Path(folder) / "now.abi"
        dump(pathlib.Path(folder), options.header.read_text(), now)
        if not options.baseline.exists() and options.update:
            shutil.copy(now, options.baseline)
            return 0
        compared = run("abidiff", "--harmless", options.baseline, now)
        if compared.returncode & 3:
            sys.exit(f"check_abi: abidiff: {compared.stdout}{compared.stderr}")
        if compared.returncode == 0:
            print("check_abi: the interface is that of the baseline")
            return 0
        print(compared.stdout)
        if options.update:
            shutil.copy(now, options.baseline)
            return 0
        print("check_abi: the interface differs from the baseline; where that is meant: scripts/check_abi.py --update")
        return 1


if __name__ == "__main__":
    sys.exit(main())
