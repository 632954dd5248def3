"""--blas in each command that computes: results within float rounding, and a named error without OpenBLAS."""
import array
import json

from program_case import HELD_OUT, LLAMA, TINY, ProgramCase, main

TOKENS = ",".join(str(3 + i * 7919 % 509) for i in range(64))


class Blas(ProgramCase):
    def setUp(self):
        super().setUp()
        self.found = json.loads(self.fine("info", "--json")).get("openblas")

    def needs_blas(self):
        if not self.found:
            self.skipTest("info found no OpenBLAS")

    def floats(self, *options):
        return array.array("f", self.fine("logits", LLAMA, "--tokens", TOKENS, "--out", "-", *options))

    def test_info_names_it_or_the_reason(self):
        line = next(line for line in self.fine("info").decode().split("\n") if line.startswith("OpenBLAS"))
        if self.found:
            self.assertIn(self.found["version"], line)
            self.assertIn(self.found["core"], line)
        else:
            self.assertIn("OpenBLAS: expected ", line)

    def test_without_it_is_an_error(self):
        if self.found:
            self.skipTest("this build has OpenBLAS")
        self.refused(1, "run", LLAMA, "-p", "x", "--blas", says="OpenBLAS: expected ")

    def test_logits_are_close(self):
        self.needs_blas()
        own, blas = self.floats(), self.floats("--blas")
        self.assertEqual(len(own), len(blas))
        largest = max(map(abs, own))
        self.assertLess(max(abs(a - b) for a, b in zip(own, blas)), 1e-4 * largest)

    def test_commands_that_compute_take_it(self):
        self.needs_blas()
        text = ("-f", HELD_OUT, "-c", 128)
        self.fine("run", TINY, "-p", "Once upon a time", "-n", 4, "--temp", 0, "--blas")
        self.fine("chat", TINY, "-n", 4, "--temp", 0, "--blas", stdin=b"Hello\n")
        bench = self.fine("bench", LLAMA, "-p", 64, "-n", 0, "-r", 1, "--json", "--blas")
        self.assertTrue(json.loads(bench.splitlines()[0])["blas"])
        self.fine("imatrix", TINY, *text, "--chunks", 1, "-o", self.folder / "imatrix.gguf", "--blas")
        if b"npu calibrate" in self.fine("--help"):
            self.fine("npu", "calibrate", TINY, *text, "--samples", 1, "-o", self.folder / "ranges.json", "--blas")

    def test_perplexity_is_the_same_within_rounding(self):
        self.needs_blas()
        own, blas = (json.loads(self.fine("perplexity", TINY, "-f", HELD_OUT, "-c", 128, "--windows", 2, "--json", *options))
                     for options in ([], ["--blas"]))
        self.assertAlmostEqual(own["perplexity"], blas["perplexity"], delta=1e-4 * own["perplexity"])


if __name__ == "__main__":
    main()
