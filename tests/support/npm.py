"""Packages of npm for tests in the language of a client or a validator."""
import pathlib
import shutil
import subprocess
import sys


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def node_with(work: pathlib.Path, packages, *more):
    """The path of node, with the packages (NAME@VERSION) in work/node_modules. Ends the test with 77, which is a skip,
    where node, npm or the registry are missing; `more` are further options of npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        skip("node and npm are not installed")
    work.mkdir(parents=True, exist_ok=True)
    wanted, marker = "\n".join(packages), work / "installed"
    if not marker.exists() or marker.read_text() != wanted:
        (work / "package.json").write_text('{"private": true}\n')
        try:
            done = subprocess.run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", *more,
                                   *packages], cwd=work, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            skip("npm does not answer")
        if done.returncode != 0:
            skip(f"{wanted} cannot be installed: " + done.stderr.strip()[-300:])
        marker.write_text(wanted)
    return node
