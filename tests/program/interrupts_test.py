"""Commands that write files, ended at any moment: by signals, by kill -9, and by a full disk. Either the complete
file is there or nothing is."""
import os
import resource
import signal
import time

from program_case import LLAMA, ROOT, ProgramCase, main

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
                        if number != signal.SIGKILL and process.returncode == 1:
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


if __name__ == "__main__":
    main()
