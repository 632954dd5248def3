"""The output and exit status of each command, and the errors for wrong usage."""
import json
import struct

from program_case import LLAMA, ProgramCase, main, text_value

COMMANDS = ("run", "chat", "plan", "tokenize", "detokenize", "inspect", "diff", "hash", "split", "merge", "pack", "unpack",
            "imatrix", "logits", "bench", "program", "info")


class Help(ProgramCase):
    def test_every_command_explains_itself(self):
        overview = self.fine("--help").decode()
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", overview)
            help_text = self.fine(command, "--help").decode()
            self.assertIn(f"Usage: tessera {command} ", help_text)
            self.assertIn("Examples:\n", help_text)
            self.assertLessEqual(max(map(len, help_text.split("\n"))), 100)

    def test_help_comes_before_what_is_wrong(self):
        self.assertIn(b"Usage:", self.fine("run", "--no-such-option", "--help"))
        self.assertIn(b"Usage:", self.fine("bench", "-h"))

    def test_version(self):
        self.assertRegex(self.fine("--version").decode(), r"^tessera \d+\.\d+\.\d+\n$")

    def test_no_command(self):
        done = self.run_program()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"Usage: tessera COMMAND", done.stderr)


class Usage(ProgramCase):
    def test_unknown_names_get_a_hint(self):
        self.refused(2, "rnu", says=("unknown command 'rnu'", "did you mean 'run'?"))
        self.refused(2, "run", "-p", "x", "--tmp", "1", says=("--tmp", "did you mean --temp?", "--help"))
        self.refused(2, "info", "extra", says="extra")

    def test_values_out_of_range(self):
        for option, value in [("--threads", "-1"), ("--threads", "257"), ("--ctx", "x"), ("--n-predict", "-2"),
                              ("--batch", "0"), ("--batch", "5000"), ("--temp", "hot"), ("--top-p", "2"),
                              ("--seed", "-5"), ("--kv", "q4_k"), ("--kv", "f16,f32,f16"), ("--kv", ""),
                              ("--override-kv", "a=b"), ("--samplers", "nonsense"), ("--logit-bias", "1")]:
            with self.subTest(option=option, value=value):
                self.refused(2, "run", LLAMA, "-p", "x", option, value, says=option)
        self.refused(2, "run", LLAMA, "-p", says="--prompt")

    def test_prompt_is_needed_once(self):
        self.refused(2, "run", LLAMA, says="a prompt is needed")
        self.refused(2, "run", LLAMA, "-", "-p", "x", says="found 2")
        self.refused(2, "run", LLAMA, "Once", "upon", says=("unexpected argument 'upon'", "needs quotes"))
        self.refused(2, "tokenize", LLAMA, "x", "-f", LLAMA, says="found 2")

    def test_logits_needs_tokens_and_a_place(self):
        self.refused(2, "logits", LLAMA, "--out", "x", says="--tokens")
        self.refused(2, "logits", LLAMA, "--tokens", "1", says="--out")
        self.refused(2, "logits", LLAMA, "--tokens", "1,a", "--out", "x", says="'a'")
        self.refused(2, "bench", LLAMA, "-p", 0, "-n", 0, says="nothing to measure")

    def test_instruction_set(self):
        for command in (["info"], ["run", LLAMA, "-p", "x"], ["bench", LLAMA]):
            self.refused(1, *command, env={"TESSERA_ISA": "mmx"}, says=("TESSERA_ISA", "'mmx'", "scalar"))


