"""The checks of interface, objects and documents: each finds its defect, names it, and accepts the sound form."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from lint_case import ROOT, SCRIPTS, LintCase

sys.path.insert(0, str(SCRIPTS))
import lintlib  # noqa: E402


class Abi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([sys.executable, ROOT / "scripts/check_abi.py"], capture_output=True).returncode == 77:
            raise unittest.SkipTest("scripts/check_abi.py cannot run here")

    def check(self, edit=lambda header: header, *arguments):
        header = (ROOT / "include/tessera.h").read_text()
        edited = edit(header)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tessera.h"
            path.write_text(edited)
            return subprocess.run([sys.executable, ROOT / "scripts/check_abi.py", "--header", path, *arguments],
                                  capture_output=True, text=True, timeout=120)

    def finds(self, old, new, says):
        done = self.check(lambda header: header.replace(old, new, 1))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(says, done.stdout)

    def test_header_equals_baseline(self):
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_removal(self):
        self.finds("TSR_API void tsr_session_cancel(tsr_session* session);", "", "tsr_session_cancel")

    def test_modification(self):
        self.finds("    int64_t n_keep;", "    int32_t n_keep;", "n_keep")
        self.finds("TSR_MALFORMED = 3", "TSR_MALFORMED = 13", "TSR_MALFORMED")

    def test_addition(self):
        self.finds("TSR_API int tsr_abi_version(void);",
                   "TSR_API int tsr_abi_version(void);\nTSR_API int tsr_new(int x);", "tsr_new")


STRONG = 'static int g(int x) { return x + 1; }\nextern "C" int f(int x) { return g(x); }\n'
WEAK = "template <class T> [[gnu::noinline]] T twice(T x) { return x + x; }\nint f(int x) { return twice(x); }\n"
UNIQUE = "struct S { static inline int n = 3; };\nint* f() { return &S::n; }\n"


class IsaSymbols(LintCase):
    def check(self, *sources):
        build = self.tree({f"{i}.cpp": text for i, text in enumerate(sources)} | {"isa-objects/none.txt": "\n"})
        compiler = shutil.which("c++") or shutil.which("g++")
        objects = []
        for i in range(len(sources)):
            subprocess.run([compiler, "-std=c++20", "-O1", "-c", f"{i}.cpp", "-o", f"{i}.o"], cwd=build, check=True)
            objects.append(str(build / f"{i}.o"))
        (build / "isa-objects/a.txt").write_text("\n".join(objects) + "\n")
        return self.lint("check_isa_symbols.sh", build)

    def test_strong_symbols_pass(self):
        self.assertEqual(self.check(STRONG), (0, "check_isa_symbols: 1 objects, no weak symbol\n"))

    def test_weak_function_fails(self):
        status, output = self.check(STRONG, WEAK)
        self.assertEqual(status, 1)
        self.assertIn("1.o: weak symbol 'int twice<int>(int)'", output)

    def test_inline_variable_fails(self):
        status, output = self.check(UNIQUE)
        self.assertEqual(status, 1)
        self.assertIn("weak symbol 'S::n'", output)

    def test_nothing_to_check_fails(self):
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("the lists are empty", output)
        status, output = self.lint("check_isa_symbols.sh", self.tree({}))
        self.assertEqual(status, 1)
        self.assertIn("no list of objects", output)

    def test_missing_object_fails(self):
        status, output = self.lint("check_isa_symbols.sh", self.tree({"isa-objects/a.txt": "gone.o\n"}))
        self.assertEqual(status, 1)
        self.assertIn("gone.o: the object is missing", output)


class IsaFlags(LintCase):
    def check(self, flags, listed="kernels.o"):
        build = self.tree({"isa-objects/a.txt": "", "compile_commands.json": ""})
        command = f"/usr/bin/c++ {flags} -o kernels.o -c kernels.cpp"
        entry = {"directory": str(build), "command": command, "file": "kernels.cpp"}
        (build / "compile_commands.json").write_text(json.dumps([entry]))
        (build / "isa-objects/a.txt").write_text(f"{build / listed}\n" if listed else "\n")
        return self.lint("check_isa_flags.py", build)

    def test_generic_tuning_passes(self):
        passed = (0, "check_isa_flags: 1 objects, all tuned by -mtune=generic\n")
        self.assertEqual(self.check("-mavx2 -mtune=generic"), passed)
        self.assertEqual(self.check("-march=native -mtune=znver3 -mavx2 -mtune=generic"), passed)

    def test_other_tuning_fails(self):
        for flags, found in (("-march=native -mavx2", "tuned by default or -march"),
                             ("-mtune=generic -mtune=znver3", "tuned by -mtune=znver3")):
            status, output = self.check(flags)
            self.assertEqual(status, 1)
            self.assertIn(found, output)

    def test_nothing_to_check_fails(self):
        status, output = self.check("-mtune=generic", listed="")
        self.assertEqual(status, 1)
        self.assertIn("no object listed", output)
        status, output = self.check("-mtune=generic", listed="other.o")
        self.assertEqual(status, 1)
        self.assertIn("no compiler command has this output", output)
        status, output = self.lint("check_isa_flags.py", self.tree({"isa-objects/a.txt": "\n"}))
        self.assertEqual(status, 1)
        self.assertIn("compile_commands.json: no such file", output)


def block(body, info="sh"):
    return f"Text\n\n```{info}\n{body}\n```\n"


class Docs(LintCase):
    def test_block_runs_in_a_mirror_with_the_program_in_path(self):
        files = {"README.md": block("tessera > out.txt\ntest \"$(cat out.txt)\" = hello\ncat models/m"),
                 "models/m": "", "bin/tessera": "#!/bin/sh\necho hello\n"}
        root = self.tree(files)
        (root / "bin/tessera").chmod(0o755)
        status, output = self.lint("check_docs.py", "--root", root, "--bin", root / "bin")
        self.assertEqual((status, output), (0, "check_docs: 1 blocks run, 0 not, 0 links\n"))
        self.assertFalse((root / "out.txt").exists())

    def test_the_program_is_in_a_folder(self):
        root = self.tree({"README.md": block("tessera"), "bin/tessera": ""})
        status, output = self.lint("check_docs.py", "--root", root, "--bin", root / "bin/tessera")
        self.assertEqual(status, 2, output)
        self.assertIn("--bin: expected a folder, found", output)

    def test_failing_block(self):
        self.expect_finding("check_docs.py", {"README.md": block("echo before\nfalse\necho after")},
                            "README.md:3: the block exited with 1 and said:\nbefore\n")

    def test_block_that_hangs(self):
        self.expect_finding("check_docs.py", {"README.md": block("sleep 30")}, "ran for more than 1 s",
                            arguments=("--timeout", "1"))

    def test_no_run_needs_a_reason(self):
        output = self.expect_clean("check_docs.py", {"README.md": block("false", "sh no-run: it fails")})
        self.assertIn("0 blocks run, 1 not", output)
        self.expect_finding("check_docs.py", {"README.md": block("false", "sh no-run")}, "README.md:3:", "the reason")

    def test_other_languages_are_left_alone(self):
        self.expect_clean("check_docs.py", {"README.md": block("false", "text") + block("false", "cpp")})

    def test_links(self):
        sound = {"docs/a.md": "# A\n[b](b.md#a-title-x), [c](https://example.org), [a](#a)\n", "docs/b.md": "## A `title`: x\n"}
        self.expect_clean("check_docs.py", sound)
        self.expect_finding("check_docs.py", {"docs/a.md": "\n[b](b.md)\n"}, "docs/a.md:2: link to b.md")
        self.expect_finding("check_docs.py", sound | {"docs/b.md": "## Another\n"}, "docs/a.md:2: link to b.md#a-title-x")

    def test_documents_named_in_sources(self):
        self.expect_clean("check_docs.py", {"src/a.h": "// See docs/a.md.\n", "docs/a.md": ""})
        self.expect_finding("check_docs.py", {"src/a.h": "\n// See docs/a.md.\n"}, "src/a.h:2: mention of docs/a.md")

    def test_only_runs_the_blocks_of_some_files(self):
        files = {"README.md": block("true"), "docs/a.md": block("false") + "[b](b.md)\n", "docs/b.md": ""}
        output = self.expect_clean("check_docs.py", files, "--only", "README.md")
        self.assertIn("1 blocks run, 0 not, 1 links", output)
        self.expect_finding("check_docs.py", files, "docs/a.md:3: the block exited with 1")
        status, output = self.lint("check_docs.py", "--root", self.tree(files), "--only", "nothing.md")
        self.assertEqual(status, 2, output)
        self.assertIn("--only: expected a Markdown file of the tree, found 'nothing.md'", output)


PRODUCT = ("cmake", "common", "examples", "ggml-like", "include", "quants", "server", "src")
SECTION = re.compile(r"^### (?P<title>[^\n]*) \((?P<count>\d+) files, example `(?P<word>[^`]+)`\)\n(?P<body>.*?)(?=^##)",
                     re.M | re.S)
PATH = re.compile(r"`((?:%s)/[^`]+)`" % "|".join(PRODUCT))
# How code spells an example, where that is not the word alone: kMinP, MoeRouteOp.
SPELLINGS = {"tq1_0": r"(?i)tq1_0", "moe_route": r"(?i)(?<![a-z])moe_?route(?!s)", "min_p": r"\bmin_p\b|kMinP\b",
             "MoeFfn": r"\bMoeFfn\b|FfnKind::Moe\b|\bFfnKind : ", "olmo2": r"\bolmo2\b|kOlmo2\b", "/tokenize": r"/tokenize\b|post_tokenize\b"}
EXPECTED = {"tq1_0", "olmo2", "MoeFfn", "moe_route", "min_p", "/tokenize"}


def naming(pattern):
    """The product files, sorted, in which the pattern occurs."""
    found = []
    for path in lintlib.source_files(ROOT):
        if path.parts[0] in PRODUCT and path.name.endswith(lintlib.CPP_SUFFIXES + (".inc", ".def", ".js", ".txt", ".cmake")):
            if re.search(pattern, lintlib.read(ROOT, path)):
                found.append(str(path))
    return sorted(found)


class Contributing(unittest.TestCase):
    def test_lists_are_the_files_of_the_tree(self):
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        words = set()
        for section in SECTION.finditer(text):
            word = section.group("word")
            words.add(word)
            with self.subTest(section.group("title")):
                files = naming(SPELLINGS[word])
                bullets = re.search(r"^- .*?(?=^\n[^-\s])", section.group("body"), re.M | re.S).group(0)
                listed = sorted(path for path in PATH.findall(bullets))
                self.assertEqual(listed, files, f"files that name {word}")
                self.assertEqual(int(section.group("count")), len(files))
        self.assertEqual(words, EXPECTED)

    def test_other_paths_exist(self):
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]+)`", text):
            if not re.search("NAME|FOLDER|FILE", path) and not path.startswith("build/") and not path.startswith("/"):
                self.assertTrue((ROOT / path.rstrip("/")).exists(), path)


class CommandReference(LintCase):
    """The document of a program that prints this description."""
    DESCRIPTION = """# Models

