#!/usr/bin/env python3
"""Kernels are tuned for no processor in particular, whatever flags the user adds to a build (cmake/isa.cmake).

check_isa_flags.py BUILD_DIR reads the lists of objects that cmake/isa.cmake writes, and the compiler's commands.
"""
import argparse
import json
import pathlib
import shlex
import sys

import lintlib

TUNING = "-mtune=generic"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD_DIR")
    build = parser.parse_args().build.resolve()

    listed = build / "compile_commands.json"
    if not listed.is_file():
        print(f"{listed}: no such file; expected the compiler's commands (configure with gcc for x86 first)")
        return 1
    commands = {}
    for entry in json.loads(listed.read_text()):
        words = shlex.split(entry["command"])
        commands[(pathlib.Path(entry["directory"]) / words[words.index("-o") + 1]).resolve()] = words
    objects = [line for part in sorted((build / "isa-objects").glob("*.txt")) for line in part.read_text().split()]

    findings = lintlib.Findings("check_isa_flags")
    for name in objects:
        words = commands.get(pathlib.Path(name).resolve())
        if words is None:
            findings.add(name, 0, "no compiler command has this output", "one in compile_commands.json")
            continue
        # -march=CPU tunes for it too, but not behind -mtune; of several -mtune the last one counts.
        tuning = [word for word in words if word.startswith("-mtune=")]
        if tuning[-1:] != [TUNING]:
            findings.add(name, 0, f"tuned by {tuning[-1] if tuning else 'default or -march'}", TUNING)
    if not objects:
        findings.add(build / "isa-objects", 0, "no object listed", "one at least (configure first)")
    return findings.finish(f"{len(objects)} objects, all tuned by {TUNING}")


if __name__ == "__main__":
    sys.exit(main())
