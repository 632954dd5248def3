#!/usr/bin/env python3
"""Text that no file of the tree may hold: notes to oneself, paths of one machine, package mirrors, odd line ends, and
the idioms that docs/glossary.md retires, in comments, messages, help and documents.

    lint_text.py                     the whole tree
    lint_text.py --idioms FOLDER...  the idioms only, in these folders or files
"""
import argparse
import io
import pathlib
import re
import sys
import tokenize

import lintlib

BINARY_SUFFIXES = (".gguf", ".model", ".safetensors", ".bin", ".png", ".jpg", ".ico", ".woff2")

# (finding, pattern, expected, only in files with these suffixes). The patterns avoid matching their own source.
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

# Files that have to name the retired words.
QUOTING = {"docs/glossary.md", "scripts/lint_text.py", "tests/lint/lints_test.py"}

# (pattern, the field's word). Applied to prose with line breaks folded, so that a phrase may span lines.
IDIOMS = [(re.compile(pattern, re.IGNORECASE), word) for pattern, word in [
    (r"\bask(?:s|ed|ing)?(?: \w+)?? for\b(?! (?:help|permission))", "prefetch, request, require"),
    (r"\b(?:of|than|by|to|reach(?:es)?) (?:the|a) read\b(?![ -](?:bandwidth|only|lock|set|call|callback|buffer|position|timeout))",
     "memory bandwidth"),
    (r"\bloud(?:er|est|ly)?\b", "noisy, or 'on a shared machine'"),
    (r"\bquiet(?:er|est)? (?:hour|minute|quarter|machine|moment|set|day)s?\b", "idle machine"),
    (r"\b(?:measured|samples?|runs?|pairs?|rounds?|builds?|figures?|shares?) in turns?\b", "interleaved, alternating"),
    (r"\b(?:first|second|third|inner(?:most)?|outer(?:most)?) caches?\b", "L1, L2, L3"),
    (r"\b(?:giv(?:e|es|ing|en)|gave) way\b", "is preempted, is evicted"),
    (r"\b(?:made|mak(?:e|es|ing)) known\b", "published to the prefix cache, cached"),
    (r"\bignore[ds]? known\b|\bknown to all\b", "cached"),
    (r"\b(?:go|goes|going|went|gone) on\b(?! (?:a|an|the|top|its|their|this|that|disk|one|to the)\b)", "continue"),
    (r"\bso many\b(?! that\b)", "the number: n, at most n, this many"),
    (r"\bwho(?:ever|mever)\b", "the caller, the owner, any thread that"),
    (r"\bas told\b", "as configured, as given"),
    (r"(?:^|[.;] )read again:", "a subject that says what changes"),
    (r"\bprompts?(?: that)? (?:is|are|was|were|has been|have been|being) (?:being )?read\b", "prefilled, processed"),
    (r"\b(?:and|to|of|for|by|from|than|do|does|as) who\b(?! (?:else|may|has which))", "a noun: the thread, caller, request that"),
    (r"\bsince then\b|\bused to be\b", "the present state without its history"),
    (r"\blucky moments?\b", "best of n"),
    (r"\b(?:hold|holds|held|holding)(?: \w+){0,2} to (?:an? |the |its |their |this |that )?(?:form|grammar|json|schema)\b",
     "constrained to"),
    (r"\b(?:G?MACs?|tokens|bytes|instructions) an? (?:cycle|second|clock)\b", "per cycle, tokens/s"),
    (r"\bto and fro\b", "alternates"),
]]
HEADLESS = re.compile(r"(?:^|[.!?:;] )(?P<head>(?:What|Who)(?:ever)? (?:[^.?!]|[.?!](?! |$))*)(?P<end>[.?!]|$)")
HEADLESS_WORD = "a sentence with a noun as its subject"

_MARKER = re.compile(r"^[ \t]*(?://[/!]?<?|/\*+|\*/|\*(?!\*)|#+!?)?[ \t]*|\s*\*/\s*$")


def _add(segments, kind, line, text, may_join):
    """Appends lines of text that begin at `line`, joining them to the segment before where that is adjacent."""
    lines = [_MARKER.sub("", part) for part in text.split("\n")]
    if segments and may_join and segments[-1][0] == kind and segments[-1][1][-1][0] + 1 >= line:
        segment = segments[-1][1]
    else:
        segment = []
        segments.append((kind, segment))
    for offset, part in enumerate(lines):
        if part.strip() in ("", "*/"):
            if segment:
                segment = []
                segments.append((kind, segment))
        else:
            segment.append((line + offset, part.strip()))
    if not segment:
        segments.pop()


