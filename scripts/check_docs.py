#!/usr/bin/env python3
"""The commands in the documents work: runs the shell blocks of all Markdown files, and follows their links.

A block fenced as ```sh is run by `bash -euo pipefail`, each in a fresh folder that mirrors the repository (links to
its top-level entries, so that models/... and ./scripts/... work, while new files stay in that folder), with the built
program first in PATH. It must exit with 0. A block fenced as ```sh no-run: REASON is not run; the reason is needed.
Links must lead to a file of the tree, and to a heading in it where they name one; so must documents named in sources.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import lintlib

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_MENTION = re.compile(r"(?<![\w/.])docs/[\w/-]+\.(?:md|json|svg)\b")
NOT_MIRRORED = (".git", "build")


def blocks(text):
    """(line of the fence, info string, body) of every fenced block."""
    for match in _FENCE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group("info").strip(), match.group("body")


def run_block(root, program_folder, body, timeout):
    """None when the block exits with 0, else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="tessera-docs-") as folder:
        for entry in root.iterdir():
            if not entry.name.startswith(NOT_MIRRORED):
                (pathlib.Path(folder) / entry.name).symlink_to(entry)
        path = os.pathsep.join([str(program_folder), os.environ.get("PATH", "")])
        try:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=folder, stdin=subprocess.DEVNULL,
                                  env=os.environ | {"PATH": path}, capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"the block ran for more than {timeout} s"
    if done.returncode == 0:
        return None
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-2000:]
    return f"the block exited with {done.returncode} and said:\n{output}\n"


def anchors(text):
    """The fragments that lead to the headings of a Markdown text, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*?) *$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(root, path, text, findings):
    """Adds a finding for each link without a target; returns the number of links."""
    links = 0
    prose = _FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    for match in _LINK.finditer(prose):
        links += 1
        target, fragment = match.groups()
        if re.match(r"\w+:", target):
            continue
        file = root / path.parent / target if target else root / path
        line = prose.count("\n", 0, match.start()) + 1
        if not file.exists():
            findings.add(path, line, f"link to {target}", "a file of the tree")
        elif fragment and file.suffix == ".md" and fragment not in anchors(file.read_text(encoding="utf-8")):
            findings.add(path, line, f"link to {target}#{fragment}", "a heading of that file")
    return links


def check_mentions(root, findings):
    """Documents that comments and messages of sources name exist."""
    for path in lintlib.source_files(root, lintlib.CPP_SUFFIXES + (".py", ".sh", ".json", ".js", ".inc", ".def")):
        if "lint" in path.parts:
            continue
        for number, line in enumerate(lintlib.read(root, path).split("\n"), 1):
            for match in _MENTION.finditer(line):
                if not (root / match.group(0)).exists():
                    findings.add(path, number, f"mention of {match.group(0)}", "a document of the tree")


def main():
    parser = lintlib.arguments(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the built program (default: the release build's)")
    parser.add_argument("--timeout", type=int, default=900, help="seconds a block may take (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="FILE", help="run the blocks of these files only; links are always checked")
    parser.add_argument("--jobs", type=int, default=1, help="blocks to run at a time (default: %(default)s)")
    args = parser.parse_args()
    if args.bin and not args.bin.is_dir():
        parser.error(f"--bin: expected a folder, found {str(args.bin)!r}")
    root = args.root.resolve()
    program_folder = (args.bin or root / "build/release/examples/tessera").resolve()
    documents = lintlib.source_files(root, (".md",))
    for name in args.only or []:
        if name not in map(str, documents):
            parser.error(f"--only: expected a Markdown file of the tree, found {name!r}")
    findings = lintlib.Findings("check_docs")
    skipped = links = 0
    runs = []  # (path, line, body)
    for path in documents:
        text = lintlib.read(root, path)
        links += check_links(root, path, text, findings)
        if args.only and str(path) not in args.only:
            continue
        for line, info, body in blocks(text):
            language, _, options = info.partition(" ")
            if language != "sh":
                continue
            if options.startswith("no-run"):
                skipped += 1
                if not re.match(r"no-run:\s*\S", options):
                    findings.add(path, line, "a block that is not run", "the reason, as in ```sh no-run: REASON")
            elif options:
                findings.add(path, line, f"block option '{options}'", "nothing, or no-run: REASON")
            else:
                runs.append((path, line, body))
    check_mentions(root, findings)
    with concurrent.futures.ThreadPoolExecutor(max(args.jobs, 1)) as pool:
        problems = pool.map(lambda run: run_block(root, program_folder, run[2], args.timeout), runs)
        for (path, line, _), problem in zip(runs, problems):
            if problem:
                findings.add(path, line, problem, "exit status 0")
    return findings.finish(f"{len(runs)} blocks run, {skipped} not, {links} links")


if __name__ == "__main__":
    sys.exit(main())
