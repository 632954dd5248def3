"""Converting: folders of every architecture become the models they were made from, bit for bit; types of checkpoints,
tokenizers, refusals, and no partial output."""
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys

import hf_folder
from program_case import DATA, HELD_OUT, MODELS, SHARED, TINY, ProgramCase, is_writing, main, needs_shared

TOKENS = "1,5,300,17,42,301,400,77,3,511,260,33"
ARCHITECTURES = {name: MODELS / f"{name}.gguf" for name in (
    "llama", "llama3", "nemo", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3", "phi3", "phi4mini",
    "olmo2", "granite", "smollm3", "gptoss")}
ARCHITECTURES |= {name: DATA / f"models/{name}.gguf" for name in (
    "mistral3", "qwen2moe", "granitemoe", "longrope", "exaone4", "exaone4swa", "glm4", "seedoss", "starcoder2")}
# Keys that only handmade or only converted files have.
UNCOMPARED = {"general.name", "general.file_type", "general.quantization_version", "general.license", "general.alignment"}


class Convert(ProgramCase):
    def setUp(self):
        super().setUp()
        self.hf, self.out = self.folder / "hf", self.folder / "out.gguf"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def write(self, name="llama", **options):
        return hf_folder.write_folder(self.hf, ARCHITECTURES[name], MODELS / "llama.gguf", **options)

    def convert(self, *options, **more):
        return self.fine("convert", self.hf, "-o", self.out, *options, **more)

    def logits(self, model):
        path = self.folder / "logits"
        self.fine("logits", model, "--tokens", TOKENS, "--out", path)
        return path.read_bytes()

    def assert_same(self, found, expected):
        """Tensors by name, shape, type and bytes."""
        self.assertEqual(found.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertEqual(found[name][:2], tensor[:2], name)
            self.assertTrue(found[name][2] == tensor[2], name)

    def test_every_architecture_comes_back_bit_for_bit(self):
        for name, model in ARCHITECTURES.items():
            with self.subTest(name=name):
                keys, tensors = self.write(name)
                self.convert("--type", "F16")
                found_keys, found = hf_folder.read_gguf(self.out)
                self.assert_same(found, tensors)
                arch = keys["general.architecture"]
                for key, value in keys.items():
                    # The feed-forward length is unused in a model without dense layers.
                    if key.startswith(arch + ".") and key != "granitemoe.feed_forward_length":
                        self.assertEqual(found_keys.get(key), value, key)
                self.assertTrue(self.logits(self.out) == self.logits(model))

    def test_all_architectures_are_tried(self):
        known = json.loads(self.fine("info", "--json"))["architectures"]
        tried = {hf_folder.read_gguf(model)[0]["general.architecture"] for model in ARCHITECTURES.values()}
        self.assertEqual(tried, set(known))

    def test_tessera_tiny(self):
        self.fine("convert", TINY.parent / "hf", "-o", self.out, "--type", "F16")
        found_keys, found = hf_folder.read_gguf(self.out)
        keys, tensors = hf_folder.read_gguf(TINY)
        self.assert_same(found, tensors)
        for key in keys.keys() | found_keys.keys():
            if key not in UNCOMPARED:
                self.assertEqual(found_keys.get(key), keys.get(key), key)

    def test_types_in_the_same_pass(self):
        source = self.folder / "f16.gguf"
        self.fine("convert", TINY.parent / "hf", "-o", source, "--type", "F16")
        for kind in ("Q4_K_M", "Q8_0", "IQ4_XS"):
            # Directly from F32, whereas quantize starts from F16: the same types, and the predicted size.
            foretold = json.loads(self.fine("convert", TINY.parent / "hf", "--dry-run", "--type", kind, "--json"))
            self.fine("convert", TINY.parent / "hf", "-o", self.out, "--type", kind)
            self.assertEqual(self.out.stat().st_size, foretold["bytes"])
            wanted = json.loads(self.fine("quantize", source, self.folder / "q", kind, "--json"))
            self.assertEqual({t["name"]: t["to"] for t in foretold["tensors"]},
                             {t["name"]: t["to"] for t in wanted["tensors"]})
        self.fine("convert", TINY.parent / "hf", "-o", self.out, "--type", "F16", "--override", "ffn_down=q8_0")
        types = {t["name"]: t["type"] for t in json.loads(self.fine("inspect", self.out, "--json"))["tensors"]}
        self.assertEqual((types["blk.0.ffn_down.weight"], types["blk.0.ffn_up.weight"]), ("q8_0", "f16"))

    def test_packed(self):
        stock = self.folder / "stock.gguf"
        self.fine("convert", TINY.parent / "hf", "-o", stock, "--type", "Q4_K_M")
        self.fine("convert", TINY.parent / "hf", "-o", self.out, "--type", "Q4_K_M", "--packed")
        self.assertEqual(self.names(), ["out.gguf", "stock.gguf"])
        self.fine("unpack", self.out, self.folder / "back.gguf")
        self.assertTrue(stock.read_bytes() == (self.folder / "back.gguf").read_bytes())

    def test_the_same_bytes_however_computed(self):
        self.write("mixtral", n_files=3)
        self.convert("--type", "Q4_0", "-t", 1)
        expected = self.out.read_bytes()
        self.convert("--type", "Q4_0", "-t", 3, env={"TESSERA_ISA": "scalar"})
        self.assertTrue(self.out.read_bytes() == expected)

    def test_stored_as_f64_and_f32(self):
        for dtype, form in (("F64", "d"), ("F32", "f")):
            def widen(_, tensors):
                for name, (shape, kind, data) in tensors.items():
                    halves = [x for (x,) in struct.iter_unpack("<e" if kind == "F16" else "<f", data)]
                    tensors[name] = (shape, dtype, struct.pack(f"<{len(halves)}{form}", *halves))

            _, tensors = self.write(change=widen)
            self.convert("--type", "F16")
            self.assert_same(hf_folder.read_gguf(self.out)[1], tensors)

    def test_bfloat16_stays(self):
        def cut(_, tensors):
            for name, (shape, kind, data) in tensors.items():
                values = (struct.pack("<f", x) for (x,) in struct.iter_unpack("<e" if kind == "F16" else "<f", data))
                tensors[name] = (shape, "BF16", b"".join(value[2:] for value in values))

        self.write("qwen2", change=cut)
        self.convert()
        found = hf_folder.read_gguf(self.out)[1]
        made = json.loads((self.hf / "config.json").read_text())
        self.assertEqual(made["vocab_size"], 512)
        (n,) = struct.unpack("<Q", (self.hf / "model.safetensors").read_bytes()[:8])
        data = (self.hf / "model.safetensors").read_bytes()[8 + n:]
        self.assertEqual(found["token_embd.weight"][1], "BF16")
        self.assertTrue(data.startswith(found["token_embd.weight"][2]))
        self.assertEqual(found["output_norm.weight"][1], "F32")

    def test_float8_with_its_factors(self):
        draw = random.Random(1)
        names = {"model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
                 "model.layers.1.mlp.down_proj.weight": "blk.1.ffn_down.weight",
                 "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
                 "model.layers.1.mlp.gate_proj.weight": "blk.1.ffn_gate.weight"}
        expected = {}

        def e4m3(code):
            exponent, mantissa = code >> 3 & 15, code & 7
            value = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0**(exponent - 10)
            return -value if code & 128 else value

        def e5m2(code):
            exponent, mantissa = code >> 2 & 31, code & 3
            value = mantissa * 2.0**-16 if exponent == 0 else (4 + mantissa) * 2.0**(exponent - 17)
            return -value if code & 128 else value

        def quantize(settings, tensors):
            settings["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [64, 32]}
            for i, name in enumerate(names):
                rows, cols = tensors[name][0]
                codes = [draw.choice((0, 128)) + draw.randrange(0x78 if i != 1 else 0x7b) for _ in range(rows * cols)]
                tensors[name] = ([rows, cols], "F8_E5M2" if i == 1 else "F8_E4M3", bytes(codes))
                n = {0: -(-rows // 64) * -(-cols // 32), 1: rows, 2: 1, 3: 0}[i]
                factors = [struct.unpack("<f", struct.pack("<f", draw.uniform(0.001, 0.1)))[0] for _ in range(n)]
                if n:
                    shape = {0: [-(-rows // 64), -(-cols // 32)], 1: [rows, 1], 2: []}[i]
                    tensors[name + ("_scale" if i == 1 else "_scale_inv")] = (shape, "F32", struct.pack(f"<{n}f", *factors))
                per_row = -(-cols // 32)
                factor = {0: lambda r, c: factors[r // 64 * per_row + c // 32], 1: lambda r, c: factors[r],
                          2: lambda r, c: factors[0], 3: lambda r, c: 1.0}[i]
                decode = e5m2 if i == 1 else e4m3
                values = [decode(codes[r * cols + c]) * factor(r, c) for r in range(rows) for c in range(cols)]
                expected[names[name]] = ([rows, cols], "F32", struct.pack(f"<{rows * cols}f", *values))
            tensors["model.layers.0.mlp.up_proj.input_scale"] = ([], "F32", struct.pack("<f", 1))

        self.write(change=quantize)
        self.convert("--type", "F32")
        found = hf_folder.read_gguf(self.out)[1]
        name = "blk.0.attn_q.weight"
        found[name] = hf_folder.unpaired(found[name], 32)
        self.assert_same({name: found[name] for name in expected}, expected)

    def test_mxfp4_stays_as_it_is(self):
        source = self.folder / "mxfp4.gguf"
        self.fine("quantize", MODELS / "gptoss.gguf", source, "F16", "--override", "_exps.weight=mxfp4")
        _, tensors = hf_folder.write_folder(self.hf, source, MODELS / "llama.gguf")
        self.assertEqual(tensors["blk.0.ffn_up_exps.weight"][1], "MXFP4")
        self.convert("--type", "F16")
        self.assert_same(hf_folder.read_gguf(self.out)[1], tensors)
        self.assertTrue(self.logits(self.out) == self.logits(source))
        self.convert("--type", "Q8_0", "--allow-requantize")
        self.assertEqual(hf_folder.read_gguf(self.out)[1]["blk.0.ffn_up_exps.weight"][1], "Q8_0")

    def test_numbers_beyond_f16(self):
        def spoil(value):
            def change(_, tensors):
                shape, _, data = tensors["model.layers.0.mlp.up_proj.weight"]
                halves = [x for (x,) in struct.iter_unpack("<e", data)]
                halves[77] = value
                tensors["model.layers.0.mlp.up_proj.weight"] = (shape, "F32", struct.pack(f"<{len(halves)}f", *halves))
            return change

        self.write(change=spoil(70000.0))
        self.refused(1, "convert", self.hf, "-o", self.out, "--type", "F16", says=("blk.0.ffn_up.weight", "f16", "range"))
        self.assertEqual(self.names(), ["hf"])
        self.convert("--type", "BF16")
        self.write(change=spoil(float("nan")))
        self.refused(1, "convert", self.hf, "-o", self.out, "--type", "Q8_0", says=("blk.0.ffn_up.weight", "NaN"))

    # Tokenizers ----------------------------------------------------------------------------------------------

    def byte_level(self, settings=None, change=None):
        """A folder of one small layer with this tokenizer.json, by default one of our own, whose size is the vocabulary's."""
        settings = settings or hf_folder.byte_level_tokenizer(HELD_OUT.read_text()[:4000], 60)
        if change:
            change(settings)
        n = 1 + max([*settings["model"]["vocab"].values(), *(t["id"] for t in settings["added_tokens"])])

        def resize(config, tensors):
            config["vocab_size"] = n
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                shape, dtype, _ = tensors[name]
                tensors[name] = ([n, shape[1]], dtype, bytes(2 * n * shape[1]))

        self.write(change=resize)
        (self.hf / "tokenizer.model").unlink()
        (self.hf / "generation_config.json").unlink()
        (self.hf / "tokenizer.json").write_text(json.dumps(settings))
        return settings

    @needs_shared("data/hf")
    def test_byte_level_vocabulary(self):
        self.byte_level(json.loads((SHARED / "data/hf/SmolLM2-135M-Instruct/tokenizer.json").read_text()))
        (self.hf / "chat_template.jinja").write_text("{{ messages }}")
        (self.hf / "tokenizer_config.json").write_text(json.dumps(
            {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}, "pad_token": "<|im_end|>",
             "unk_token": "<|no such token|>", "add_bos_token": False}))
        (self.hf / "generation_config.json").write_text(json.dumps(
            {"eos_token_id": [2, 0], "temperature": 0.6, "top_k": 20, "top_p": 0.95}))
        self.convert()
        found = hf_folder.read_gguf(self.out)[0]
        keys = hf_folder.read_gguf(SHARED / "data/vocab/rebuilt/ggml-vocab-smollm2.gguf")[0]
        for name in ("model", "tokens", "merges", "token_type"):
            self.assertTrue(found["tokenizer.ggml." + name] == keys["tokenizer.ggml." + name], name)
        self.assertEqual({key: found["tokenizer." + key] for key in (
            "ggml.bos_token_id", "ggml.eos_token_id", "ggml.eot_token_id", "ggml.padding_token_id", "ggml.add_bos_token",
            "chat_template")}, {"ggml.bos_token_id": 1, "ggml.eos_token_id": 2, "ggml.eot_token_id": 0,
                                "ggml.padding_token_id": 2, "ggml.add_bos_token": False, "chat_template": "{{ messages }}"})
        self.assertAlmostEqual(found["general.sampling.temp"], 0.6, places=6)
        self.assertEqual(found["general.sampling.top_k"], 20)
        self.assertNotIn("tokenizer.ggml.unknown_token_id", found)
        text = b"Hello  World 1234, na\xc3\xafve <|im_start|>\n"
        vocabulary = SHARED / "data/vocab/rebuilt/ggml-vocab-smollm2.gguf"
        self.assertEqual(self.fine("tokenize", self.out, "--ids", stdin=text),
                         self.fine("tokenize", vocabulary, "--ids", stdin=text))

    def test_merges_as_lists(self):
        settings = self.byte_level()
        self.convert()
        found = hf_folder.read_gguf(self.out)[0]
        self.assertEqual(found["tokenizer.ggml.pre"], "gpt-2")
        self.assertEqual(found["tokenizer.ggml.merges"], [" ".join(pair) for pair in settings["model"]["merges"]])
        self.assertEqual(found["tokenizer.ggml.token_type"][1], 3)

    def test_unknown_rules_and_the_way_around(self):
        def change(settings):
            settings["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "[aeiou]+"}, "behavior": "Isolated"}

        self.byte_level(change=change)
        self.refused(1, "convert", self.hf, "-o", self.out, says=("[aeiou]+", "--pre NAME"))
        self.assertIn(b"[aeiou]+", self.run_program("convert", self.hf, "--dry-run").stderr)
        self.refused(1, "convert", self.hf, "-o", self.out, "--pre", "gpt-3", says=("gpt-3", "did you mean gpt-2"))
        self.convert("--pre", "gpt-2")
        self.assertEqual(hf_folder.read_gguf(self.out)[0]["tokenizer.ggml.pre"], "gpt-2")

    def test_older_vocabulary_files(self):
        settings = self.byte_level()
        (self.hf / "tokenizer.json").unlink()
        (self.hf / "vocab.json").write_text(json.dumps(settings["model"]["vocab"]))
        (self.hf / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, settings["model"]["merges"])) + "\n")
        self.refused(1, "convert", self.hf, "-o", self.out, says="--pre NAME")
        self.convert("--pre", "gpt-2")

    def test_byte_fallback_without_sentencepiece(self):
        """The merges of a tokenizer.json replace the scores and give the same ids as the model file."""
        self.write()
        vocabulary = hf_folder.read_gguf(MODELS / "llama.gguf")[0]
        tokens, scores, kinds = (vocabulary["tokenizer.ggml." + n] for n in ("tokens", "scores", "token_type"))
        self.convert()
        lines = [line for line in (HELD_OUT).read_text().split("\n") if line][:40]
        expected = self.fine("tokenize", self.out, "--ids", stdin="\n".join(lines).encode())
        self.assertGreater(len(expected.split()), 1000)
        ids = {token: i for i, token in enumerate(tokens)}
        merges = [(-scores[ids[t]], left, t[len(left):]) for t, kind in zip(tokens, kinds) if kind == 1
                  for left in (t[:n] for n in range(1, len(t))) if left in ids and t[len(left):] in ids]
        added = [{"id": i, "content": t, "special": True} for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind in (2, 3)]
        (self.hf / "tokenizer.model").unlink()
        (self.hf / "tokenizer.json").write_text(json.dumps({
            "added_tokens": added, "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "post_processor": {"type": "TemplateProcessing", "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]},
            "model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "vocab": ids,
                      "merges": [f"{left} {right}" for _, left, right in sorted(merges)]}}))
        self.convert()
        self.assertEqual(self.fine("tokenize", self.out, "--ids", stdin="\n".join(lines).encode()), expected)
        self.assertEqual(hf_folder.read_gguf(self.out)[0]["tokenizer.ggml.token_type"], kinds)

    def test_more_rows_than_tokens(self):
        def widen(config, tensors):
            config["vocab_size"] = 520
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                shape, dtype, data = tensors[name]
                tensors[name] = ([520, shape[1]], dtype, data + bytes(16 * shape[1]))

        self.write(change=widen)
        (self.hf / "added_tokens.json").write_text(json.dumps({"<|extra|>": 513, "word": 512}))
        self.convert()
        found = hf_folder.read_gguf(self.out)[0]
        self.assertEqual(found["tokenizer.ggml.tokens"][510:515][2:], ["word", "<|extra|>", "[PAD514]"])
        self.assertEqual(found["tokenizer.ggml.token_type"][512:515], [4, 3, 5])

    # Refusals ------------------------------------------------------------------------------------------------

    @needs_shared("data/hf")
    def test_every_published_configuration_has_a_plan_or_a_reason(self):
        folders = sorted(path.parent for path in (SHARED / "data/hf").glob("*/config.json"))
        self.assertGreater(len(folders), 10)
        for folder in folders:
            with self.subTest(folder=folder.name):
                done = self.run_program("convert", folder, "--dry-run", "--json", "--type", "Q4_K_M")
                if folder.name == "Qwen2.5-Omni":
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(b"architecture 'Qwen2_5OmniModel' is not supported", done.stderr)
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                plan = json.loads(done.stdout)
                n_layer = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
                self.assertIn(f"blk.{n_layer - 1}.ffn_down.weight", {t["name"] for t in plan["tensors"]})
                self.refused(1, "convert", folder, "-o", self.out, says="model*.safetensors")

    @needs_shared("data/hf")
    def test_size_of_a_published_model(self):
        plan = json.loads(self.fine("convert", SHARED / "data/hf/Qwen2.5-0.5B-Instruct", "--dry-run", "--json"))
        weights = sum(t["bytes"] // (2 if t["to"] == "bf16" else 4) for t in plan["tensors"])
        self.assertEqual(weights, 494032768)

    def test_what_does_not_fit_together(self):
        def without(name):
            return lambda config, tensors: tensors.pop(name)

        def put(key, value):
            return lambda config, tensors: config.update({key: value})

        def tensor(name, *value):
            return lambda config, tensors: tensors.update({name: value})

        up = "model.layers.1.mlp.up_proj.weight"
        cases = (
            (without(up), (up, "for 'blk.1.ffn_up.weight'")),
            (without("lm_head.weight"), ("lm_head.weight", "tie_word_embeddings")),
            (tensor("model.layers.1.mlp.extra.weight", [2], "F32", bytes(8)), ("extra.weight", "does not use it")),
            (tensor("model.layers.2.mlp.up_proj.weight", [2], "F32", bytes(8)), ("layers.2", "does not use it")),
            (tensor(up, [256, 64], "F16", bytes(2 * 256 * 64)), (up, "expected shape [256, 128]", "[256, 64]")),
            (tensor(up, [256, 128], "I32", bytes(4 * 256 * 128)), (up, "found I32")),
            (tensor(up, [256, 128], "U8", bytes(256 * 128)), (up, "MXFP4")),
            (put("architectures", ["BertModel"]), ("BertModel", "not supported")),
            (put("hidden_act", "relu"), ("hidden_act", "silu", "relu")),
            (put("rope_scaling", {"type": "dynamic", "factor": 2.0}), ("rope_scaling", "dynamic")),
            (put("rope_scaling", {"rope_type": "llama3", "factor": 8.0}), ("low_freq_factor", "found none")),
            (put("quantization_config", {"quant_method": "gptq"}), ("quant_method", "gptq")),
            (put("hidden_size", "big"), ("hidden_size", "\"big\"")),
            (put("num_attention_heads", None), ("num_attention_heads", "found none")),
            (put("num_key_value_heads", 3), ("k_proj.weight", "expected shape")),
            (put("vocab_size", 500), ("id 500", "500 rows")),
            (put("partial_rotary_factor", 0.5), ("partial_rotary_factor", "whole heads")),
            (put("layer_types", ["sliding_attention", "full_attention"]), ("layer_types", "no sliding windows")),
            (put("layer_types", ["mamba", "full_attention"]), ("layer_types", "mamba")),
            (put("eos_token_id", 4000), ("eos_token_id", "below 512", "4000")),
        )
        for change, says in cases:
            with self.subTest(says=says):
                self.write(change=change)
                self.refused(1, "convert", self.hf, "-o", self.out, says=says)
                self.assertEqual(self.names(), ["hf"])

    def test_folders_that_are_none(self):
        self.refused(1, "convert", self.folder / "none", "-o", self.out, says="expected a folder")
        self.hf.mkdir()
        self.refused(1, "convert", self.hf, "-o", self.out, says=("config.json", "not a Hugging Face folder"))
        self.write(n_files=2)
        (self.hf / "model-00002-of-00002.safetensors").unlink()
        self.refused(1, "convert", self.hf, "-o", self.out, says="model-00002-of-00002.safetensors")
        self.write(n_files=2)
        index = self.hf / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"x": "../model-00001-of-00002.safetensors"}}))
        self.refused(1, "convert", self.hf, "-o", self.out, says="name of a file in the folder")
        (self.hf / "config.json").write_text("[" * 100_000)
        self.refused(1, "convert", self.hf, "-o", self.out, says=("config.json", "deeper"))
        self.refused(2, "convert", self.hf, says="-o FILE")
        self.refused(2, "convert", self.hf, "-o", self.out, "--type", "Q9", says="Q9")

    def test_input_is_not_overwritten(self):
        self.write()
        before = (self.hf / "model.safetensors").read_bytes()
        self.refused(1, "convert", self.hf, "-o", self.hf / "model.safetensors", says="file of the input")
        self.assertTrue((self.hf / "model.safetensors").read_bytes() == before)

    # No partial output ---------------------------------------------------------------------------------------

    def large(self):
        """A layer of zeros, stored as a hole in a sparse file."""
        def widen(config, tensors):
            n, ff = 10_000, 4096
            config |= {"vocab_size": n, "hidden_size": 2048, "intermediate_size": ff, "num_hidden_layers": 1, "head_dim": 64,
                       "num_attention_heads": 32, "num_key_value_heads": 32}
            shapes = {"model.embed_tokens": [n, 2048], "model.norm": [2048], "lm_head": [n, 2048]}
            layer = {"input_layernorm": [2048], "post_attention_layernorm": [2048], "mlp.gate_proj": [ff, 2048],
                     "mlp.up_proj": [ff, 2048], "mlp.down_proj": [2048, ff]}
            layer |= {f"self_attn.{part}_proj": [2048, 2048] for part in "qkvo"}
            shapes |= {"model.layers.0." + name: shape for name, shape in layer.items()}
            tensors.clear()
            tensors |= {name + ".weight": (shape, "F16", b"") for name, shape in shapes.items()}

        self.write(change=widen)
        # The header with the offsets that the data would have.
        path, header, at = self.hf / "model.safetensors", {}, 0
        data = path.read_bytes()
        for name, record in json.loads(data[8:]).items():
            if name == "__metadata__":
                continue
            end = at + 2 * hf_folder.product(record["shape"])
            header[name] = record | {"data_offsets": [at, end]}
            at = end
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        os.truncate(path, 8 + len(text) + at)

    def test_full_disk_leaves_what_was_there(self):
        self.out.write_text("old")
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))}
        for more in ((), ("--packed",)):
            self.refused(1, "convert", TINY.parent / "hf", "-o", self.out, "--type", "Q8_0", *more, says="too large", **limit)
            self.assertEqual((self.out.read_text(), self.names()), ("old", ["out.gguf"]))

    def test_interrupt(self):
        self.large()
        process = self.start("convert", self.hf, "-o", self.out, "--type", "IQ3_S")
        while process.poll() is None and not is_writing(process, self.folder):
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
        self.assertIn(b"interrupted", err)
        self.assertEqual(self.names(), ["hf"])

    def test_killed(self):
        self.large()
        self.out.write_text("old")
        process = self.start("convert", self.hf, "-o", self.out, "--type", "IQ3_S")
        while process.poll() is None and not is_writing(process, self.folder):
            pass
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertEqual(self.out.read_text(), "old")

    def test_memory_does_not_grow_with_the_model(self):
        self.large()
        # Started by a small process, because the parent's size counts towards the peak before exec.
        measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", measure, self.program, "convert", self.hf, "-o", self.out, "--type",
                               "Q4_0", "-t", "2"], env=self.environment(), capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater((self.hf / "model.safetensors").stat().st_size, 150 << 20)
        self.assertLess(int(done.stdout) * 1024, 64 << 20)


if __name__ == "__main__":
    main()
