#!/usr/bin/env python3
"""At most 5 % of the code is duplicated.

A line counts if it has more than a comment, brackets, an include or a namespace's edge. It is duplicated when it
lies in a window of 8 such lines (whitespace-normalised, within one file) that occurs at least twice. Data tables
(.inc, .def) are left out.
"""
import collections
import re
import sys

import lintlib

WINDOW = 8
LIMIT_PERCENT = 5.0
FOLDERS = ("src", "ggml-like", "quants", "server", "common", "examples")
_NOISE = re.compile(r"[\s{}()\[\];,]*|#\s*(?:include|pragma)\b.*|namespace\b.*|extern\s*\"C\"\s*\{|"
                    r"(?:public|private|protected):")


def significant_lines(text):
    """(line number, normalised line) of the lines that count."""
    for number, line in enumerate(lintlib.strip_comments(text).split("\n"), 1):
        normalised = re.sub(r"\s+", " ", line.strip())
        if not _NOISE.fullmatch(normalised):
            yield number, normalised


def longest_runs(sources, windows):
    """Pairs of equal runs, longest first: (lines, path, first line, other path, other first line)."""
    runs, seen = [], set()
    for places in windows.values():
        first = places[0]
        for other in places[1:]:
            if (first, other) in seen:
                continue
            (path_a, at_a), (path_b, at_b) = first, other
            a, b = sources[path_a], sources[path_b]
            while at_a and at_b and a[at_a - 1][1] == b[at_b - 1][1]:
                at_a, at_b = at_a - 1, at_b - 1
            start_a, start_b = at_a, at_b
            while at_a < len(a) and at_b < len(b) and a[at_a][1] == b[at_b][1]:
                seen.add(((path_a, at_a), (path_b, at_b)))
                at_a, at_b = at_a + 1, at_b + 1
            runs.append((at_a - start_a, path_a, a[start_a][0], path_b, b[start_b][0]))
    return sorted(set(runs), key=lambda run: (-run[0], str(run)))


def main():
    parser = lintlib.arguments(__doc__)
    parser.add_argument("--limit", type=float, default=LIMIT_PERCENT, help="percent of lines (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=10, help="how many of the longest pairs to show")
    args = parser.parse_args()
    root = args.root.resolve()
    sources = {path: list(significant_lines(lintlib.read(root, path)))
               for path in lintlib.source_files(root, lintlib.CPP_SUFFIXES) if path.parts[0] in FOLDERS}
    windows = collections.defaultdict(list)
    for path, lines in sources.items():
        for at in range(len(lines) - WINDOW + 1):
            windows[tuple(line for _, line in lines[at:at + WINDOW])].append((path, at))
    repeated = {key: places for key, places in windows.items() if len(places) > 1}
    marked = {(path, at + i) for places in repeated.values() for path, at in places for i in range(WINDOW)}
    total = sum(len(lines) for lines in sources.values())
    share = 100.0 * len(marked) / total if total else 0.0
    for length, path_a, line_a, path_b, line_b in longest_runs(sources, repeated)[:args.pairs]:
        print(f"{path_a}:{line_a}: {length} lines also at {path_b}:{line_b}")
    verdict = f"{len(marked)} of {total} lines duplicated, {share:.1f} %; the limit is {args.limit:g} %"
    print(f"lint_dups: {verdict}")
    return 1 if share > args.limit else 0


if __name__ == "__main__":
    sys.exit(main())
