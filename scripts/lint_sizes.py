#!/usr/bin/env python3
"""Functions and files keep their limits of size, and every source is compiled.

A function may have 120 lines, one in a kernel folder 150; a file 1000. Data tables (.inc, .def) are exempt. Every
.c and .cpp must be named by a CMakeLists.txt, since it is not compiled otherwise.
"""
import re
import sys

import lintlib

FUNCTION_LINES = 120
KERNEL_LINES = 150
FILE_LINES = 1000
KERNEL_FOLDERS = ("quants/kernels/", "quants/arch/", "ggml-like/cpu/arch/")
LIMITED_SUFFIXES = lintlib.CPP_SUFFIXES + (".py", ".sh", ".cmake", ".js", ".css", ".html", "CMakeLists.txt")

_ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\b(?:alignas|__attribute__|__declspec)\s*\((?:[^()]|\([^()]*\)|\(\([^()]*\)\))*\)",
                        re.DOTALL)
_TEMPLATE_WORDS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:(?!:))+")
_OPERATOR = re.compile(r"\boperator\s*(?:\(\s*\)|\[\s*\]|[^\w\s(]+)")


def _outside_parens(text):
    """The text with everything in (), [] removed, the brackets kept."""
    out, depth = [], 0
    for char in text:
        if char in ")]":
            depth -= 1
        if depth <= 0:
            out.append(char)
        if char in "([":
            depth += 1
    return "".join(out)


def _without_template_heads(text):
    """Drops `template <...>` so that `class` and `=` in its parameters do not mislead."""
    while match := re.search(r"\btemplate\s*<", text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += (text[at] == "<") - (text[at] == ">" and text[at - 1] != "-")
            at += 1
        text = text[:match.start()] + " " * (at - match.start()) + text[at:]
    return text


def _kind(head):
    """The kind of the `{` after this head at namespace or class scope: scope, function, member or data."""
    flat = _OPERATOR.sub("operator_", _without_template_heads(_ATTRIBUTE.sub(" ", head)))
    outside = _outside_parens(flat)
    if not flat.strip() or re.search(r'\bnamespace\b[\w\s:]*$|\bextern\s*"\s*"\s*$', flat):
        return "scope"
    if re.search(r"\benum\b", outside):
        return "data"
    if re.search(r"\b(?:class|struct|union)\b", outside) and "(" not in outside and "=" not in outside:
        return "scope"
    if re.search(r"(?<![=!<>])=(?!=)", outside):
        return "function" if re.search(r"=\s*\[", outside) else "data"
    if "(" not in outside:
        return "data"
    initializers = re.search(r"\)[\w\s]*:(?!:)", outside)
    if initializers and re.search(r"[\w>]\s*$", flat) and not re.search(r"\b(?:try)\s*$", flat):
        return "member"  # a{1} in a constructor's list; its body is still to come
    return "function"


def _closing(code, at):
    """Index of the brace that closes the one at `at`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, at):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def functions(text):
    """(name, first line, last line) of every function in C or C++ text; lambdas inside count with their function."""
    code = lintlib.code_only(text)
    found, head_start, parens, at = [], 0, 0, 0
    while at < len(code):
        char = code[at]
        if char in "([":
            parens += 1
        elif char in ")]":
            parens = max(0, parens - 1)
        elif char == ";" and parens == 0 or char == "}":
            head_start, parens = at + 1, 0
        elif char == "{":
            head = code[head_start:at]
            kind = "member" if parens else _kind(_TEMPLATE_WORDS.sub(lambda m: " " * len(m.group(0)), head))
            if kind == "scope":
                head_start = at + 1
            else:
                end = _closing(code, at)
                if kind == "function":
                    first = head_start + re.match(r"\s*(?:(?:public|private|protected)\s*:(?!:)\s*)*", head).end()
                    name = re.search(r"(operator\s*[^\s(]+|~?\w+)\s*\(|(\w+)\s*=", _without_template_heads(
                        _ATTRIBUTE.sub(lambda m: " " * len(m.group(0)), head)))
                    found.append(((name.group(1) or name.group(2)) if name else "?",
                                  code.count("\n", 0, first) + 1, code.count("\n", 0, end) + 1))
                if kind != "member":
                    head_start = end + 1
                at = end
        at += 1
    return found


def listed_sources(root, files):
    """A predicate: is this source named by some CMakeLists.txt? `${name}` in a list stands for any text."""
    names, patterns = set(), []
    for path in (p for p in files if p.name == "CMakeLists.txt"):
        text = re.sub(r"#[^\n]*", "", lintlib.read(root, path))
        for token in re.findall(r"[^\s()\"]+\.(?:cpp|c)\b", text):
            token = re.sub(r"\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}/", "", token)
            folder = "" if "${CMAKE_SOURCE_DIR}/" in token else path.parent.as_posix() + "/"
            token = (folder + token.replace("${CMAKE_SOURCE_DIR}/", "")).removeprefix("./")
            if "${" in token:
                patterns.append(re.compile(re.sub(r"\\\$\\\{\w+\\\}", "[^/]*", re.escape(token))))
            else:
                names.add(token)
    return lambda path: path.as_posix() in names or any(p.fullmatch(path.as_posix()) for p in patterns)


def main():
    root = lintlib.arguments(__doc__).parse_args().root.resolve()
    findings = lintlib.Findings("lint_sizes")
    files = lintlib.source_files(root)
    is_listed = listed_sources(root, files)
    longest, count = (0, "no function"), 0
    for path in files:
        if not path.name.endswith(LIMITED_SUFFIXES):
            continue
        text = lintlib.read(root, path)
        lines = text.count("\n")
        if lines > FILE_LINES:
            findings.add(path, FILE_LINES + 1, f"the file has {lines} lines", f"at most {FILE_LINES}: split it")
        if path.suffix in (".c", ".cpp") and not is_listed(path):
            findings.add(path, 1, "no CMakeLists.txt names this source", "an entry in its folder's list")
        if path.suffix not in lintlib.CPP_SUFFIXES:
            continue
        limit = KERNEL_LINES if path.as_posix().startswith(KERNEL_FOLDERS) else FUNCTION_LINES
        for name, first, last in functions(text):
            size, count = last - first + 1, count + 1
            longest = max(longest, (size, f"{name} at {path}:{first}"))
            if size > limit:
                findings.add(path, first, f"function '{name}' has {size} lines", f"at most {limit}")
    return findings.finish(f"{count} functions, the longest {longest[0]} lines ({longest[1]})")


if __name__ == "__main__":
    sys.exit(main())
