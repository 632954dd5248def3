"""lint_text.py: each rule finds its text. The words are put together here so that this file passes too."""
import unittest

from lint_case import LintCase

HOST = "deb" + ".debian.org"


class Text(LintCase):
    def finding(self, text, message, name="docs/a.md"):
        self.expect_finding("lint_text.py", {name: "first\n" + text}, f"{name}:2: {message}")

    def test_clean(self):
        self.expect_clean("lint_text.py", {"a.md": "see docs/home/x, ./work/y and https://example.org/home\n",
                                           "a.gguf": b"/ho" b"me/x\0\r", "Makefile": "a:\n\tb\n"})

    def test_notes(self):
        self.finding("// TO" + "DO: later\n", "a note to oneself", "src/a.cpp")
        self.finding("FIX" + "ME\n", "a note to oneself")

    def test_paths(self):
        for path in ("/ho" + "me/someone/x", "/wo" + "rk/main", "/tmp/ba" + "sh_jobs"):
            self.finding(f"cd {path}\n", "a path of one machine")

    def test_registry_hosts(self):
        self.finding(f"URIs: http://{HOST}/debian\n", "a package registry's host")
        self.finding("https://py" + "pi.org/simple\n", "a package registry's host")
        self.finding("https://regi" + "stry.example.com/\n", "a package registry's host")

    def test_line_ends_and_tabs(self):
        self.finding("a\r\n", "a carriage return")
        self.finding("\tint x;\n", "a tab", "src/a.h")

    def test_conflict_marker(self):
        self.finding("<" * 7 + " HEAD\n", "a conflict marker")


class Idioms(LintCase):
    """Retired idioms, with the rule applied to folders that UNSWEPT does not list."""

    def idiom(self, text, phrase, name="new/a.h", line=1):
        output = self.expect_finding("lint_text.py", {name: text}, f"{name}:{line}: the idiom '{phrase}")
        self.assertIn("lint_text: 1 finding(s)", output)

    def test_each_idiom(self):
        for phrase in ("asks for", "asked for", "asking ahead for", "of the read", "loud", "quiet hour", "measured in turn",
                       "second cache", "inner caches", "gives way", "gave way", "made known", "goes on", "so many", "whoever",
                       "as told", "prompt is read", "and who", "to who", "since then", "used to be", "lucky",
                       "held to a grammar", "MAC a cycle", "to and fro"):
            self.idiom(f"// It {phrase} x.\n", phrase)

    def test_where_prose_is(self):
        self.idiom("int x;  ///< asked for\n", "asked for")
        self.idiom('int x;\nconst char* help = "It is asked for.";\n', "asked for", line=2)
        self.idiom("/* One.\n * It is asked\n * for. */\n", "asked for", line=2)
        self.idiom("// It is asked\n// for.\n", "asked for")
        self.idiom('f("It is asked "\n  "for.");\n', "asked for")
        self.idiom("# It is asked for.\n", "asked for", "new/a.py")
        self.idiom('"""It is asked for."""\n', "asked for", "new/a.py")
        self.idiom("x=1\n# It is asked for.\n", "asked for", "new/a.sh", line=2)
        self.idiom("Text\nis asked\nfor.\n", "asked for", "new/a.md", line=2)
        self.idiom('"source": "asked for"\n', "asked for", "new/a.json")

    def test_headless_sentences(self):
        for text in ("// What fits is kept.\n", "/// Who comes last joins.\n", "int x;  // Whatever is left.\n"):
            self.idiom(text, text.split("/ ")[1].strip().rstrip("."))
        self.idiom("// One. What fits is\n// kept.\n", "What fits is kept")
        self.idiom("| a | What fits |\n", "What fits", "new/a.md")
        self.idiom("- What fits is kept.\n", "What fits is kept", "new/a.md")

    def test_sound_prose(self):
        self.expect_clean("lint_text.py", {
            "new/a.h": "// What is it? The task, what it does, goes on a stack. It may ask for help. Read the read lock.\n"
                       "int asked_for; int loud; f(so, many);\n",
            "new/a.md": "# What it is\n\n`asked for`\n\n```sh\necho asked for\n```\n",
            "tests/a.cpp": 'f("asked for");\n', "tests/a.py": 'f("asked for")\n',
            "docs/glossary.md": "asked for\n"})

    def test_folders(self):
        files = {"a/b.h": "// asked for\n", "c/d.h": "// asked for\n", "c.md": "loud\n"}
        output = self.expect_finding("lint_text.py", files, "c/d.h:1: the idiom 'asked for'", arguments=("--idioms", "c"))
        self.assertIn("1 finding(s)", output)
        status, output = self.lint("lint_text.py", "--root", self.tree(files), "--idioms", "nowhere")
        self.assertEqual(status, 2)
        self.assertIn("--idioms: expected a folder or file of the tree, found 'nowhere'", output)


if __name__ == "__main__":
    unittest.main()
