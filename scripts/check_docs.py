#!/usr/bin/env python3
"""The commands in the documents work: runs the shell blocks of all Markdown files, and follows their links.

A block fenced as ```sh is run by `bash -euo pipefail`, each in a fresh folder that mirrors the repository (links to
its top-level entries, so that models/... and ./scripts/... work, while new files stay in that folder), with the built
program first in PATH. It must exit with 0. A block fenced as ```sh no-run: REASON is not run; the reason is needed.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import lintlib

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
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


def main():
    parser = lintlib.arguments(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the built program (default: the release build's)")
    parser.add_argument("--timeout", type=int, default=900, help="seconds a block may take (default: %(default)s)")
    args = parser.parse_args()
    if args.bin and not args.bin.is_dir():
        parser.error(f"--bin: expected a folder, found {str(args.bin)!r}")
    root = args.root.resolve()
    program_folder = (args.bin or root / "build/release/examples/tessera").resolve()
    findings = lintlib.Findings("check_docs")
    run = skipped = links = 0
    for path in lintlib.source_files(root, (".md",)):
        text = lintlib.read(root, path)
        prose = _FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), text)
        for match in _LINK.finditer(prose):
            links += 1
            target = match.group(1)
            if not re.match(r"\w+:", target) and not (root / path.parent / target).exists():
                findings.add(path, prose.count("\n", 0, match.start()) + 1, f"link to {target}", "a file of the tree")
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
                run += 1
                if problem := run_block(root, program_folder, body, args.timeout):
                    findings.add(path, line, problem, "exit status 0")
    return findings.finish(f"{run} blocks run, {skipped} not, {links} links")


if __name__ == "__main__":
    sys.exit(main())
