"""check_docs.py: which blocks run, where, and what is said when one fails."""
import unittest

from lint_case import LintCase


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
        self.expect_clean("check_docs.py", {"docs/a.md": "[b](b.md#x), [c](https://example.org)\n", "docs/b.md": ""})
        self.expect_finding("check_docs.py", {"docs/a.md": "\n[b](b.md)\n"}, "docs/a.md:2: link to b.md")


if __name__ == "__main__":
    unittest.main()
