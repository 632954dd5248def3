"""Base of the lints' tests: a temporary tree of given files, and the lint run over it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"


class LintCase(unittest.TestCase):
    def tree(self, files):
        """Writes {path: text or bytes} under a fresh folder, which is removed when the test ends."""
        folder = tempfile.TemporaryDirectory(prefix="tessera-lint-")
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    def lint(self, script, *arguments):
        """(exit status, output) of a script in scripts/."""
        interpreter = [sys.executable] if script.endswith(".py") else ["bash"]
        done = subprocess.run([*interpreter, str(SCRIPTS / script), *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout

    def expect_clean(self, script, files, *arguments):
        status, output = self.lint(script, "--root", self.tree(files), *arguments)
        self.assertEqual(status, 0, output)
        return output

    def expect_finding(self, script, files, *messages, arguments=()):
        """The lint must fail and print each of the messages."""
        status, output = self.lint(script, "--root", self.tree(files), *arguments)
        self.assertEqual(status, 1, output)
        for message in messages:
            self.assertIn(message, output)
        return output
