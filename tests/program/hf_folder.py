"""Hugging Face folders made of GGUF models: the inverse of `tessera convert`, written from the published model classes
with only the standard library. Tensors are (shape outermost first, type, bytes)."""
import collections
import json
import struct

GGUF_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2), 39: ("MXFP4", 32, 17)}


def product(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def read_gguf(path):
    """(keys, tensors) of a file whose types are in the table."""
    data, at = path.read_bytes(), 24
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)

    def number(form):
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        n = number("Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            element, n = number("I"), number("Q")
            return [value(element) for _ in range(n)]
        return number(GGUF_FORMATS[kind])

    keys, records = {}, []
    for _ in range(n_keys):
        key = text()
        keys[key] = value(number("I"))
    for _ in range(n_tensors):
        name, n_dims = text(), number("I")
        shape = [number("Q") for _ in range(n_dims)][::-1]
        records.append((name, shape, number("I"), number("Q")))
    begin = -(-at // 32) * 32
    tensors = {}
    for name, shape, kind, offset in records:
        title, block, n_bytes = TYPES[kind]
        tensors[name] = (shape, title,
                         data[begin + offset:begin + offset + product(shape) // block * n_bytes])
    return keys, tensors


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (shape, dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def sentencepiece_model(tokens, scores, kinds, dummy_prefix=True):
    """A model file of type BPE."""
    def field(number, body):
        n, length = len(body), b""
        while True:
            length += bytes([n & 127 | (128 if n > 127 else 0)])
            n >>= 7
            if not n:
                return bytes([number << 3 | 2]) + length + body

    out = b""
    for token, score, kind in zip(tokens, scores, kinds):
        out += field(1, field(1, token.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind]))
    return out + field(2, b"\x18\x02") + field(3, bytes([0x18, dummy_prefix]))


# Values ----------------------------------------------------------------------------------------------------------

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "U8": 1}


def take_rows(tensor, order):
    shape, dtype, data = tensor
    n = len(data) // len(order)
    return shape, dtype, b"".join(data[row * n:(row + 1) * n] for row in order)


def unpaired(tensor, head_dim):
    """From pairs of neighbours (GGUF) to pairs half a head apart (Hugging Face)."""
    n = tensor[0][0]
    return take_rows(tensor, [head + pair * 2 + half for head in range(0, n, head_dim) for half in (0, 1)
                              for pair in range(head_dim // 2)])


def less_one(tensor):
    shape, _, data = tensor
    return shape, "F64", b"".join(struct.pack("<d", x - 1) for (x,) in struct.iter_unpack("<f", data))


def matrix(tensor, index):
    shape, dtype, data = tensor
    n = len(data) // shape[0]
    return shape[1:], dtype, data[index * n:(index + 1) * n]


def joined(first, second):
    """Concatenates the matrices of two stacks: the rows of the first above those of the second."""
    (n, rows, cols), dtype, data = first
    size = len(data) // n
    body = b"".join(data[i * size:(i + 1) * size] + second[2][i * size:(i + 1) * size] for i in range(n))
    return [n, 2 * rows, cols], dtype, body


def in_turns(first, second):
    """Interleaves both along the last dimension, for matrices along the last but one."""
    shape, dtype, data = first
    size = SIZES[dtype] if len(shape) == 2 else len(data) // (shape[0] * shape[1])
    body = b"".join(data[at:at + size] + second[2][at:at + size] for at in range(0, len(data), size))
    return [shape[0], 2 * shape[1], *shape[2:]], dtype, body


def transposed(tensor):
    (n, rows, cols), dtype, data = tensor
    size = SIZES[dtype]
    body = b"".join(data[((m * rows + r) * cols + c) * size:((m * rows + r) * cols + c + 1) * size]
                    for m in range(n) for c in range(cols) for r in range(rows))
    return [n, cols, rows], dtype, body


def mxfp4_blocks(tensor):
    """(blocks, scales) with the elements 2k and 2k + 1 of 32 in byte k."""
    shape, _, data = tensor
    blocks, scales = bytearray(), bytearray()
    for at in range(0, len(data), 17):
        scales.append(data[at])
        codes = [b & 15 for b in data[at + 1:at + 17]] + [b >> 4 for b in data[at + 1:at + 17]]
        blocks += bytes(codes[2 * k] | codes[2 * k + 1] << 4 for k in range(16))
    n = shape[-1] // 32
    return ([*shape[:-1], n, 16], "U8", bytes(blocks)), ([*shape[:-1], n], "U8", bytes(scales))


# Models ----------------------------------------------------------------------------------------------------------

PAIRED = ("llama", "mistral3", "smollm3", "granite", "granitemoe")
NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_qkv": "self_attn.qkv_proj",
}
AFTER_NORMS = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
OWN_NAMES = {
    "gemma2": {**AFTER_NORMS, "ffn_norm": "pre_feedforward_layernorm"},
    "gemma3": {**AFTER_NORMS, "ffn_norm": "pre_feedforward_layernorm"},
    "olmo2": AFTER_NORMS, "exaone4": AFTER_NORMS,
    "glm4": {"post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm",
             "ffn_up": "mlp.gate_up_proj"},
    "starcoder2": {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
    "seed_oss": {"post_attention_norm": "post_attention_layernorm"},
    "phi3": {"ffn_up": "mlp.gate_up_proj"},
    "gpt-oss": {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"},
    "llama": {"ffn_gate_inp": "block_sparse_moe.gate"},
    "qwen3moe": {"ffn_gate_inp": "mlp.gate"},
    "qwen2moe": {"ffn_gate_inp": "mlp.gate", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
                 "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj"},
    "granitemoe": {"ffn_gate_inp": "block_sparse_moe.router.layer", "ffn_down_exps": "block_sparse_moe.output_linear",
                   "ffn_down_shexp": "shared_mlp.output_linear"},
}
EXPERTS = {
    "llama": ("block_sparse_moe.experts.{}.", {"gate": "w1", "up": "w3", "down": "w2"}),
    "qwen2moe": ("mlp.experts.{}.", {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}),
    "qwen3moe": ("mlp.experts.{}.", {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}),
}


def special_layer_tensors(arch, layer, out):
    """Tensors that need more than another name: written to `out`; returns their names."""
    if arch == "gpt-oss":
        out["self_attn.sinks"] = layer["attn_sinks.weight"]
        gate, up, down = (layer[f"ffn_{part}_exps.weight"] for part in ("gate", "up", "down"))
        if gate[1] == "MXFP4":
            gate_blocks, gate_scales = mxfp4_blocks(gate)
            up_blocks, up_scales = mxfp4_blocks(up)
            n = gate_blocks[0]

            def flat(tensor, width):
                return [n[0], n[1], width], tensor[1], tensor[2]

            out["mlp.experts.gate_up_proj_blocks"] = ([n[0], 2 * n[1], *n[2:]], *in_turns(
                flat(gate_blocks, n[2] * 16), flat(up_blocks, n[2] * 16))[1:])
            out["mlp.experts.gate_up_proj_scales"] = in_turns(flat(gate_scales, n[2]), flat(up_scales, n[2]))
            out["mlp.experts.down_proj_blocks"], out["mlp.experts.down_proj_scales"] = mxfp4_blocks(down)
        else:
            out["mlp.experts.gate_up_proj"] = transposed(in_turns(gate, up))
            out["mlp.experts.down_proj"] = transposed(down)
        out["mlp.experts.gate_up_proj_bias"] = in_turns(layer["ffn_gate_exps.bias"], layer["ffn_up_exps.bias"])
        out["mlp.experts.down_proj_bias"] = layer["ffn_down_exps.bias"]
        return {"attn_sinks.weight", *(f"ffn_{part}_exps.{kind}" for part in ("gate", "up", "down")
                                       for kind in ("weight", "bias"))}
    if arch == "granitemoe":
        out["block_sparse_moe.input_linear.weight"] = joined(layer["ffn_gate_exps.weight"], layer["ffn_up_exps.weight"])
        (n, cols), dtype, gate = layer["ffn_gate_shexp.weight"]
        out["shared_mlp.input_linear.weight"] = ([2 * n, cols], dtype, gate + layer["ffn_up_shexp.weight"][2])
        return {f"ffn_{part}_{kind}.weight" for part in ("gate", "up") for kind in ("exps", "shexp")}
    done = set()
    if "ffn_gate_exps.weight" in layer:
        prefix, parts = EXPERTS[arch]
        for part, name in parts.items():
            stack = layer[f"ffn_{part}_exps.weight"]
            done.add(f"ffn_{part}_exps.weight")
            for expert in range(stack[0][0]):
                out[f"{prefix.format(expert)}{name}.weight"] = matrix(stack, expert)
    if arch == "qwen2moe":
        shape, dtype, data = layer["ffn_gate_inp_shexp.weight"]
        out["mlp.shared_expert_gate.weight"] = ([1, *shape], dtype, data)
        done.add("ffn_gate_inp_shexp.weight")
    return done


def hf_tensors(keys, tensors):
    arch = keys["general.architecture"]
    head_dim = keys[f"{arch}.attention.key_length"]
    is_gemma = arch.startswith("gemma")
    names = NAMES | OWN_NAMES.get(arch, {})
    norm = less_one if is_gemma else lambda tensor: tensor
    out = {"model.embed_tokens.weight": tensors["token_embd.weight"], "model.norm.weight": norm(tensors["output_norm.weight"])}
    if "output_norm.bias" in tensors:
        out["model.norm.bias"] = tensors["output_norm.bias"]
    if "output.weight" in tensors:
        out["lm_head.weight"] = tensors["output.weight"]
    for i in range(keys[f"{arch}.block_count"]):
        start = f"blk.{i}."
        layer = {name[len(start):]: tensor for name, tensor in tensors.items() if name.startswith(start)}
        made = {}
        done = special_layer_tensors(arch, layer, made)
        for name, tensor in layer.items():
            if name in done:
                continue
            stem, kind = name.rsplit(".", 1)
            if stem in ("attn_q", "attn_k") and arch in PAIRED:
                tensor = unpaired(tensor, head_dim)
            if stem.endswith("norm"):
                tensor = norm(tensor)
            made[f"{names[stem]}.{kind}"] = tensor
        out |= {f"model.layers.{i}.{name}": tensor for name, tensor in made.items()}
    return out


CLASSES = {
    "llama": "LlamaForCausalLM", "mistral3": "Mistral3ForConditionalGeneration", "smollm3": "SmolLM3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM", "qwen2moe": "Qwen2MoeForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM", "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM", "phi3": "Phi3ForCausalLM", "olmo2": "Olmo2ForCausalLM",
    "granite": "GraniteForCausalLM", "granitemoe": "GraniteMoeSharedForCausalLM", "gpt-oss": "GptOssForCausalLM",
    "exaone4": "Exaone4ForCausalLM", "glm4": "Glm4ForCausalLM", "seed_oss": "SeedOssForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
}
COMMON = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "norm_epsilon", "rope.freq_base": "rope_theta",
    "expert_used_count": "num_experts_per_tok", "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
    "embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling",
}


def config(keys, tensors):
    arch = keys["general.architecture"]
    own = {key[len(arch) + 1:]: value for key, value in keys.items() if key.startswith(arch + ".")}
    out = {"architectures": [CLASSES[arch]], "vocab_size": tensors["token_embd.weight"][0][0],
           "tie_word_embeddings": "output.weight" not in tensors, "torch_dtype": "float16"}
    out |= {name: own[key] for key, name in COMMON.items() if key in own}
    gelu = arch.startswith("gemma") or arch == "starcoder2"
    if arch == "starcoder2":
        out["use_bias"] = True
    out["hidden_act"] = "gelu_pytorch_tanh" if gelu else "silu"
    if "expert_count" in own:
        out["num_experts" if arch.startswith("qwen") else "num_local_experts"] = own["expert_count"]
        if arch.startswith("qwen"):
            out |= {"moe_intermediate_size": own["expert_feed_forward_length"], "decoder_sparse_step": 1,
                    "mlp_only_layers": [], "norm_topk_prob": arch == "qwen3moe",
                    "shared_expert_intermediate_size": own.get("expert_shared_feed_forward_length", 0)}
        else:
            out |= {"intermediate_size": own["expert_feed_forward_length"],
                    "shared_intermediate_size": own.get("expert_shared_feed_forward_length", 0)}
        if arch == "llama":
            out["architectures"] = ["MixtralForCausalLM"]
    if own["rope.dimension_count"] != own["attention.key_length"]:
        out["partial_rotary_factor"] = own["rope.dimension_count"] / own["attention.key_length"]
    if own.get("rope.scaling.type") == "yarn":
        original = own["rope.scaling.original_context_length"]
        scaling = {"rope_type": "yarn", "factor": own["rope.scaling.factor"], "original_max_position_embeddings": original}
        for key, name in (("rope.scaling.yarn_beta_fast", "beta_fast"), ("rope.scaling.yarn_beta_slow", "beta_slow"),
                          ("attention.temperature_scale", "llama_4_scaling_beta")):
            if key in own:
                scaling[name] = own[key]
        if "rope.scaling.yarn_log_multiplier" in own:
            scaling |= {"mscale": 1.0, "mscale_all_dim": own["rope.scaling.yarn_log_multiplier"]}
        out["rope_scaling"] = scaling
    if "rope_freqs.weight" in tensors:
        out["rope_scaling"] = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 8192}
    if "rope_factors_long.weight" in tensors:
        def factors(name):
            return [x for (x,) in struct.iter_unpack("<f", tensors[f"rope_factors_{name}.weight"][2])]

        out |= {"original_max_position_embeddings": own["rope.scaling.original_context_length"],
                "rope_scaling": {"type": "longrope", "short_factor": factors("short"), "long_factor": factors("long"),
                                 "attention_factor": own["rope.scaling.attn_factor"]}}
    return out


def write_folder(folder, gguf, vocabulary, n_files=1, change=None):
    """`vocabulary`: the GGUF file whose tokens the folder has. `change(config, tensors)` may replace what is written."""
    keys, tensors = read_gguf(gguf)
    settings, made = config(keys, tensors), hf_tensors(keys, tensors)
    if settings["architectures"] == ["Mistral3ForConditionalGeneration"]:
        # As a part of a larger model.
        made = {"language_model." + name: tensor for name, tensor in made.items()}
        made["vision_tower.patch_conv.weight"] = ([2], "F32", bytes(8))
        settings = {"architectures": settings.pop("architectures"), "text_config": settings}
    if change:
        change(settings, made)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    names = list(made)
    if n_files == 1:
        write_safetensors(folder / "model.safetensors", made, {"format": "pt"})
    else:
        index = {}
        for part in range(n_files):
            name = f"model-{part + 1:05}-of-{n_files:05}.safetensors"
            chosen = names[part::n_files]
            write_safetensors(folder / name, {n: made[n] for n in chosen})
            index |= {n: name for n in chosen}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    vocabulary_keys = read_gguf(vocabulary)[0]
    tokens, scores, kinds = (vocabulary_keys["tokenizer.ggml." + name] for name in ("tokens", "scores", "token_type"))
    (folder / "tokenizer.model").write_bytes(sentencepiece_model(tokens, scores, kinds))
    ids = {name: vocabulary_keys[f"tokenizer.ggml.{name}_id"] for name in ("bos_token", "eos_token")}
    (folder / "generation_config.json").write_text(json.dumps({f"{name}_id": n for name, n in ids.items()}))
    return keys, tensors


def byte_level_tokenizer(text, n_merges):
    """A tokenizer.json with GPT-2's byte alphabet and pre-tokenizer: control tokens 0 to 2, a token for each byte, and the
    n_merges most frequent merges of a text in ASCII. Merges are lists of two."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    words = [[letters[byte] for byte in word.encode()] for word in text.replace("\n", " ").replace(" ", "\n ").split("\n")]
    merges = []
    for _ in range(n_merges):
        counts = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        left, right = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append([left, right])
        for word in words:
            for i in range(len(word) - 2, -1, -1):
                if word[i:i + 2] == [left, right]:
                    word[i:i + 2] = [left + right]
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = control + [letters[byte] for byte in range(256)] + [left + right for left, right in merges]
    return {"version": "1.0", "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for i, token in enumerate(control)],
            "model": {"type": "BPE", "byte_fallback": False, "unk_token": None, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}