class Run(ProgramCase):
    def test_json(self):
        out = json.loads(self.fine("run", LLAMA, "-p", "Hello", "-n", 7, "--seed", 3, "--ignore-eos", "--json"))
        self.assertEqual((len(out["tokens"]), out["stop"], out["seed"]), (7, "length", 3))
        text = self.fine("run", LLAMA, "-p", "Hello", "-n", 7, "--seed", 3, "--ignore-eos").decode()
        self.assertEqual(text, out["text"] if out["text"].endswith("\n") else out["text"] + "\n")

    def test_random_seed_can_be_repeated(self):
        command = ("run", LLAMA, "-p", "Hello", "-n", 12, "--temp", 1.5, "--json")
        first = json.loads(self.fine(*command))
        self.assertEqual(json.loads(self.fine(*command, "--seed", first["seed"]))["tokens"], first["tokens"])

    def test_prompt_from_everywhere_is_the_same(self):
        command = ("run", LLAMA, "-n", 9, "--temp", 0, "--ignore-eos")
        text = self.fine(*command, "-p", "The captain")
        (self.folder / "prompt").write_text("The captain\n")
        self.assertEqual(self.fine(*command, "-f", self.folder / "prompt"), text)
        self.assertEqual(self.fine(*command, "-", stdin=b"The captain"), text)
        self.assertEqual(self.fine("run", "-", *command[2:], stdin=b"The captain\n", env={"TESSERA_MODEL": LLAMA}), text)
        self.assertEqual(self.fine(*command, "-p", "The captain", "--echo"), b"The captain" + text)

    def test_prompt_may_be_empty_and_any_bytes(self):
        self.fine("run", LLAMA, "-p", "", "-n", 2)
        self.fine("run", LLAMA, "-", "-n", 2, stdin=bytes(range(256)))
        self.fine("run", LLAMA, "-p", "--help", "-n", 2)

    def test_end_of_generation_and_ignoring_it(self):
        ends = 4
        bias = ("--logit-bias", f"{ends}+100", "--json", "-p", "x", "-n", 5)
        self.assertEqual(json.loads(self.fine("run", LLAMA, *bias))["stop"], "end of generation")
        # A token can be biased only once, so the two biases contradict each other.
        self.refused(1, "run", LLAMA, *bias, "--ignore-eos", says=f"found token {ends} twice")

    def test_context(self):
        done = self.run_program("run", LLAMA, "-p", "One", "--ctx", 16, "-n", -1, "--ignore-eos", "--json")
        out = json.loads(done.stdout)
        self.assertEqual((done.returncode, out["stop"]), (0, "context full"))
        self.assertEqual(out["prompt_tokens"] + len(out["tokens"]), 17)  # the last token is not stored
        self.assertIn(b"context of 16 tokens is full; raise it with --ctx N", done.stderr)
        message = self.refused(1, "run", LLAMA, "-p", "word " * 40, "--ctx", 16)
        self.assertRegex(message, r"\d+ tokens do not fit the context of 16")

    def test_stats(self):
        done = self.run_program("run", LLAMA, "-p", "One", "-n", 3, "--stats", "--seed", 9, "--kv", "f32,f16")
        for text in (b"load ", b"prompt ", b"decode ", b"tokens/s", b"at peak", b"f32,f16", b"seed     9"):
            self.assertIn(text, done.stderr)

    def test_override(self):
        key = "llama.rope.freq_base"
        base = self.fine("logits", LLAMA, "--tokens", "1,2,3", "--out", "-")
        self.assertNotEqual(self.fine("logits", LLAMA, "--tokens", "1,2,3", "--out", "-", "--override-kv",
                                      f"{key}=float:500"), base)
        self.assertEqual(self.fine("logits", LLAMA, "--tokens", "1,2,3", "--out", "-", "--override-kv", f"{key}=int:5",
                                   "--override-kv", f"{key}=float:10000"), base)

    def test_notes(self):
        env = {"TESSERA_MODEL": LLAMA}
        command = ("run", "-p", "a<|im_end|>", "-n", 1)
        loud = self.run_program(*command, env=env).stderr.decode()
        self.assertIn(f"default model: {LLAMA}\n", loud)
        self.assertIn("warning: the prompt spells control tokens", loud)
        self.assertEqual(self.run_program(*command, "--quiet", env=env).stderr, b"")
        self.assertIn("loaded", self.run_program(*command, "--verbose", env=env).stderr.decode())


