#!/usr/bin/env python3
"""Writes manual pages from the options that the program declares (`tessera help --markdown`).

    make_man.py --program PATH FOLDER    writes FOLDER/tessera.1 and FOLDER/tessera-COMMAND.1 for each command
"""
import argparse
import pathlib
import re
import sys

from cli_reference import markdown_of

COMMAND = re.compile(r"^## tessera ([^\n]+)\n(.*?)(?=^##? |\Z)", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(?P<left>(?:[^`\\]|\\.)+)` \| (?P<right>.*) \|$")


def roff(text):
    """Plain text as roff: backslashes, hyphens and leading control characters escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def plain(markdown):
    """A cell or paragraph without its markup."""
    return re.sub(r"\*\*|`", "", markdown).replace("\\|", "|")


def page(name, body, first_line):
    """The page of one command from its section of Markdown."""
    fences = FENCE.findall(body)
    usage, examples = fences[0].strip(), fences[-1] if len(fences) > 1 else ""
    text = FENCE.sub("", body)
    description = text.split("\n**")[0].split("\nExamples:")[0].strip()
    title = "tessera-" + name.replace(" ", "-")
    out = [f'.TH "{title.upper()}" 1 "" "tessera" "tessera manual"', ".SH NAME",
           f"{roff(title)} \\- {roff(first_line)}", ".SH SYNOPSIS", roff(usage), ".SH DESCRIPTION"]
    for paragraph in description.split("\n\n"):
        out += [".PP", roff(plain(paragraph))]
    for line in text.split("\n"):
        if line.startswith("**") and line.endswith("**"):
            out.append(f'.SH "{roff(line.strip("*").upper())}"')
        elif (row := ROW.match(line)):
            out += [".TP", f".B {roff(plain(row.group('left')))}", roff(plain(row.group("right")))]
    if examples:
        out += [".SH EXAMPLES", ".nf", roff(examples.rstrip("\n")), ".fi"]
    out += [".SH SEE ALSO", ".BR tessera (1)"]
    return title, "\n".join(out) + "\n"


def pages(markdown):
    """{file name: text} of all manual pages."""
    out = {}
    summaries = []
    # Lines of examples that begin with # are no headings.
    masked = FENCE.sub(lambda m: m.group(0).replace("\n#", "\n\0"), markdown)
    for match in COMMAND.finditer(masked):
        name, body = match.group(1), match.group(2).replace("\0", "#")
        first_line = plain(body.strip().split("\n\n")[0]).replace("\n", " ")
        first_line = re.split(r"(?<=\w)\.(?= |$)", first_line)[0]
        title, text = page(name, body, first_line)
        out[title + ".1"] = text
        summaries.append((title, first_line))
    overview = ['.TH "TESSERA" 1 "" "tessera" "tessera manual"', ".SH NAME", "tessera \\- run large language models on CPUs",
                ".SH SYNOPSIS", ".B tessera", "COMMAND [OPTIONS]", ".SH COMMANDS"]
    for title, summary in summaries:
        overview += [".TP", f".BR {roff(title)} (1)", roff(summary)]
    overview += [".SH ENVIRONMENT", ".TP", ".B TESSERA_MODEL", "The model of commands without MODEL.",
                 ".TP", ".B TESSERA_ISA", "The instruction set to use, such as scalar or avx2."]
    out["tessera.1"] = "\n".join(overview) + "\n"
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the built program")
    parser.add_argument("folder", type=pathlib.Path, help="where the pages go")
    args = parser.parse_args()
    made = pages(markdown_of(args.program))
    if len(made) < 2:
        sys.exit(f"make_man: {args.program} help --markdown describes no command")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (args.folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
