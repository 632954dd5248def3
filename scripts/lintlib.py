#!/usr/bin/env python3
"""Common code of the lints: the list of source files, comment stripping, and the form of a message.

As a program it prints the files of a tree, one a line:  lintlib.py ROOT [SUFFIX...]
"""
import argparse
import pathlib
import re
import subprocess
import sys

CPP_SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".inl")
SKIPPED_FOLDERS = {".git", "__pycache__"}


def source_files(root, suffixes=()):
    """Paths relative to root, sorted: tracked files and those that git does not ignore; without git, all but build*."""
    git = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(git, capture_output=True, check=True).stdout.decode().split("\0")
        paths = [pathlib.PurePosixPath(p) for p in listed if p and (root / p).is_file()]
    except (OSError, subprocess.CalledProcessError):
        paths = [pathlib.PurePosixPath(p.relative_to(root).as_posix()) for p in root.rglob("*") if p.is_file()]
        paths = [p for p in paths if not SKIPPED_FOLDERS & set(p.parts) and not p.parts[0].startswith("build")]
    return sorted(p for p in set(paths) if not suffixes or p.name.endswith(tuple(suffixes)))


def read(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace")


class Findings:
    """Collects messages `file:line: what was found; expected ...`; the exit status is 1 when there is one."""

    def __init__(self, name):
        self.name = name
        self.messages = []

    def add(self, path, line, found, expected):
        self.messages.append(f"{path}:{line}: {found}; expected {expected}")

    def finish(self, summary):
        for message in self.messages:
            print(message)
        if self.messages:
            print(f"{self.name}: {len(self.messages)} finding(s)")
            return 1
        print(f"{self.name}: {summary}")
        return 0


def arguments(description):
    """A parser with the option that every lint has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this script lies in)")
    return parser


TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
      | (?P<raw>\b(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
      | (?P<string>"(?:[^"\\\n]|\\.)*"?)
      | (?P<number>\b\d(?:'?[\w.])*)
      | (?P<char>'(?:[^'\\\n]|\\.)*'?)""",
    re.VERBOSE | re.DOTALL)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def strip_comments(text, strings=True):
    """The text with comments blanked, and with strings=False the insides of literals too; line numbers stay."""

    def replace(match):
        if match.lastgroup == "comment" or match.group("comment") is not None:
            return _blank(match.group(0))
        if strings or match.group("number") is not None:
            return match.group(0)
        quote = "'" if match.group("char") is not None else '"'
        return quote + _blank(match.group(0))[1:-1] + quote if len(match.group(0)) > 1 else quote

    return TOKEN.sub(replace, text)


_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')


def includes(text):
    """(line number, header of others or "", header of ours or "") of every include that is no comment."""
    # Comments go, strings stay: an include's name is one.
    for number, line in enumerate(strip_comments(text).split("\n"), 1):
        if match := _INCLUDE.match(line):
            yield number, match.group(1) or "", match.group(2) or ""


def _directives(lines):
    """(first line, one past the last line, text) of every preprocessor directive."""
    at = 0
    while at < len(lines):
        end = at + 1
        if lines[at].lstrip().startswith("#"):
            while lines[end - 1].rstrip().endswith("\\") and end < len(lines):
                end += 1
            yield at, end, lines[at].lstrip()[1:].strip()
        at = end


def code_only(text):
    """C++ without comments, literals and directives, for counting braces. Where the branches of an #if are not
    balanced each for itself, only the first one is kept, as the compiler sees only one."""
    lines = strip_comments(text, strings=False).split("\n")
    groups = []  # open #if groups, each the list of its branches' (start, end) line ranges

    def balanced(start, end):
        depth = 0
        for char in "\n".join(lines[start:end]):
            depth += (char == "{") - (char == "}")
            if depth < 0:
                return False
        return depth == 0

    for start, end, directive in list(_directives(lines)):
        word = re.match(r"\w*", directive).group(0)
        if word in ("if", "ifdef", "ifndef"):
            groups.append([[end, end]])
        elif word in ("else", "elif", "elifdef", "elifndef") and groups:
            groups[-1][-1][1] = start
            groups[-1].append([end, end])
        elif word == "endif" and groups:
            branches = groups.pop()
            branches[-1][1] = start
            if not all(balanced(*branch) for branch in branches):
                for first, last in branches[1:]:
                    lines[first:last] = [""] * (last - first)
        lines[start:end] = [""] * (end - start)
    return "\n".join(lines)


if __name__ == "__main__":
    for source in source_files(pathlib.Path(sys.argv[1]).resolve(), tuple(sys.argv[2:])):
        print(source)
