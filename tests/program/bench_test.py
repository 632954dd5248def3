#!/usr/bin/env python3
"""tessera bench: its tests' names and figures, and the comparison of two builds."""
import json
import re
import subprocess
import sys

from program_case import ProgramCase, ROOT, main

TINY = ROOT / "models/tessera-tiny.gguf"


class BenchTest(ProgramCase):
    def bench(self, *options):
        lines = self.fine("bench", TINY, "--json", "-r", 2, *options).decode().splitlines()
        return {result["test"]: result for result in map(json.loads, lines)}

    def test_names_and_figures(self):
        results = self.bench("-p", 32, "-n", 4)
        self.assertEqual(list(results), ["pp32", "tg4"])
        for result in results.values():
            self.assertEqual(len(result["samples"]), 2)
            self.assertGreaterEqual(result["best"], result["tokens_per_s"])
            for key in ("read_gb_per_s", "int8_gmac_per_s", "fma_gmac_per_s"):
                self.assertGreater(result["roofline"][key], 0)
            for key, share in result["in_turn"].items():
                # No interleaved sample exceeds the best of all; both shares are rounded.
                self.assertGreaterEqual(share, result[key] * 0.999 - 0.001, key)
        self.assertEqual(list(self.bench("-p", 0, "-n", 4, "-b", 3, "-d", 20)), ["tg4xB3@d20"])

    def test_cache_bytes_follow_the_type(self):
        """6 layers with 2 KV heads of 64: a position takes 6 * 2 * 2 * 64 elements."""
        read = {}
        for kv in ("f16", "q8_0"):
            result = self.bench("-p", 0, "-n", 1, "-d", 1000, "--kv", kv)["tg1@d1000"]
            read[kv] = result["gb_per_s"] / result["tokens_per_s"] * 1e9
        elements = 6 * 2 * 2 * 64 * 1001
        self.assertAlmostEqual((read["f16"] - read["q8_0"]) / elements, 2 - 34 / 32, delta=0.05)

    def load(self, *options):
        lines = self.fine("bench", TINY, "--json", *options).decode().splitlines()
        return {result["test"]: result for result in map(json.loads, lines)}

    def test_requests_at_a_time(self):
        results = self.load("-p", 40, "-n", 8, "--concurrency", "1,4", "--shared-prefix", 0.8)
        self.assertEqual(list(results), ["load8x1", "load8x4"])
        for n, result in zip((1, 4), results.values()):
            self.assertEqual(result["requests"], 3 * n)
            self.assertGreater(result["tokens_per_s"], 0)
            for key in ("first_token_ms", "first_token_cached_ms", "between_tokens_ms"):
                self.assertGreaterEqual(result[key]["p99"], result[key]["p50"])
            self.assertGreater(result["between_tokens_ms"]["p50"], 0)
            self.assertGreater(result["sampling_share"], 0)
            self.assertGreater(result["scheduler_share"], 0)
        self.assertGreaterEqual(results["load8x1"]["cached_tokens"], 2 * 32)  # cached for all but the first
        mixed = self.load("-p", 40, "-n", 8, "--concurrency", "3", "--mixed", "--arrival-rate", 500, "--requests", 5)
        self.assertEqual(mixed["load8x3"]["requests"], 5)

    def test_a_prompt_beside_those_who_write(self):
        result = self.load("-p", 8, "-n", 12, "--concurrency", "3", "--beside", 300)["beside300x3"]
        self.assertGreater(result["between_tokens_ms"]["p50"], 0)
        self.assertGreater(result["between_tokens_beside_ms"]["p50"], 0)
        self.assertGreater(result["prompt_tokens_per_s"], 0)

    def test_load_options_are_checked(self):
        self.refused(2, "bench", TINY, "--concurrency", "0", says="1 to 256")
        self.refused(2, "bench", TINY, "--concurrency", "2", "-n", 0, says="--concurrency")

    def test_compare_two_builds(self):
        compare = [sys.executable, ROOT / "scripts/perf_compare.py"]
        options = ["--rounds", "1", "--", "-p", "16", "-n", "4", "-r", "1"]
        done = subprocess.run([*compare, self.program, self.program, TINY, "--tolerance", "0.99", *options],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pp16", done.stdout)
        broken = subprocess.run([*compare, self.program, "/bin/false", TINY, *options], capture_output=True, text=True)
        self.assertEqual(broken.returncode, 1)
        self.assertIn("/bin/false", broken.stderr)
        absent = subprocess.run([*compare, self.program, "/absent", TINY, *options], capture_output=True, text=True)
        self.assertEqual(absent.returncode, 1)
        self.assertEqual(absent.stderr.strip(), "perf_compare: /absent: No such file or directory")

    def test_rows_of_this_machine(self):
        rows = [sys.executable, ROOT / "scripts/perf_rows.py"]
        options = ["--rounds", "2", "--depth", "64", "--prompt-tokens", "16", "--n-predict", "4",
                   "--pause", "0"]
        done = subprocess.run([*rows, TINY, TINY, "--program", self.program, *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"^\| tessera-tiny \| \d+ \(\d+\) \| \d\.\d\d \| \d+ \(\d+\) \| \d\.\d\d \|$",
                                        done.stdout, re.MULTILINE)), 2, done.stdout)
        for what in ("8 sequences", "decoding at depth 64", "prompt of 16 at depth 64"):
            self.assertRegex(done.stdout, rf"\| {what}.* \| \d+ \(\d+\) of \d+ \(\d+\): \d+\.\d\d \|")
        self.assertRegex(done.stdout, r"\| from the file to one token, s, packed \| \d+\.\d\d, \d+\.\d\d \|")
        self.assertRegex(done.stdout, r"\| peak resident memory beyond the file, MiB, packed \| \d+, \d+ \|")

    def test_rows_say_what_is_wrong(self):
        packed = self.folder / "packed.gguf"
        self.fine("pack", TINY, packed)
        for arguments, code, says in ((["absent.gguf"], 2, "absent.gguf is not a file"),
                                      ([TINY, "--rounds", "0"], 2, "--rounds: expected at least 1, found 0"),
                                      ([TINY, "--pause", "nan"], 2, "--pause: expected 0 to 3600, found nan"),
                                      ([TINY, "--program", "/absent"], 1, "/absent: No such file"),
                                      ([packed], 1, "packed already")):
            done = subprocess.run([sys.executable, ROOT / "scripts/perf_rows.py", "--program", self.program,
                                   *map(str, arguments)], capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    main()
