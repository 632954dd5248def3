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


if __name__ == "__main__":
    unittest.main()
