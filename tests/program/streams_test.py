"""Signals, pipes, full devices and terminals."""
import os
import pty
import signal
import time

from program_case import LLAMA, ProgramCase, cpu_seconds, main, wait_for

ENDLESS = ("run", LLAMA, "-p", "Once", "-n", -1, "--ctx", 200000, "--ignore-eos", "--stats")


class Interrupt(ProgramCase):
    def wait(self, process):
        """(standard output, standard error) of a process that must end soon."""
        try:
            out, err = process.communicate(timeout=20)
        except Exception:
            process.kill()
            raise
        return out.decode(), err.decode()

    def test_while_writing(self):
        process = self.start(*ENDLESS)
        first = process.stdout.read(40)
        process.send_signal(signal.SIGINT)
        out, err = self.wait(process)
        self.assertEqual(process.returncode, 0, err)
        self.assertTrue((first.decode(errors="replace") + out).endswith("\n"))
        self.assertIn("stop: interrupted", err)

    def test_in_a_long_prompt(self):
        prompt = self.folder / "prompt"
        prompt.write_text("The captain went down to the sea. " * 6000)
        process = self.start("run", LLAMA, "-f", prompt, "--ctx", 400000, "--stats", "--verbose")
        for line in process.stderr:
            if b"prompt of" in line:
                break
        started = cpu_seconds(process)
        self.assertTrue(wait_for(lambda: cpu_seconds(process) > started + 0.1))
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, err = self.wait(process)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual((process.returncode, out), (0, "\n"), err)
        self.assertIn("interrupted after", err)

    def test_second_one_kills(self):
        # The reader stops, so that the program blocks in a write and only a second signal can end it.
        process = self.start(*ENDLESS)
        process.stdout.read(1)

        def ended():
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        self.assertTrue(wait_for(ended))
        self.wait(process)

    def test_ignored_in_the_background(self):
        process = self.start("run", LLAMA, "-p", "Once", "-n", 2000, "--ignore-eos", "--ctx", 4096,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        process.stdout.read(10)
        process.send_signal(signal.SIGINT)
        out, err = self.wait(process)
        self.assertEqual(process.returncode, 0, err)
        self.assertGreater(len(out), 100)


class Output(ProgramCase):
    def test_reader_goes_away(self):
        process = self.start(*ENDLESS[:-1], "--quiet")
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20), 0)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_full_device(self):
        commands = (["run", LLAMA, "-p", "x"], ["run", LLAMA, "-p", "x", "-n", 2, "--json"], ["tokenize", LLAMA, "x"],
                    ["detokenize", LLAMA, 300], ["inspect", LLAMA], ["info"], ["--help"], ["run", "--help"],
                    ["--version"], ["bench", LLAMA, "-p", 0, "-n", 1, "-r", 1])
        for command in commands:
            with self.subTest(command=command[0]), open("/dev/full", "wb") as full:
                self.refused(1, *command, stdout=full, says="cannot write to standard output: No space left")

    def test_closed_streams(self):
        self.refused(1, "info", preexec_fn=lambda: os.close(1), says="standard output")
        # A file opened later must not get the descriptor of a closed stream.
        out = self.folder / "out"
        done = self.run_program("logits", LLAMA, "--tokens", "1,2", "--out", out, preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual((done.returncode, out.stat().st_size), (0, 8 + 2 * 512 * 4))

    def test_terminal(self):
        leader, terminal = pty.openpty()
        process = self.start("run", LLAMA, "-p", "Shown first", "-n", 5, "--seed", 1, stdout=terminal)
        os.close(terminal)
        seen = b""
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:  # a terminal reports so that all writers have closed it
            pass
        os.close(leader)
        self.assertEqual(process.wait(timeout=20), 0)
        process.stderr.close()
        self.assertTrue(seen.startswith(b"Shown first"), seen)
        self.assertTrue(seen.endswith(b"\r\n"), seen)


if __name__ == "__main__":
    main()