class Listing(ProgramCase):
    def listing(self, *options):
        return json.loads(self.fine("program", LLAMA, "--json", *options))

    def test_json(self):
        tensors = {t["name"]: t for t in json.loads(self.fine("inspect", LLAMA, "--tensors", "--json"))["tensors"]}
        out = self.listing("--ar", 8, "--kv", "q8_0,f16")
        verbs = [op["verb"] for op in out["ops"]]
        self.assertEqual((verbs[0], verbs[-1], out["n_tok"]), ("embed", "linear", 8))
        self.assertEqual(verbs.count("qkv"), len(out["caches"]))
        self.assertEqual({(c["k_type"], c["v_type"]) for c in out["caches"]}, {("q8_0", "f16")})
        for weight in out["weights"]:
            tensor = tensors.pop(weight["tensor"])
            self.assertEqual((weight["type"], weight["shape"]), (tensor["type"], tensor["shape"]))
        for vector in out["vectors"]:
            self.assertEqual(vector["shape"], tensors.pop(vector["tensor"])["shape"])
        self.assertEqual([name for name in tensors if not name.startswith("rope_")], [])
        last = out["values"][out["output"]]
        self.assertEqual((last["name"], last["shape"][0]), ("logits", 1))
        self.assertEqual(out["ops"][-1]["writes"], {"y": out["output"]})
        for value in out["values"]:
            slot = out["slots"][value["slot"]]
            self.assertTrue(slot["first_op"] <= value["first_op"] <= value["last_op"] <= slot["last_op"])
            self.assertLessEqual(slot["offset"] + slot["bytes"], out["arena_bytes"])

    def test_logits(self):
        everything = self.listing("--ar", 8, "--logits", "all")
        self.assertEqual(everything["values"][everything["output"]]["shape"][0], 8)
        nothing = self.listing("--ar", 8, "--logits", "none")
        self.assertIsNone(nothing["output"])
        self.assertEqual(nothing["ops"][-1]["verb"], "qkv")

    def test_text(self):
        text = self.fine("program", LLAMA, "--ar", 8).decode()
        for part in ("8 tokens, ", "arena of ", " = embed(table=token_embd.weight ", "rows=last", "blk.0.attn_q.weight"):
            self.assertIn(part, text)

    def test_wrong_usage(self):
        self.refused(2, "program", LLAMA, "--ar", 0, says="--ar")
        self.refused(2, "program", LLAMA, "--logits", "first", says=("--logits", "'first'"))
        self.refused(1, "program", LLAMA, "--ar", 64, "--ctx", 32, says="expected 1 to 32, found 64")


class Text(ProgramCase):
    TEXTS = ("Once upon a time", "  two  spaces\n", "Grüße, 世界 \U0001f600", "\t\x01 odd")

    def test_there_and_back(self):
        for text in self.TEXTS:
            with self.subTest(text=text):
                ids = self.fine("tokenize", LLAMA, "--ids", stdin=text.encode())
                self.assertEqual(self.fine("detokenize", LLAMA, stdin=ids).decode(), text)
                self.assertEqual(self.fine("detokenize", LLAMA, *ids.decode().split()).decode(), text)
                out = json.loads(self.fine("tokenize", LLAMA, "--json", stdin=text.encode()))
                self.assertEqual(out["ids"], [int(i) for i in ids.split()])
                self.assertEqual(out["n_tokens"], len(out["pieces"]))

    def test_special_tokens(self):
        def ids(*options):
            return self.fine("tokenize", LLAMA, "a<|im_end|>", "--ids", *options).decode().split()
        plain = ids()
        self.assertEqual(plain[0], "1")
        self.assertEqual(ids("--no-special"), plain[1:])
        self.assertEqual(ids("--parse-special")[-1], "4")
        self.assertEqual(self.fine("detokenize", LLAMA, 1, 4, "--special"), b"<s><|im_end|>")

    def test_lines_for_people(self):
        lines = self.fine("tokenize", LLAMA, "-p", "a\n").decode().split("\n")
        self.assertRegex(lines[0], r"^ +1  '<s>'$")

    def test_wrong_ids(self):
        self.refused(1, "detokenize", LLAMA, 1, 512, says="token id 512 (number 2 of the list) is outside this vocabulary, 0 to 511")
        self.refused(1, "detokenize", LLAMA, stdin=b"1 two", says="'two'")


