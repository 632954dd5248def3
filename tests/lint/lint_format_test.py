"""lint_format.sh: layout, --fix, and what it does without the tool."""
import os
import shutil
import unittest

from lint_case import ROOT, LintCase

BAD = "int  f( ){return 1;}\n"
GOOD = "int f() { return 1; }\n"


class Format(LintCase):
    def files(self, text):
        return {".clang-format": (ROOT / ".clang-format").read_text(), "src/a.cpp": text}

    def run_lint(self, text, *arguments):
        root = self.tree(self.files(text))
        status, output = self.lint("lint_format.sh", "--root", root, *arguments)
        if status == 77:
            self.skipTest(output)
        return root, status, output

    def test_clean(self):
        self.assertEqual(self.run_lint(GOOD)[1], 0)

    def test_violation(self):
        _, status, output = self.run_lint(BAD)
        self.assertEqual(status, 1)
        self.assertIn("src/a.cpp:1:", output)
        self.assertIn("expected the layout of .clang-format", output)

    def test_fix(self):
        root, status, _ = self.run_lint(BAD, "--fix")
        self.assertEqual(status, 0)
        self.assertEqual((root / "src/a.cpp").read_text(), GOOD)

    def test_skips_without_the_tool(self):
        root = self.tree(self.files(BAD))
        tools = self.tree({})
        for tool in ("bash", "dirname", "readlink", "grep"):
            (tools / tool).symlink_to(shutil.which(tool))
        path, os.environ["PATH"] = os.environ["PATH"], str(tools)
        try:
            status, output = self.lint("lint_format.sh", "--root", root)
        finally:
            os.environ["PATH"] = path
        self.assertEqual(status, 77)
        self.assertIn("skipped: no clang-format 14", output)


if __name__ == "__main__":
    unittest.main()
