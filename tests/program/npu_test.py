"""`tessera npu` and --npu-device: descriptions of devices, ranges of activations, and models that are computed on one."""
import json
import resource
import signal
import struct

from program_case import HELD_OUT, LLAMA, MODELS, ROOT, ProgramCase, main, nmse, read_logits

TINY = ROOT / "models/tessera-tiny.gguf"
SOURCES = ("F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q5_1", "Q4_K", "Q4_0", "Q4_1", "Q3_K", "Q2_K", "IQ4_NL",
           "IQ4_XS")
GOLDEN = "1,5,300,17,42,301,400,77,3,511,260,33,280,290,310,8"


class Devices(ProgramCase):
    def test_list(self):
        names = [line.split()[0] for line in self.fine("npu", "devices").decode().splitlines()]
        self.assertEqual(names, ["x-elite", "sm8850", "sm8750", "sm8650", "sm8550", "sm8450", "xr-2mb", "toy"])
        objects = [json.loads(line) for line in self.fine("npu", "devices", "--json").splitlines()]
        self.assertEqual([o["name"] for o in objects], names)

    def test_a_description_can_be_changed_and_given_back(self):
        mine = json.loads(self.fine("npu", "devices", "toy", "--json"))
        path = self.folder / "mine.json"
        path.write_text(json.dumps(mine))
        self.assertEqual(self.fine("npu", "devices", path), self.fine("npu", "devices", "toy"))
        mine["dma"]["gb_per_s"] = 12.5
        path.write_text(json.dumps(mine))
        changed = self.fine("npu", "devices", path).decode()
        self.assertIn("dma.gb_per_s               12.5", changed)
        self.assertNotEqual(changed.splitlines()[0], self.fine("npu", "devices", "toy").decode().splitlines()[0])
        mine["dma"]["speed"] = 1
        path.write_text(json.dumps(mine))
        self.refused(1, "npu", "devices", path, says=("mine.json", "unknown field 'dma.speed'"))

    def test_usage(self):
        self.refused(1, "npu", "devices", "nothing", says=("nothing", "x-elite"))
        self.refused(2, "npu", "device", says="unknown command 'npu device'; expected npu devices")
        self.refused(2, "npu", says="unknown command 'npu'; expected npu ")
        listed = self.fine("npu", "--help").decode().split("Commands:\n")[1].split("\n\n")[0].splitlines()
        self.assertEqual([" ".join(line.split()[:2]) for line in listed],
                         ["npu " + name for name in ("devices", "calibrate", "compile", "inspect", "report")])
        self.assertIn(b"Usage: tessera npu devices ", self.fine("npu", "devices", "--help"))


