"""Importance matrices, from a text to a better quantized model: collecting, resuming, merging, refusals."""
import json
import signal
import struct

import hf_folder
from program_case import HELD_OUT, LLAMA, TINY, ProgramCase, main



def read_gguf(path):
    """(keys, tensors as lists of floats, their shapes in the file's order)."""
    keys, tensors = hf_folder.read_gguf(path)
    assert all(kind == "F32" for _, kind, _ in tensors.values()), path
    return keys, {name: (shape[::-1], list(struct.unpack(f"<{len(data) // 4}f", data)))
                  for name, (shape, _, data) in tensors.items()}


class Imatrix(ProgramCase):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out.gguf"

    def collect(self, *options, out=None, model=TINY):
        self.fine("imatrix", model, "-f", HELD_OUT, "-c", 64, "-o", out or self.out, *options)
        return read_gguf(out or self.out)

    def test_layout_is_the_fields(self):
        keys, tensors = self.collect("--chunks", 3)
        self.assertEqual(keys["general.type"], "imatrix")
        self.assertEqual(keys["imatrix.datasets"], ["heldout.txt"])
        self.assertEqual((keys["imatrix.chunk_count"], keys["imatrix.chunk_size"]), (3, 64))
        shape, sums = tensors["blk.0.ffn_down.weight.in_sum2"]
        self.assertEqual(len(shape), 2)
        self.assertEqual(shape[1], 1)
        self.assertEqual(tensors["blk.0.ffn_down.weight.counts"], ([1, 1], [3 * 64]))
        self.assertTrue(all(value >= 0 for value in sums) and sum(sums) > 0)
        self.assertEqual(len(tensors) % 2, 0)

    def test_threads_and_batches_do_not_matter(self):
        self.collect("--chunks", 3, "-t", 1)
        first = self.out.read_bytes()
        self.collect("--chunks", 3, "-t", 2, "--batch", 17)
        # The cut of chunks changes at most the last bit of a sum, which is stored as a float.
        same = read_gguf(self.out)
        self.out.write_bytes(first)
        for name, (shape, values) in read_gguf(self.out)[1].items():
            for a, b in zip(values, same[1][name][1]):
                self.assertAlmostEqual(a, b, delta=1e-6 * abs(a))

    def test_resume_and_merge(self):
        part, rest = self.folder / "part.gguf", self.folder / "rest.gguf"
        whole = self.collect("--chunks", 4)
        self.collect("--chunks", 2, out=part)
        two = read_gguf(part)
        resumed = self.collect("--chunks", 4, "--resume", out=part)
        self.assertEqual(resumed[0], whole[0])
        for name, (_, values) in whole[1].items():
            for a, b in zip(values, resumed[1][name][1]):
                self.assertAlmostEqual(a, b, delta=1e-5 * abs(a), msg=name)
        self.collect("--chunks", 2, out=rest)
        self.fine("imatrix", "--merge", rest, "--merge", self.out, "-o", part)
        keys, tensors = read_gguf(part)
        self.assertEqual(keys["imatrix.chunk_count"], 6)
        for name, (_, values) in tensors.items():
            for total, a, b in zip(values, whole[1][name][1], two[1][name][1]):
                self.assertAlmostEqual(total, a + b, delta=1e-6 * total, msg=name)
        self.refused(1, "imatrix", TINY, "-f", HELD_OUT, "-c", 32, "-o", part, "--resume",
                     says=("chunks of 32 tokens", "chunks of 64"))

    def test_quantizing_with_it_is_better(self):
        self.collect("--chunks", 100)
        base = self.folder / "base"
        judge = ("-c", 64, "--windows", 60)
        self.fine("perplexity", TINY, "-f", HELD_OUT, *judge, "--save-base", base)

        def quantize(*options):
            out = self.folder / "small.gguf"
            report = json.loads(self.fine("quantize", TINY, out, "IQ2_XXS", "--json", *options))
            kl = json.loads(self.fine("perplexity", out, "--kl-base", base, "--json"))["kl_mean"]
            return report, kl

        plain, plain_kl = quantize()
        seeing, seeing_kl = quantize("--imatrix", self.out)
        self.assertLess(seeing_kl, 0.97 * plain_kl)
        keys = json.loads(self.fine("inspect", self.folder / "small.gguf", "--json"))["keys"]
        self.assertEqual(keys["quantize.imatrix.file"]["value"], "out.gguf")
        self.assertEqual(keys["quantize.imatrix.dataset"]["value"], "heldout.txt")
        self.assertGreaterEqual(keys["quantize.imatrix.chunks_count"]["value"], 100)
        self.assertEqual(seeing["bytes"], (self.folder / "small.gguf").stat().st_size)
        n_seen = 0
        for tensor in seeing["tensors"]:
            n_seen += tensor.get("importance", False)
        self.assertGreaterEqual(n_seen, 7)
        self.assertGreater(len(plain["tensors"]), 0)

    def test_interrupt_keeps_whole_chunks(self):
        process = self.start("imatrix", TINY, "-f", HELD_OUT, "-c", 64, "-o", self.out, "--save-every", 1)
        while process.poll() is None and not self.out.exists():
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0:
            return  # the program ended before the signal
        self.assertIn(b"continue with --resume", err)
        self.assertGreaterEqual(read_gguf(self.out)[0]["imatrix.chunk_count"], 1)

    def test_refused(self):
        self.refused(2, "imatrix", TINY, "-f", HELD_OUT, says="-o FILE")
        self.refused(2, "imatrix", TINY, "-o", self.out, says="a text (-f FILE)")
        self.refused(2, "imatrix", "-f", HELD_OUT, "--merge", TINY, "-o", self.out, says="either a text")
        self.refused(1, "imatrix", "--merge", TINY, "-o", self.out, says="expected an importance matrix")
        self.refused(1, "imatrix", TINY, "-f", "-", "-o", self.out, stdin=b"short", says="512")
        self.refused(1, "imatrix", TINY, "-f", HELD_OUT, "-c", 64, "-o", TINY, says="is the input")
        self.collect("--chunks", 1)
        other = self.folder / "other.gguf"
        self.fine("imatrix", LLAMA, "-f", HELD_OUT, "-c", 64, "--chunks", 1, "-o", other)
        self.refused(1, "imatrix", "--merge", self.out, "--merge", other, "-o", self.folder / "sum.gguf",
                     says=("other.gguf", "another model?"))


if __name__ == "__main__":
    main()