def _c_segments(text, with_strings):
    """Comments, those of neighbouring lines as one, and literals, adjacent ones as one."""
    segments = []
    end = 0
    code_line = -1
    for match in lintlib.TOKEN.finditer(text):
        between = text[end:match.start()]
        end = match.end()
        line = text.count("\n", 0, match.start()) + 1
        if between.strip():
            code_line = line - (between[-1] == "\n" if between else 0)
        if match.group("comment") is not None:
            starts_line = not text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
            _add(segments, "comment", line, match.group(0), starts_line and not between.strip())
        elif with_strings and (match.group("string") is not None or match.group("raw") is not None):
            inside = match.group(0).strip('"').replace("\\n", "\n").replace('\\"', '"')
            for n, part in enumerate(inside.split("\n")):
                if part.strip():
                    _add(segments, "string", line, part, not between.strip() and n == 0)
    return segments


def _python_segments(text, with_strings):
    segments = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                _add(segments, "comment", token.start[0], token.string, not token.line[:token.start[1]].strip())
            elif token.type == tokenize.STRING and (with_strings or token.string.startswith('"""')):
                _add(segments, "string", token.start[0], token.string.strip("\"'rbf"), not token.string.startswith('"""'))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass
    return segments


def _markdown_segments(text):
    """Paragraphs, list items and cells; without headings, fenced blocks and inline code."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1\s*$", lambda m: re.sub(r"[^\n]", "", m.group(0)), text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]+`", "`...`", text)
    segments = []
    joins = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            joins = False
        elif stripped.startswith("|"):
            for cell in stripped.strip("|").split("|"):
                if cell.strip():
                    segments.append(("text", [(number, cell.strip())]))
            joins = False
        else:
            item = re.match(r"(?:[-*+]|\d+\.) +", stripped)
            part = stripped[item.end():] if item else stripped
            if joins and not item:
                segments[-1][1].append((number, part))
            else:
                segments.append(("text", [(number, part)]))
            joins = True
    return segments


def _script_segments(text):
    segments = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.search(r"(?:^|\s)#(?!!)", line):
            _add(segments, "comment", number, line[match.start():].strip(), not line[:match.start()].strip())
        if match := re.search(r"\b(?:echo|printf|message|say|fail|die)\b[^\"']*[\"'](.*)", line):
            _add(segments, "string", number, match.group(1), False)
    return segments


def segments_of(path, text):
    """(kind, [(line number, text)]) of each piece of prose of a file. In tests, literals are data and left out."""
    with_strings = path.parts[0] != "tests"
    name = path.name
    if name.endswith(".md"):
        return _markdown_segments(text)
    if name.endswith(lintlib.CPP_SUFFIXES + (".inc", ".def", ".js", ".css", ".in")):
        return _c_segments(text, with_strings)
    if name.endswith(".py"):
        return _python_segments(text, with_strings)
    if name.endswith((".sh", ".cmake")) or name == "CMakeLists.txt":
        return _script_segments(text)
    if name.endswith((".json", ".html")) and with_strings:
        return [("text", [(number, line)]) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return []


def idioms(path, text):
    """(line, phrase, the field's word) of each retired idiom in a file's prose."""
    for _, parts in segments_of(path, text):
        joined = " ".join(part for _, part in parts)
        starts = []
        at = 0
        for line, part in parts:
            starts.append((at, line))
            at += len(part) + 1

        def line_of(position):
            return [line for start, line in starts if start <= position][-1]

        for pattern, word in IDIOMS:
            for match in pattern.finditer(joined):
                yield line_of(match.start()), match.group(0), word
        for match in HEADLESS.finditer(joined):
            if match.group("end") != "?":
                head = match.group("head")
                yield line_of(match.start("head")), head[:40] + ("..." if len(head) > 40 else ""), HEADLESS_WORD


def is_below(path, folders):
    return any(str(path) == folder or str(path).startswith(folder.rstrip("/") + "/") for folder in folders)


def main():
    parser = lintlib.arguments(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--idioms", nargs="+", metavar="FOLDER",
                        help="report only the idioms, below these folders or in these files")
    args = parser.parse_args()
    root = args.root.resolve()
    findings = lintlib.Findings("lint_text")
    only = [pathlib.PurePosixPath(folder).as_posix() for folder in args.idioms] if args.idioms else None
    for folder in only or []:
        if not (root / folder).exists():
            parser.error(f"--idioms: expected a folder or file of the tree, found {folder!r}")
    count = 0
    for path in lintlib.source_files(root):
        if only and only != ["."] and not is_below(path, only):
            continue
        data = (root / path).read_bytes()
        if path.name.endswith(BINARY_SUFFIXES) or b"\0" in data:
            continue
        count += 1
        text = data.decode("utf-8", errors="replace")
        if not only:
            for number, line in enumerate(text.split("\n"), 1):
                for finding, pattern, expected, suffixes in RULES:
                    if suffixes and not path.name.endswith(suffixes):
                        continue
                    if match := pattern.search(line):
                        findings.add(path, number, f"{finding} ({match.group(0)!r})", expected)
        if str(path) not in QUOTING:
            for number, phrase, word in idioms(path, text):
                findings.add(path, number, f"the idiom {phrase!r}", f"{word} (docs/glossary.md)")
    return findings.finish(f"{count} files clean")


if __name__ == "__main__":
    sys.exit(main())