class Offload(ProgramCase):
    """A model partly computed by an NPU."""

    def setUp(self):
        super().setUp()
        self.ranges = self.folder / "ranges.json"

    def calibrate(self, *options):
        self.fine("npu", "calibrate", TINY, "-f", HELD_OUT, "-c", 64, "--samples", 4, "-o", self.ranges, *options)
        return json.loads(self.ranges.read_text())

    def npu(self, *options):
        return ("--npu-device", "x-elite", "--npu-ranges", self.ranges, *options)

    def logits(self, *options):
        return read_logits(self.fine("logits", TINY, "--tokens", GOLDEN, "--out", "-", *options))[2]

    def test_ranges(self):
        found = self.calibrate("-t", 1)
        self.assertEqual(found["n_tok"], 256)
        self.assertTrue({"x", "blk.0.q", "blk.5.ff", "out", "logits"} <= found["ranges"].keys())
        self.assertTrue(all(low <= high for low, high in found["ranges"].values()))
        self.assertEqual(self.calibrate("-t", 2), found)
        self.refused(2, "npu", "calibrate", TINY, "-f", HELD_OUT, says="-o FILE is needed")
        self.refused(2, "npu", "calibrate", TINY, "-o", self.ranges, says="-f FILE is needed")
        self.refused(1, "npu", "calibrate", TINY, "-f", "-", "-o", self.ranges, stdin=b"Too short", says="tokens")

    def test_overrides_reach_the_npu_of_a_chat(self):
        override = ("--override-kv", "llama.rope.freq_base=float:20000")
        chat = ("chat", TINY, *override, *self.npu())
        self.calibrate()  # of the model without the override
        self.refused(1, *chat, stdin=b"/quit\n", says=("ranges.json", "expected the ranges of this model"))
        self.calibrate(*override)
        self.fine(*chat, stdin=b"/quit\n")

    def test_an_interrupted_calibration_writes_nothing(self):
        running = self.start("npu", "calibrate", TINY, "-f", HELD_OUT, "-c", 256, "-o", self.ranges, "-t", 1)
        try:
            running.wait(timeout=1)
        except Exception:  # the signal came before the last sample
            pass
        running.send_signal(signal.SIGINT)
        _, message = running.communicate(timeout=60)
        self.assertNotEqual(running.returncode, 0)
        self.assertFalse(self.ranges.exists(), message)

    def test_logits_are_near_the_floats(self):
        self.calibrate()
        plain = self.logits("--precise")
        whole = self.logits(*self.npu("--npu-recipe", "w8a16"))
        self.assertLess(nmse(whole, plain), 0.1)
        for batch in (1, 7):
            self.assertEqual(self.logits(*self.npu("--npu-recipe", "w8a16", "--batch", batch)), whole)
        self.assertLess(nmse(self.logits(*self.npu("--offload", "blk.*.ffn")), plain), 0.2)
        self.assertEqual(self.logits(*self.npu("--npu-layers", 2)), self.logits(*self.npu("--offload", "blk.0-1")))
        self.assertNotEqual(self.logits(*self.npu("--npu-layers", 2)), self.logits(*self.npu("--npu-layers", 1)))

    def test_commands(self):
        self.calibrate()
        once = ("run", TINY, "-p", "The old man", "-n", 8, "--temp", 0, "--no-echo")
        text = self.fine(*once, *self.npu())
        self.assertEqual(self.fine(*once, *self.npu("--batch", 2)), text)
        done = self.run_program(*once, *self.npu("--npu-strict"))
        self.assertIn(b"the NPU is emulated", done.stderr)
        self.assertIn(b"operations on x-elite, in 2 segments", done.stderr)
        self.fine("bench", TINY, "-p", 8, "-n", 4, "-r", 1, *self.npu())
        two = b"Hello\nAnd then?\n"
        self.fine("chat", TINY, "-n", 4, "--temp", 0, *self.npu(), stdin=two)
        found = json.loads(self.fine("perplexity", TINY, "-f", HELD_OUT, "-c", 64, "--windows", 2, "--json", *self.npu()))
        plain = json.loads(self.fine("perplexity", TINY, "-f", HELD_OUT, "-c", 64, "--windows", 2, "--json"))
        self.assertLess(found["perplexity"], 1.5 * plain["perplexity"])

    def test_fast_gives_the_same_bits(self):
        self.calibrate()
        for device in ("toy", "x-elite"):
            for recipe in ("w4a16", "w8a16"):
                options = ("--npu-device", device, "--npu-ranges", self.ranges, "--npu-recipe", recipe)
                self.assertEqual(self.logits(*options, "--npu-fast"), self.logits(*options), (device, recipe))
        once = ("run", TINY, "-p", "The old man", "-n", 8, "--temp", 0, "--no-echo")
        self.assertEqual(self.fine(*once, *self.npu("--npu-fast")), self.fine(*once, *self.npu()))
        self.fine("bench", TINY, "-p", 8, "-n", 4, "-r", 1, *self.npu("--npu-fast"))
        self.refused(2, *once, "--npu-fast", says="--npu-fast needs --npu or --npu-device")

    def test_phases(self):
        """The tokens that an NPU without attention computes: those of the prompt, the generated ones, or all."""
        self.calibrate()
        ffn = self.npu("--offload", "blk.*.ffn")
        plain, both = self.logits(), self.logits(*ffn)
        self.assertNotEqual(plain, both)
        for phase, logits in (("prefill", both), ("decode", plain), ("both", both)):
            for batch in (16, 3):  # given tokens are a prompt for any batch size
                self.assertEqual(self.logits(*ffn, "--npu-phase", phase, "--batch", batch), logits, phase)
        chosen = self.run_program("logits", TINY, "--tokens", GOLDEN, "--out", "-", *ffn, "--npu-phase", "auto")
        self.assertIn(b"; auto: ", chosen.stderr)
        self.assertIn(b"on the CPU", chosen.stderr)
        self.assertIn(read_logits(chosen.stdout)[2], (plain, both))
        once = ("run", TINY, "-p", "The old man", "-n", 12, "--temp", 0, "--no-echo", "--json")
        ids = {phase: json.loads(self.fine(*once, *ffn, "--npu-phase", phase))["tokens"]
               for phase in ("prefill", "decode", "both")}
        ids["none"] = json.loads(self.fine(*once))["tokens"]
        for phase in ("prefill", "decode"):  # the prompt's pass gives the first token
            self.assertEqual(ids[phase][0], ids["both" if phase == "prefill" else "none"][0])
            again = json.loads(self.fine(*once, *ffn, "--npu-phase", phase, "--batch", 2, "-t", 2))["tokens"]
            self.assertEqual(again, ids[phase])
        whole = self.run_program("logits", TINY, "--tokens", GOLDEN, "--out", "-", *self.npu("--npu-phase", "auto"))
        self.assertIn(b"auto: both phases", whole.stderr)
        for phase in ("prefill", "decode"):
            self.refused(1, *once, *self.npu("--npu-phase", phase), says=("expected both or auto", "blk.*.ffn", phase))
        self.refused(2, *once, *ffn, "--npu-phase", "some", says=("--npu-phase", "prefill, decode, both or auto"))
        self.refused(2, *once, "--npu-phase", "auto", says="needs --npu or --npu-device")

    def test_refusals(self):
        self.calibrate()
        logits = ("logits", TINY, "--tokens", GOLDEN, "--out", "-")
        self.refused(2, *logits, "--npu-device", "x-elite", says="needs --npu-ranges FILE")
        self.refused(2, *logits, "--npu-layers", 2, says="needs --npu-device")
        self.refused(2, *logits, *self.npu("--npu-layers", 2, "--offload", "output"), says="exclude each other")
        self.refused(1, *logits, *self.npu("--npu-layers", 7), says="expected 0 to 5, found up to 6")
        self.refused(1, *logits, *self.npu("--offload", "blk.x"), says=("'blk.x'", "blk.*.attn"))
        self.refused(1, *logits, *self.npu("--npu-recipe", "w3"), says="recipe 'w3'")
        self.refused(1, *logits, "--npu-device", "none", "--npu-ranges", self.ranges, says="'none'")
        self.refused(1, "logits", LLAMA, "--tokens", GOLDEN, "--out", "-", *self.npu(),
                     says=("expected the ranges of this model", "tessera npu calibrate"))
        found = json.loads(self.ranges.read_text())
        del found["ranges"]["blk.3.gate"]
        self.ranges.write_text(json.dumps(found))
        self.refused(1, *logits, *self.npu(), says="'blk.3.gate' has no range")
        self.fine(*logits, *self.npu("--npu-layers", 3))
        self.refused(2, "bench", TINY, "--concurrency", 2, *self.npu(), says="only one sequence is possible")
        packed = self.folder / "packed.gguf"
        self.fine("pack", TINY, packed)
        self.refused(1, "npu", "calibrate", packed, "-f", HELD_OUT, "-c", 64, "-o", self.ranges, says="packed")


