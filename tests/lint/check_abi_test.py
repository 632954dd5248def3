"""check_abi.py finds what is gone, what has changed and what is new, and nothing in the header as it is."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Abi(unittest.TestCase):
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

    def test_the_header_is_that_of_the_baseline(self):
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_gone(self):
        self.finds("TSR_API void tsr_session_cancel(tsr_session* session);", "", "tsr_session_cancel")

    def test_what_has_changed(self):
        self.finds("    int64_t n_keep;", "    int32_t n_keep;", "n_keep")
        self.finds("TSR_MALFORMED = 3", "TSR_MALFORMED = 13", "TSR_MALFORMED")

    def test_what_is_new(self):
        self.finds("TSR_API int tsr_abi_version(void);",
                   "TSR_API int tsr_abi_version(void);\nTSR_API int tsr_new(int x);", "tsr_new")


if __name__ == "__main__":
    if subprocess.run([sys.executable, ROOT / "scripts/check_abi.py"], capture_output=True).returncode == 77:
        print("skipped: scripts/check_abi.py cannot run here")
        sys.exit(77)
    unittest.main()
