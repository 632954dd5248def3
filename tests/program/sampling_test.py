#!/usr/bin/env python3
"""Sampling from outside: every parameter is a flag, banned strings do not come up, orders and ranges are checked."""
import json

import program_case
from program_case import ROOT

TINY = ROOT / "models/tessera-tiny.gguf"
RUN = ("run", TINY, "-p", "Once upon a time", "-n", 40, "--json")


class Sampling(program_case.ProgramCase):
    def text(self, *flags):
        return json.loads(self.fine(*RUN, *flags))["text"]

    def test_banned_strings_do_not_come_up(self):
        for flags in (("--temp", 0), ("--seed", 5)):
            words = self.text(*flags).split()
            banned = [" ".join(words[2:4]), words[8]]
            text = self.text(*flags, "--banned-strings", ",".join(w.replace(",", "\\,") for w in banned))
            for string in banned:
                self.assertNotIn(string, text)
            # Holding text back loses nothing: without a banned string the text is the same.
            self.assertEqual(self.text(*flags, "--banned-strings", "\\x01\\x02"), self.text(*flags))

    def test_everything_banned_is_an_error(self):
        letters = ",".join(f"\\x{byte:02x}" for byte in range(256))
        self.refused(1, *RUN, "--ignore-eos", "--banned-strings", letters, says="found none")

    def test_same_seed_same_text(self):
        chains = (("--mirostat", 1), ("--mirostat", 2), ("--sampling-seq", "edskypmxt", "--xtc-probability", 0.5),
                  ("--dynatemp-range", 0.5), ("--adaptive-target", 0.3), ("--dry-multiplier", 0.8), ("--infill", 1),
                  ("--typical-p", 0.5, "--top-n-sigma", 1, "--min-keep", 2), ("--no-repeat-ngram-size", 2))
        for flags in chains:
            self.assertEqual(self.text("--seed", 3, *flags), self.text("--seed", 3, *flags, "--threads", 1), flags)

    def test_orders(self):
        self.refused(2, *RUN, "--samplers", "top_k;min-p", says="did you mean 'min_p'?")
        self.refused(2, *RUN, "--sampling-seq", "kz", says="found 'z'")
        self.refused(1, *RUN, "--samplers", "top_k", "--sampling-seq", "k", says="found both")
        self.refused(2, *RUN, "--xtc-threshold", 2, says="from 0 to 1, found '2'")
        shown = self.run_program(*RUN, "--samplers", "min_p;top_k", "--stats").stderr.decode()
        self.assertIn("sampling min_p;top_k;draw\n", shown)

    def test_model_defaults(self):
        greedy = ("--override-kv", "+general.sampling.temp=float:0")
        self.assertEqual(self.text(*greedy), self.text("--temp", 0))
        self.assertEqual(self.text(*greedy, "--temp", 0.8, "--seed", 4), self.text("--seed", 4))


if __name__ == "__main__":
    program_case.main()