class Compiled(ProgramCase):
    """A model compiled to a file for an NPU."""

    calibrate = Offload.calibrate

    def setUp(self):
        super().setUp()
        self.ranges = self.folder / "ranges.json"
        self.calibrate()

    def compile(self, name, *options, device="x-elite"):
        out = self.folder / name
        text = self.fine("npu", "compile", TINY, "--npu-device", device, "--act", self.ranges, "-o", out,
                         "--ctx", "64,128", "--ar", "32,1", *options).decode()
        return out, text

    def inspect(self, path, *options):
        return json.loads(self.fine("npu", "inspect", path, "--json", *options))

    def test_the_same_bytes_and_weights_once(self):
        one, text = self.compile("one.nctx")
        self.assertIn("operations on x-elite", text)
        two, _ = self.compile("two.nctx")
        self.assertEqual(one.read_bytes(), two.read_bytes())
        alone, _ = self.compile("alone.nctx", "--ar", 1)
        weights = [section["bytes"] for path in (one, alone) for section in self.inspect(path)["sections"][-1:]]
        self.assertLess(weights[0] - weights[1], 0.02 * weights[1])

    def test_inspect(self):
        path, _ = self.compile("some.nctx")
        found = self.inspect(path, "--operations")
        self.assertEqual(found["bytes"], path.stat().st_size)
        self.assertEqual(found["device"]["name"], "x-elite")
        self.assertEqual(found["positions"], 128)
        graphs = found["segments"][0]["graphs"]
        self.assertEqual([(g["rows"], g["positions"]) for g in graphs], [(1, 64), (1, 128), (32, 64), (32, 128)])
        for graph in graphs:
            rows = graph["operations"]
            self.assertAlmostEqual(sum(row["predicted_us"] for row in rows), graph["predicted_us"], delta=0.1)
            self.assertEqual(sum(row["dma_bytes"] for row in rows), graph["dma_bytes"])
            self.assertEqual(max(row["vtcm_bytes"] for row in rows), graph["vtcm_bytes"])
        self.assertIn("blk.0.gate", [row["name"] for row in graphs[0]["operations"]])
        left_out = {op["name"]: op["reason"] for op in found["operations"] if op["segment"] < 0}
        self.assertTrue(left_out and all(left_out.values()))
        text = self.fine("npu", "inspect", path, "--operations", "--rows", 32).decode()
        for part in ("compiled for x-elite (v73", "on the CPU:", "blk.0.gate", "its times are predictions"):
            self.assertIn(part, text)

    def test_several_sessions(self):
        """A model that does not fit into one address space: the same bits, from a file and compiled in place."""
        def logits(*options):
            return self.fine("logits", TINY, "--tokens", GOLDEN, "--out", "-", "--batch", 5, *options)

        path, text = self.compile("whole.nctx")
        whole, = self.inspect(path)["sessions"]
        self.assertIn("session 1 of 1: ", text)
        self.assertEqual(whole["bytes"], sum(whole[part + "_bytes"] for part in ("constant", "arena", "cache")))
        expected = logits("--npu", path)
        device = json.loads(self.fine("npu", "devices", "x-elite", "--json"))
        small = self.folder / "small.json"
        found = []
        for part in (0.75, 0.4):
            device["session_bytes"] = int(part * whole["bytes"])
            small.write_text(json.dumps(device))
            path, text = self.compile("small.nctx", device=small)
            shown = self.inspect(path)
            found.append(len(shown["sessions"]))
            self.assertEqual(text.count(f" of {found[-1]}: "), found[-1])
            self.assertLessEqual(max(session["bytes"] for session in shown["sessions"]), device["session_bytes"])
            self.assertGreaterEqual(len(shown["segments"]), found[-1])
            self.assertEqual([segment["session"] for segment in shown["segments"]],
                             sorted(segment["session"] for segment in shown["segments"]))
            self.assertEqual(logits("--npu", path), expected)
            self.assertEqual(logits("--npu-device", small, "--npu-ranges", self.ranges), expected)
        self.assertGreaterEqual(found[0], 2)
        self.assertGreaterEqual(found[1], 3)
        device["session_bytes"] = 1 << 20
        small.write_text(json.dumps(device))
        self.refused(1, "npu", "compile", TINY, "--npu-device", small, "--act", self.ranges, "-o", path, "--recipe", "w8a16",
                     says=("blk.0.ffn_norm to blk.0.ffn_gate_up: ",
                           "expected at most the 1048576 bytes of a session of 'x-elite', found "))

    def test_trace(self):
        path, _ = self.compile("some.nctx", "--ctx", 64, "--npu-layers", 1)
        out = self.folder / "trace.json"
        self.fine("npu", "inspect", path, "--trace", out)
        trace = json.loads(out.read_text())
        self.assertIn("model", trace["otherData"]["times"])
        spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertTrue({"load", "store", "multiply", "softmax", "blk.0.gate"} <= {e["name"] for e in spans})
        for thread in range(3):  # a unit does one thing at a time, except that transfers overlap by their latency
            ends = [(e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == thread]
            self.assertEqual(ends, sorted(ends))
        used = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
        self.assertGreater(max(used), 0)
        self.assertLessEqual(max(used), 8 << 20)
        self.assertEqual(used[-1], 0)

    def signal_to_noise(self, model, *options):
        """The rows of a compilation's table, and its notes."""
        done = self.run_program("npu", "compile", model, "--npu-device", "x-elite", "--act", self.ranges, "-o",
                                self.folder / "a.nctx", "--ctx", 32, "--ar", 1, *options)
        self.assertEqual(done.returncode, 0, (model, done.stderr))
        return [line.split() for line in done.stdout.decode().splitlines() if " dB" in line], done.stderr.decode()

    def test_every_type_of_weights_is_compiled(self):
        """The error of each matrix against the weights of the file."""
        for name in SOURCES:
            model = self.folder / "model.gguf"
            self.fine("quantize", MODELS / "tiny/tiny-f16.gguf", model, name, "--pure")
            self.fine("npu", "calibrate", model, "-f", HELD_OUT, "-c", 32, "--samples", 1, "-o", self.ranges)
            for recipe, least in (("w8a16", 38), ("w4a16", 18)):
                rows, notes = self.signal_to_noise(model, "--recipe", recipe, "--tensors")
                self.assertEqual(len(rows), 43, name)
                self.assertEqual({row[1] for row in rows}, {name.lower()}, name)
                self.assertGreater(min(float(row[3]) for row in rows), least, (name, recipe))
                self.assertNotIn("less than 15 dB", notes)
                self.assertEqual("42 matrices are q4_0" in notes, (name, recipe) == ("Q4_0", "w4a16"), (name, notes))

    def test_weights_that_lose_much_are_told(self):
        model = self.folder / "model.gguf"
        self.fine("quantize", MODELS / "tiny/tiny-f16.gguf", model, "F16")
        # The last matrix: all weights but the largest of each block lie between two codes.
        n = 256 * 768
        model.write_bytes(model.read_bytes()[:-2 * n] + struct.pack("<32e", 1, *31 * [1 / 14]) * (n // 32))
        self.fine("npu", "calibrate", model, "-f", HELD_OUT, "-c", 32, "--samples", 1, "-o", self.ranges)
        rows, notes = self.signal_to_noise(model)
        self.assertEqual([(row[0], row[-1]) for row in rows], [("blk.5.ffn_down.weight", "low")])
        self.assertLess(float(rows[0][3]), 12)
        self.assertIn("1 of 43 matrices have a signal-to-noise ratio below 15 dB", notes)
        self.assertEqual(self.signal_to_noise(model, "--recipe", "w8a16")[0], [])

    def test_damage_is_told(self):
        path, _ = self.compile("some.nctx", "--ctx", 64, "--npu-layers", 1)
        sound = path.read_bytes()
        for change in (lambda b: b[:len(b) // 2], lambda b: b[:9] + b"\x07" + b[10:],
                       lambda b: b[:-5] + bytes([b[-5] ^ 1]) + b[-4:]):
            path.write_bytes(change(sound))
            self.refused(1, "npu", "inspect", path, says=("some.nctx", "compile the model again"))
        self.fine("npu", "inspect", path, "--quick")  # the damage is in the weights
        self.refused(1, "npu", "inspect", TINY, says="expected a model compiled for an NPU")

    def test_what_cannot_be_compiled(self):
        out = self.folder / "no.nctx"
        base = ("npu", "compile", TINY, "--act", self.ranges, "-o", out)
        device = ("--npu-device", "x-elite")
        self.refused(2, *base, says="--npu-device NAME is needed")
        self.refused(2, *base, *device, "--ar", "0", says="expected numbers from 1 to 4096")
        self.refused(1, *base, *device, "--ctx", "100", says="multiples of 32")
        self.refused(1, *base, *device, "--npu-layers", 99, says="expected 0 to 5")
        self.refused(1, *base, "--npu-device", "none", says="'none'")
        self.refused(1, "npu", "compile", LLAMA, *device, "--act", self.ranges, "-o", out,
                     says="expected the ranges of this model")
        self.refused(1, "npu", "compile", TINY, *device, "--act", self.ranges, "-o", TINY, says="is the input")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))}
        self.refused(1, *base, *device, "--ar", 1, "--ctx", 64, says=("cannot write", "no.nctx"), **limit)
        self.assertFalse(out.exists())
        self.assertEqual([p.name for p in self.folder.iterdir()], ["ranges.json"])


if __name__ == "__main__":
    main()
