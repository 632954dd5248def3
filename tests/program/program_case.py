"""Base of the program's tests: runs the program named by the first argument, over the models that its build made."""
import array
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
if len(sys.argv) < 2:
    sys.exit("usage: NAME_test.py PROGRAM [options of unittest]")
PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
# Made by tests/reference/make_models.py in the build folder; the program is its examples/tessera/tessera.
MODELS = PROGRAM.parents[2] / "test-models"
LLAMA = MODELS / "llama.gguf"
TINY = MODELS / "tiny/tiny-f16.gguf"
HELD_OUT = DATA / "tiny/heldout.txt"
# Reference data beside the checkout, which may be absent.
SHARED = pathlib.Path(os.environ.get("TESSERA_SHARED", ROOT.parent / "shared"))
SKIPPED = 77


def needs_shared(relative):
    """Marks a test that reads a published vocabulary or configuration, which the project does not carry."""
    return unittest.skipUnless((SHARED / relative).exists(), f"no reference data at {SHARED / relative}")


def wait_for(condition, seconds=30):
    """Whether the condition held before the deadline, which only a failing test reaches."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def cpu_seconds(process):
    """CPU time of a running process: fields 14 and 15 of its stat, counted from behind the name in parentheses."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_writing(process, folder):
    """Whether the process holds an output file of this folder that has no name yet, or a temporary one."""
    try:
        for descriptor in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            target = os.readlink(descriptor)
            if target.startswith(str(folder)) and target.endswith((" (deleted)", ".partial")):
                return True
    except OSError:  # the process or the descriptor is gone
        pass
    return False


class ProgramCase(unittest.TestCase):
    program = str(PROGRAM)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tessera-program-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, **extra):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
        return clean | {k: str(v) for k, v in extra.items()}

    def run_program(self, *arguments, stdin=b"", env=None, stdout=subprocess.PIPE, **options):
        return subprocess.run([self.program, *map(str, arguments)], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                              env=self.environment(**(env or {})), timeout=120, **options)

    def start(self, *arguments, **options):
        return subprocess.Popen([self.program, *map(str, arguments)], env=self.environment(),
                                **(dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) | options))

    def fine(self, *arguments, **options):
        """Standard output of a run that must succeed."""
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout

    def refused(self, status, *arguments, says=(), **options):
        """A run that must end with this status, and whose error must contain each of the texts."""
        done = self.run_program(*arguments, **options)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, status, message)
        self.assertTrue(message.startswith("tessera") or "\ntessera" in message, message)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, message)
        return message


def read_logits(data):
    """(n_tok, n_vocab, floats) of what `tessera logits` writes."""
    n_tok, n_vocab = struct.unpack_from("<ii", data)
    rows = array.array("f")
    rows.frombytes(data[8:])
    assert len(rows) == n_tok * n_vocab
    return n_tok, n_vocab, rows


def nmse(found, reference):
    """Square error over the square of the reference."""
    return sum((a - b) ** 2 for a, b in zip(found, reference)) / sum(b * b for b in reference)


def text_value(text):
    """A string of bytes as a GGUF file holds it."""
    return struct.pack("<Q", len(text)) + text


def main():
    if not LLAMA.exists():
        sys.exit(f"{LLAMA} is missing: build the target tsr_test_models, or run tests/reference/make_models.py {MODELS}")
    unittest.main(module="__main__")
