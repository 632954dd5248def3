"""Quantizing: exact sizes, the types of a mixture, the same bytes for any thread count and instruction set, and no
partial output."""
import json
import os
import resource
import signal
import struct

from program_case import HELD_OUT, LLAMA, TINY, ProgramCase, is_writing, main, text_value



def write_gguf(path, tensors, keys=b"", n_keys=0):
    """`tensors`: (name, dimensions innermost first, type id, data)."""
    records, data = b"", b""
    for name, shape, kind, values in tensors:
        records += text_value(name.encode()) + struct.pack("<I", len(shape))
        records += b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", kind, len(data))
        data += values + b"\0" * (-len(values) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), n_keys) + keys + records
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


class Quantize(ProgramCase):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out.gguf"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def report(self, *arguments):
        return json.loads(self.fine("quantize", *arguments, "--json"))

    def types(self, report):
        return {tensor["name"]: tensor["to"] for tensor in report["tensors"]}

    def test_sizes_are_foretold_to_the_byte(self):
        for mixture in ("Q4_K_M", "Q8_0", "IQ4_XS", "F32", "TQ1_0"):
            with self.subTest(mixture=mixture):
                foretold = self.report(TINY, self.out, mixture, "--dry-run")
                self.assertEqual(self.names(), [])
                made = self.report(TINY, self.out, mixture)
                self.assertEqual(foretold["bytes"], self.out.stat().st_size)
                self.assertEqual(made["bytes"], foretold["bytes"])
                self.assertEqual(self.types(made), self.types(foretold))
                found = json.loads(self.fine("inspect", self.out, "--json"))
                self.assertEqual(found["bytes"], foretold["bytes"])
                self.assertEqual({tensor["name"]: tensor["type"] for tensor in found["tensors"]}, self.types(made))
                self.out.unlink()

    def test_a_mixture(self):
        types = self.types(self.report(TINY, self.out, "q4_k_m", "--dry-run"))
        self.assertEqual(types["token_embd.weight"], "q6_k")
        self.assertEqual([types[f"blk.{i}.ffn_down.weight"] for i in range(6)],
                         ["q4_k", "q4_k", "q6_k", "q4_k", "q4_k", "q6_k"])
        self.assertEqual([types[f"blk.{i}.attn_v.weight"] for i in range(6)],
                         ["q4_k", "q4_k", "q6_k", "q4_k", "q4_k", "q6_k"])
        self.assertEqual(types["blk.0.attn_norm.weight"], "f32")
        pure = self.types(self.report(TINY, self.out, "Q4_K_M", "--dry-run", "--pure"))
        self.assertEqual({kind for name, kind in pure.items() if "norm" not in name}, {"q4_k"})

    def test_overrides(self):
        types = self.types(self.report(TINY, self.out, "Q4_K_M", "--dry-run", "--override", r"blk\.[01]\.ffn_.*=q8_0",
                                       "--override", "ffn_up=q2_k", "--output-type", "q5_k"))
        self.assertEqual(types["token_embd.weight"], "q5_k")
        self.assertEqual(types["blk.1.ffn_up.weight"], "q8_0")
        self.assertEqual(types["blk.2.ffn_up.weight"], "q2_k")
        types = self.types(self.report(TINY, self.out, "Q4_K_M", "--dry-run", "--embedding-type", "f16"))
        self.assertEqual(types["token_embd.weight"], "f16")

    def test_rows_that_no_block_divides(self):
        row = floats([0.01 * (i % 7 - 3) for i in range(96)])
        source = self.folder / "odd.gguf"
        write_gguf(source, [("blk.0.ffn_up.weight", (96, 2), 0, row * 2), ("blk.0.attn_q.weight", (17, 2), 0, row[:136]),
                            ("output.weight", (96, 1), 0, row)])
        report = self.report(source, self.out, "Q4_K_M")
        self.assertEqual(self.types(report), {"blk.0.ffn_up.weight": "q5_0", "blk.0.attn_q.weight": "f16",
                                              "output.weight": "q8_0"})
        self.assertEqual([tensor.get("instead_of") for tensor in report["tensors"]], ["q4_k", "q4_k", None])

    def test_the_same_bytes_however_computed(self):
        self.fine("quantize", TINY, self.out, "Q4_K_M", "-t", 1)
        expected = self.out.read_bytes()
        for options, env in ((("-t", 3), {}), (("-t", 2, "--errors"), {"TESSERA_ISA": "scalar"})):
            self.fine("quantize", TINY, self.out, "Q4_K_M", *options, env=env)
            self.assertTrue(self.out.read_bytes() == expected)

    def test_the_result_runs_and_is_near(self):
        self.fine("quantize", TINY, self.out, "Q8_0")
        text = self.folder / "text"
        text.write_text(HELD_OUT.read_text()[:6000])
        command = ("-f", text, "-c", 128, "--json")
        found, base = (json.loads(self.fine("perplexity", model, *command))["perplexity"] for model in (self.out, TINY))
        self.assertAlmostEqual(found / base, 1, delta=0.002)

    def test_errors_are_those_of_the_files(self):
        report = self.report(TINY, self.out, "Q6_K")
        errors = [tensor["error"] for tensor in report["tensors"] if "error" in tensor]
        self.assertEqual(len(errors), 43)
        self.assertTrue(all(0.01 < error < 0.02 for error in errors), errors)
        text = self.fine("quantize", TINY, self.out, "Q6_K", "--errors").decode()
        self.assertRegex(text, r"blk\.0\.attn_q\.weight +\[256, 256\] +f16 to q6_k +.* error 0\.01\d+\n")
        self.assertIn(f"{report['bytes']} bytes", text)

    def test_weights_that_are_no_numbers_show(self):
        source = self.folder / "nan.gguf"
        write_gguf(source, [("blk.0.ffn_up.weight", (32, 2), 0, floats([1.0] * 40 + [float("nan")] + [1.0] * 23))])
        report = self.report(source, self.out, "Q8_0")
        self.assertEqual(report["tensors"][0]["finite"], False)
        self.assertIn(b"NaN or infinite weights", self.fine("quantize", source, self.out, "Q8_0", "--errors"))

    def test_importance(self):
        weights = [0.01 * ((i * 37) % 101 - 50) for i in range(64)]
        source, matrix = self.folder / "in.gguf", self.folder / "imatrix.gguf"
        write_gguf(source, [("blk.0.ffn_up.weight", (32, 2), 0, floats(weights))])

        def collect(sums, counts=(4.0,), name="blk.0.ffn_up.weight", shape=None):
            write_gguf(matrix, [(name + ".in_sum2", shape or (len(sums), 1), 0, floats(sums)),
                                (name + ".counts", (1, len(counts)), 0, floats(counts))])
            return ("--imatrix", matrix)

        plain = self.report(source, self.out, "Q4_0")["tensors"][0]
        sums = [1000.0] * 4 + [1.0] * 28
        seeing = self.report(source, self.out, "Q4_0", *collect(sums))["tensors"][0]
        self.assertEqual((plain["importance"], seeing["importance"]), (False, True))
        self.assertLess(seeing["weighted_error"], 0.8 * plain["error"])
        self.assertGreater(seeing["error"], plain["error"])
        # Without data all importances are equal.
        unseen = self.report(source, self.out, "Q4_0", *collect([0.0] * 32, counts=(0.0,)))["tensors"][0]
        self.assertEqual(unseen["error"], plain["error"])
        other = self.run_program("quantize", source, self.out, "Q4_0", *collect(sums, name="blk.9.ffn_up.weight"))
        self.assertEqual(other.returncode, 0)
        self.assertIn(b"not in the importance matrix", other.stderr)
        before = self.out.read_bytes()
        for matrix_of, says in ((([1.0] * 31,), ("ffn_up", "expected 32 importances", "found 31")),
                                (([float("nan")] * 32,), ("in_sum2", "numbers of at least 0")),
                                (([-1.0] * 32,), ("in_sum2", "numbers of at least 0")),
                                ((sums, (1.0, 2.0)), ("counts", "expected 1", "found 2"))):
            self.refused(1, "quantize", source, self.out, "Q4_0", *collect(*matrix_of), says=says)
        self.refused(1, "quantize", source, self.out, "Q4_0", "--imatrix", source, says="expected an importance matrix")
        self.refused(1, "quantize", source, self.out, "Q4_0", "--imatrix", self.folder / "none", says="No such file")
        self.assertTrue(self.out.read_bytes() == before)

    def test_quantized_weights_are_kept_unless_asked(self):
        first = self.folder / "q8.gguf"
        self.fine("quantize", TINY, first, "Q8_0")
        self.refused(1, "quantize", first, self.out, "Q4_K_M", says=("q8.gguf", "token_embd.weight", "already quantized",
                                                                    "q8_0"))
        self.assertEqual(self.names(), ["q8.gguf"])
        self.fine("quantize", first, self.out, "Q4_K_M", "--allow-requantize")
        # Quantizing to the present type is a copy.
        self.fine("quantize", first, self.out, "Q8_0")
        self.assertTrue(first.read_bytes() == self.out.read_bytes())

    def test_wrong_use(self):
        self.refused(2, "quantize", TINY, self.out, says="missing argument TYPE")
        self.refused(2, "quantize", TINY, self.out, "Q4_K_X", says=("Q4_K_X", "did you mean Q4_K_"))
        self.refused(2, "quantize", TINY, self.out, "IQ1_S", says="'IQ1_S' can be read, but not written")
        self.refused(2, "quantize", TINY, self.out, "Q4_0", "--output-type", "q9", says="q9")
        self.refused(2, "quantize", TINY, self.out, "Q4_0", "--output-type", "iq1_s", says="no encoder")
        self.refused(2, "quantize", TINY, self.out, "Q4_0", "--override", "ffn", says="PATTERN=TYPE")
        self.refused(1, "quantize", TINY, self.out, "Q4_0", "--override", "(=q8_0", says="regular expression")
        self.refused(1, "quantize", TINY, TINY, "Q4_0", says="is the input")
        self.refused(1, "quantize", TINY, "/dev/full", "Q4_0", says="the name of a file")
        self.refused(1, "quantize", self.folder / "none", self.out, "Q4_0", says="No such file")
        packed = self.folder / "packed.gguf"
        self.fine("quantize", TINY, self.folder / "q8.gguf", "Q8_0")
        self.fine("pack", self.folder / "q8.gguf", packed)
        self.refused(1, "quantize", packed, self.out, "Q4_0", says=("packed.gguf", "unpack it first"))

    def test_full_disk_leaves_what_was_there(self):
        self.out.write_text("old")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))}
        self.refused(1, "quantize", TINY, self.out, "Q8_0", says=("out.gguf", "too large"), **limit)
        self.assertEqual((self.out.read_text(), self.names()), ("old", ["out.gguf"]))

    def large(self):
        """A matrix of zeros, stored as a hole in a sparse file."""
        path = self.folder / "large.gguf"
        write_gguf(path, [("token_embd.weight", (4096, 30_000), 1, b"")])
        os.truncate(path, path.stat().st_size + 2 * 4096 * 30_000)
        return path

    def test_interrupt(self):
        process = self.start("quantize", self.large(), self.out, "IQ3_S")
        while process.poll() is None and not is_writing(process, self.folder):
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
        self.assertIn(b"interrupted", err)
        self.assertEqual(self.names(), ["large.gguf"])

    def test_killed(self):
        self.out.write_text("old")
        process = self.start("quantize", self.large(), self.out, "IQ3_S")
        while process.poll() is None and not is_writing(process, self.folder):
            pass
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertEqual(self.out.read_text(), "old")

    def test_memory_does_not_grow_with_the_file(self):
        process = self.start("quantize", self.large(), self.out, "Q4_0")
        errors = process.stderr.read()
        process.stderr.close()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, errors)
        self.assertLess(usage.ru_maxrss * 1024, 64 << 20)


if __name__ == "__main__":
    main()
