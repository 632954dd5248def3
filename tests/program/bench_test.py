#!/usr/bin/env python3
"""tessera bench: its tests' names and figures, and the comparison of two builds."""
import json
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
        self.assertEqual(list(self.bench("-p", 0, "-n", 4, "-b", 3, "-d", 20)), ["tg4xB3@d20"])

    def test_cache_bytes_follow_the_type(self):
        """6 layers, 2 heads of 64: a position takes 6 * 2 * 2 * 64 elements."""
        read = {}
        for kv in ("f16", "q8_0"):
            result = self.bench("-p", 0, "-n", 1, "-d", 1000, "--kv", kv)["tg1@d1000"]
            read[kv] = result["gb_per_s"] / result["tokens_per_s"] * 1e9
        elements = 6 * 2 * 2 * 64 * 1001
        self.assertAlmostEqual((read["f16"] - read["q8_0"]) / elements, 2 - 34 / 32, delta=0.05)

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


if __name__ == "__main__":
    main()