class Inspect(ProgramCase):
    def test_json(self):
        out = json.loads(self.fine("inspect", LLAMA, "--json"))
        self.assertEqual((out["architecture"], out["runs"]), ("llama", True))
        self.assertEqual(sum(t["elements"] for t in out["types"].values()), out["parameters"])
        self.assertEqual(out["tensors"][0], {"name": "token_embd.weight", "type": "f16", "layout": "rows",
                                             "shape": [512, 128], "bytes": 131072, "file": 0})
        self.assertEqual(out["keys"]["tokenizer.ggml.tokens"]["size"], 512)
        self.assertNotIn("tensors", json.loads(self.fine("inspect", LLAMA, "--json", "--keys")))
        self.assertNotIn("keys", json.loads(self.fine("inspect", LLAMA, "--json", "--tensors")))

    def test_text(self):
        text = self.fine("inspect", LLAMA).decode()
        for part in ("16.02 bits each", "99.7 %, 16 tensors", "blk.1.ffn_down.weight", "[512] <unk>, <s>"):
            self.assertIn(part, text)

    def test_other_architectures_and_odd_bytes(self):
        keys = [(b"general.architecture", b"alien"), (b"general.name", b"\xff\x1b[2Jname\n")]
        path = self.folder / "odd.gguf"
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) +
                         b"".join(text_value(k) + struct.pack("<I", 8) + text_value(v) for k, v in keys) + b"\0" * 64)
        text = self.fine("inspect", path).decode()
        self.assertIn("alien (not supported by this version)", text)
        self.assertNotIn("\x1b", text)
        out = json.loads(self.fine("inspect", path, "--json"))
        self.assertEqual((out["runs"], out["keys"]["general.name"]["value"]), (False, "\ufffd\x1b[2Jname\n"))
        self.refused(1, "run", path, "-p", "x", says="odd.gguf")


class Reports(ProgramCase):
    def test_info(self):
        out = json.loads(self.fine("info", "--json"))
        self.assertIn(out["isa"], [isa["name"] for isa in out["isas"] if isa["usable"]])
        self.assertGreaterEqual(out["threads"], 1)
        self.assertIn("llama", out["architectures"])
        self.assertIn("q4_k", out["types"])
        self.assertIn(out["tuning"], ["default", "intel", "zen3", "zen5"])
        scalar = json.loads(self.fine("info", "--json", env={"TESSERA_ISA": "scalar"}))
        self.assertEqual((scalar["isa"], scalar["isa_reason"]), ("scalar", "chosen by TESSERA_ISA"))
        self.assertIn(b"instructions", self.fine("info"))

    def test_bench(self):
        command = ("bench", LLAMA, "-p", 24, "-n", 4, "-d", 8, "-r", 2, "-t", 1)
        lines = [json.loads(line) for line in self.fine(*command, "--json").splitlines()]
        self.assertEqual([line["test"] for line in lines], ["pp24@d8", "tg4@d8"])
        for line in lines:
            self.assertEqual((line["threads"], line["type"], len(line["samples"])), (1, "f16", 2))
            self.assertGreater(line["tokens_per_s"], 0)
            self.assertAlmostEqual(line["of_read_bw"] * line["roofline"]["read_gb_per_s"], line["gb_per_s"], delta=0.02)
            self.assertEqual(line["best"], max(line["samples"]))
        self.assertIn(b"tg4@d8", self.fine(*command))


if __name__ == "__main__":
    main()
