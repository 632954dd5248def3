#!/usr/bin/env python3
"""What no text file of the tree may hold: notes to oneself, paths of one machine, package mirrors, odd line ends."""
import re
import sys

import lintlib

BINARY_SUFFIXES = (".gguf", ".model", ".safetensors", ".bin", ".png", ".jpg", ".ico", ".woff2")

# (what, pattern, expected, only in files with these suffixes). The patterns avoid matching their own source.
RULES = [
    ("a note to oneself", re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b"), "finished work, or an entry in the tracker", ()),
    ("a path of one machine", re.compile(r"(?<![\w.~-])/(?:hom[e]|wor[k]|tmp/bas[h])[/_]\w*"),
     "a path relative to the repository", ()),
    ("a package registry's host", re.compile(
        r"\b(?:(?:deb|security|ftp)\.(?:debia[n])\.org|archive\.ubunt[u]\.com|registry\.npm[j]s\.org|registry\.yar[n]pkg\.com"
        r"|(?:files\.)?py(?:p[i]|thonhoste[d])\.org|(?:static\.|index\.)?crate[s]\.io|proxy\.golan[g]\.org"
        r"|(?:https?://)(?:deb|registry|security)\.[\w.-]+)"), "no host: the system's own configuration decides", ()),
    ("a carriage return", re.compile(r"\r"), "lines that end in LF alone", ()),
    ("a tab", re.compile(r"\t"), "spaces", lintlib.CPP_SUFFIXES + (".inc", ".def")),
    ("a conflict marker", re.compile(r"^(?:<{7}|>{7}) "), "a resolved merge", ()),
]


def main():
    root = lintlib.arguments(__doc__).parse_args().root.resolve()
    findings = lintlib.Findings("lint_text")
    count = 0
    for path in lintlib.source_files(root):
        data = (root / path).read_bytes()
        if path.name.endswith(BINARY_SUFFIXES) or b"\0" in data:
            continue
        count += 1
        for number, line in enumerate(data.decode("utf-8", errors="replace").split("\n"), 1):
            for what, pattern, expected, suffixes in RULES:
                if suffixes and not path.name.endswith(suffixes):
                    continue
                if match := pattern.search(line):
                    findings.add(path, number, f"{what} ({match.group(0)!r})", expected)
    return findings.finish(f"{count} files clean")


if __name__ == "__main__":
    sys.exit(main())
