"""Commands that are ended at any moment: by signals, by kill -9, and by a full disk. Of a file that they write,
either all is there or nothing is."""
import os
import pathlib
import resource
import signal
import subprocess
import time

from program_case import LLAMA, ROOT, ProgramCase, main, wait_for

DEFAULT = ROOT / "models/tessera-tiny.gguf"


def has_nameless_files(folder):
    try:
        os.close(os.open(folder, os.O_WRONLY | os.O_TMPFILE))
        return True
    except OSError:
        return False


class Writers(ProgramCase):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.out.mkdir()
        self.text = self.folder / "text"
        self.text.write_text("The captain went down to the sea. " * 200)
        self.packed = self.folder / "packed.gguf"
        self.fine("pack", DEFAULT, self.packed)
        self.fine("split", DEFAULT, self.folder / "in", "--max-tensors", 20)
        tokens = ",".join(str(i % 500) for i in range(1200))
        target = self.out / "file"
        # The command, and the files that it writes.
        self.commands = {
            "quantize": (("quantize", DEFAULT, target, "Q4_K_M", "--allow-requantize"), 1),
            "pack": (("pack", DEFAULT, target), 1),
            "unpack": (("unpack", self.packed, target), 1),
            "merge": (("merge", next(self.folder.glob("in-00001-*")), target), 1),
            "split": (("split", DEFAULT, self.out / "part", "--max-tensors", 12), None),
            "logits": (("logits", LLAMA, "--tokens", tokens, "--out", target), 1),
            "save-base": (("perplexity", LLAMA, "-f", self.text, "--save-base", target, "-c", 64), 1),
            "imatrix": (("imatrix", LLAMA, "-f", self.text, "-o", target, "-c", 64, "--save-every", 2), 1),
        }

    def files(self):
        return sorted(path.name for path in self.out.iterdir())

    def clear(self):
        for path in self.out.iterdir():
            path.unlink()

    def complete(self, command):
        """The names after an undisturbed run, and its seconds."""
        start = time.monotonic()
        self.fine(*command)
        seconds = time.monotonic() - start
        names = self.files()
        self.clear()
        return names, seconds

    def end_at_many_moments(self, signals, n_moments):
        for name, (command, _) in self.commands.items():
            names, seconds = self.complete(command)
            for number in signals:
                for i in range(n_moments):
                    self.clear()
                    with self.subTest(command=name, signal=number, moment=i):
                        process = self.start(*command)
                        time.sleep(seconds * (i + 0.5) / n_moments)
                        process.send_signal(number)
                        _, err = process.communicate(timeout=60)
                        if number == signal.SIGKILL:
                            # Several names cannot appear at one moment.
                            self.assertLessEqual(set(self.files()), set(names))
                        else:
                            self.assertIn(self.files(), ([], names), err)
                        if number != signal.SIGKILL and process.returncode > 0:
                            self.assertEqual(process.returncode, 128 + number, err)
                            self.assertIn(b"interrupted", err)
                            self.assertNotIn(b".partial", err)
                    self.clear()

    def test_signals_leave_nothing(self):
        self.end_at_many_moments((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), 3)

    def test_kill_leaves_nothing(self):
        if not has_nameless_files(self.folder):
            self.skipTest("this file system has no O_TMPFILE")
        self.end_at_many_moments((signal.SIGKILL,), 6)

    def test_a_hangup_ignored_by_nohup_changes_nothing(self):
        command, _ = self.commands["quantize"]
        process = self.start(*command, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
        self.assertEqual((process.returncode, self.files()), (0, ["file"]))

    def test_a_full_disk_names_the_users_file(self):
        for name, (command, n_files) in self.commands.items():
            names, _ = self.complete(command)
            for limit in (0, 5000):
                with self.subTest(command=name, limit=limit):
                    message = self.refused(1, *command, says="cannot write",
                                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                    self.assertIn(str(self.out / names[0]), message)
                    self.assertNotIn(".partial", message)
                    self.assertEqual(self.files(), [])

    def test_an_existing_file_is_named_before_it_is_replaced(self):
        note = b"exists; it is replaced when the new file is complete\n"
        for name, (command, _) in self.commands.items():
            with self.subTest(command=name):
                self.clear()
                first, second = self.run_program(*command), self.run_program(*command)
                self.assertEqual((first.returncode, second.returncode), (0, 0), second.stderr)
                self.assertNotIn(b"replaced", first.stderr)
                n_parts = len(self.files())
                expected = (f"{n_parts} of the {n_parts} files {self.out / 'part'}-*.gguf exist; they are replaced".encode()
                            if name == "split" else f"{self.out / 'file'} ".encode() + note)
                self.assertEqual(second.stderr.count(expected), 1, second.stderr)
                self.assertNotIn(b"replaced", self.run_program(*command, "--quiet").stderr)
        self.clear()
        resumed = (*self.commands["imatrix"][0], "--resume", "--chunks")
        self.fine(*resumed, 1)
        self.assertNotIn(b"replaced", self.run_program(*resumed, 2).stderr)

    def test_an_existing_file_is_replaced_when_the_new_one_is_complete(self):
        target = self.out / "file"
        target.write_text("old")
        self.fine("pack", DEFAULT, target)
        self.assertEqual(target.read_bytes(), self.packed.read_bytes())
        target.write_text("old")
        self.refused(1, "pack", DEFAULT, target, says="cannot write",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9999, 9999)))
        self.assertEqual(target.read_text(), "old")
        self.assertEqual(self.files(), ["file"])


def catches(process, number):
    """Whether the process has a handler of this signal."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return int(line.split()[1], 16) >> (number - 1) & 1 == 1
    return False


class Loading(ProgramCase):
    """Ctrl-C before a command has begun its work."""

    def test_the_message_and_the_status(self):
        for command in (("run", LLAMA, "-f", "-"), ("serve", DEFAULT, "--api-key-file", "-"), ("perplexity", LLAMA, "-f", "-")):
            with self.subTest(command=command[0]):
                process = self.start(*command, stdin=subprocess.PIPE)  # waits for its standard input
                self.assertTrue(wait_for(lambda: catches(process, signal.SIGINT)))
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
                self.assertRegex(err.decode(), rf"^tessera {command[0]}[a-z ]*: interrupted\n$")

    def test_at_any_moment(self):
        command = ("run", DEFAULT, "-p", "Once", "-n", 1)
        start = time.monotonic()
        self.fine(*command)
        seconds = time.monotonic() - start
        for i in range(8):
            with self.subTest(moment=i):
                process = self.start(*command)
                wait_for(lambda: process.poll() is not None or catches(process, signal.SIGINT))
                time.sleep(seconds * i / 8)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=60)
                if process.returncode != 0:  # 0: the signal came once the answer had begun
                    self.assertEqual((process.returncode, err), (128 + signal.SIGINT, b"tessera run: interrupted\n"))


if __name__ == "__main__":
    main()