## tessera run

Completes a prompt. Ctrl-C stops.

```
tessera run [OPTIONS] [MODEL]
```

**Arguments**

| Argument | Meaning |
| --- | --- |
| `MODEL` | A GGUF file. |

**Sampling**

| Option | Meaning |
| --- | --- |
| `-n, --n-predict N` | Tokens; a\\|b. |

Examples:

```
# no heading
tessera run model.gguf
```
"""

    def program(self, status=0):
        root = self.tree({"description": self.DESCRIPTION, "docs/reference/other.md": "",
                          "tessera": f'#!/bin/sh\n[ "$*" = "help --markdown" ] && cat "$(dirname "$0")/description"\nexit {status}\n'})
        (root / "tessera").chmod(0o755)
        return root

    def test_document(self):
        root = self.program()
        run = lambda *options: self.lint("cli_reference.py", "--root", root, "--program", root / "tessera", *options)
        self.assertEqual(run("--check")[0], 1)
        self.assertEqual(run()[0], 0)
        self.assertEqual(run("--check")[0], 0)
        text = (root / "docs/reference/cli.md").read_text()
        for line in ("## Models\n", "### tessera run\n", "\n# no heading\n", "| `-n, --n-predict N` | Tokens; a\\|b. |\n"):
            self.assertIn(line, text)
        root = self.program(status=3)
        status, output = self.lint("cli_reference.py", "--root", root, "--program", root / "tessera")
        self.assertEqual(status, 1)
        self.assertIn("ended with 3", output)


class Charts(LintCase):
    FIGURES = {"charts": [{"title": "T & U", "x": {"label": "x", "ticks": [1, 2, 4], "log": True}, "y": {"label": "y"},
                           "series": [{"name": "s", "points": [[1, 10], [4, 35, "last"]]}]}]}

    def test_current_and_outdated(self):
        root = self.tree({"docs/performance.json": json.dumps(self.FIGURES)})
        status, output = self.lint("plot_performance.py", "--root", root, "--check")
        self.assertEqual(status, 1)
        self.assertIn("run scripts/plot_performance.py", output)
        self.assertEqual(self.lint("plot_performance.py", "--root", root)[0], 0)
        self.assertEqual(self.lint("plot_performance.py", "--root", root, "--check")[0], 0)
        drawn = (root / "docs/performance.svg").read_text()
        for text in ("T &amp; U", ">40</text>", ">last</text>", "<polyline"):
            self.assertIn(text, drawn)


if __name__ == "__main__":
    unittest.main()
