"""Perplexity and divergence: reference figures of llama.cpp for the default model, and refusals."""
import json

from program_case import HELD_OUT, LLAMA, ROOT, TINY, ProgramCase, main

DEFAULT = ROOT / "models/tessera-tiny.gguf"


class Perplexity(ProgramCase):
    def measure(self, *arguments):
        return json.loads(self.fine("perplexity", *arguments, "--json"))

    def test_reference_figures(self):
        """llama.cpp: F16 62.6634 +/- 1.0266, its own Q8_0 62.6593."""
        found = self.measure(TINY, "-f", HELD_OUT, "-c", 256)
        self.assertAlmostEqual(found["perplexity"], 62.6634, delta=0.02)
        self.assertAlmostEqual(found["standard_error"], 1.0266, delta=0.002)
        found = self.measure(DEFAULT, "-f", HELD_OUT, "-c", 256)
        self.assertAlmostEqual(found["perplexity"], 62.66, delta=0.1)

    def test_base(self):
        base = self.folder / "base"
        saved = self.measure(TINY, "-f", HELD_OUT, "-c", 64, "--windows", 12, "--save-base", base)
        itself = self.measure(TINY, "--kl-base", base)
        self.assertEqual(itself["perplexity"], saved["perplexity"])
        self.assertAlmostEqual(itself["base_perplexity"], saved["perplexity"], delta=0.01)
        self.assertLess(abs(itself["kl_mean"]), 1e-4)
        self.assertEqual(itself["judged_tokens"], 12 * 31)
        quantized = self.measure(DEFAULT, "--kl-base", base, "-f", HELD_OUT)
        self.assertGreater(quantized["kl_mean"], itself["kl_mean"])
        self.assertLess(quantized["kl_mean"], 0.01)
        self.assertGreater(quantized["same_top"], 0.9)
        text = self.fine("perplexity", DEFAULT, "--kl-base", base, "--windows", 3).decode()
        self.assertIn("KL divergence", text)
        self.assertIn("3 of 64 tokens, 93 judged", text)

    def test_threads_do_not_matter(self):
        options = (DEFAULT, "-f", HELD_OUT, "-c", 64, "--windows", 3)
        self.assertEqual(self.measure(*options, "-t", 1), self.measure(*options, "-t", 2, "--batch", 7))

    def test_refused(self):
        self.refused(2, "perplexity", DEFAULT, says="-f FILE")
        self.refused(1, "perplexity", DEFAULT, "-f", "-", stdin=b"short", says=("512", "--ctx"))
        wrong = self.folder / "wrong"
        wrong.write_bytes(b"_logits")
        self.refused(1, "perplexity", DEFAULT, "--kl-base", wrong, says=("wrong", "_logits_"))
        base = self.folder / "base"
        self.measure(DEFAULT, "-f", HELD_OUT, "-c", 16, "--windows", 1, "--save-base", base)
        self.refused(1, "perplexity", LLAMA, "--kl-base", base, says="vocabulary")
        self.refused(1, "perplexity", DEFAULT, "--kl-base", base, "-f", LLAMA, says="base")
        self.refused(1, "perplexity", DEFAULT, "-f", HELD_OUT, "-c", 16, "--windows", 1, "--save-base", "/dev/full/x")


if __name__ == "__main__":
    main()
