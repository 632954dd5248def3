#!/usr/bin/env python3
"""Logits of small models in float64, written from the papers and model cards, not from the engine.

  reference.py make FOLDER             writes the models without another reference, and their logits
  reference.py logits MODEL OUT [CTX]  writes the logits of one model; CTX chooses between LongRoPE's factors

Needs numpy. Models have random F16 weights (fixed seeds) and no vocabulary. A logits file holds int32 n_tok, int32
n_vocab, then f32 rows, for TOKENS at positions 0, 1, ... of one sequence.
"""
import struct
import sys

import numpy as np

TOKENS = [1, 5, 300, 17, 42, 301, 400, 77, 3, 511, 260, 33, 280, 290, 310, 8]
F32, F16 = 0, 1
U32, FLOAT, STRING = 4, 6, 8


# GGUF, as far as these files go ------------------------------------------------------------------------------------

def write_gguf(path, keys, tensors):
    text = lambda s: struct.pack('<Q', len(s)) + s.encode()
    value = {U32: lambda v: struct.pack('<I', v), FLOAT: lambda v: struct.pack('<f', v), STRING: text}
    out = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(keys))
    for key, v in keys.items():
        kind = STRING if isinstance(v, str) else FLOAT if isinstance(v, float) else U32
        out += text(key) + struct.pack('<I', kind) + value[kind](v)
    data = b''
    for name, w in tensors.items():
        out += text(name) + struct.pack('<I', w.ndim) + struct.pack(f'<{w.ndim}Q', *reversed(w.shape))
        out += struct.pack('<IQ', F16 if w.dtype == np.float16 else F32, len(data))
        data += w.tobytes() + b'\0' * (-w.nbytes % 32)
    with open(path, 'wb') as f:
        f.write(out + b'\0' * (-len(out) % 32) + data)


def read_gguf(path):
    with open(path, 'rb') as f:
        raw = f.read()
    at = 0

    def take(form):
        nonlocal at
        v, = struct.unpack_from('<' + form, raw, at)
        at += struct.calcsize('<' + form)
        return v

    def value(kind):
        nonlocal at
        if kind == STRING:
            n = take('Q')
            at += n
            return raw[at - n:at].decode('utf-8', 'replace')
        if kind == 9:
            kind, n = take('I'), take('Q')
            return [value(kind) for _ in range(n)]
        return take({0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}[kind])

    at, n_tensors, n_keys = 24, *struct.unpack_from('<QQ', raw, 8)
    keys = {}
    for _ in range(n_keys):
        name = value(STRING)
        keys[name] = value(take('I'))
    places = []
    for _ in range(n_tensors):
        name = value(STRING)
        shape = [take('Q') for _ in range(take('I'))][::-1]
        places.append((name, shape, take('I'), take('Q')))
    start = (at + 31) // 32 * 32
    tensors = {}
    for name, shape, kind, offset in places:
        w = np.frombuffer(raw, np.float16 if kind == F16 else np.float32, int(np.prod(shape)), start + offset)
        tensors[name] = w.reshape(shape).astype(np.float64)
    return keys, tensors


# The computation ---------------------------------------------------------------------------------------------------

def rms_norm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def rotate(x, freq, magnitude, pairs):
    """x [n_tok, n_head, head_dim]; pairs 'adjacent' (2i, 2i + 1) or 'halves' (i, i + n_rot / 2)."""
    n_rot = 2 * len(freq)
    angle = np.arange(len(x))[:, None, None] * freq
    cos, sin = magnitude * np.cos(angle), magnitude * np.sin(angle)
    first, second = (slice(0, n_rot, 2), slice(1, n_rot, 2)) if pairs == 'adjacent' else (
        slice(0, n_rot // 2), slice(n_rot // 2, n_rot))
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def yarn(freq, base, factor, original, fast, slow, mscale_all):
    """arXiv 2309.00071: slow pairs are interpolated, fast ones kept; the magnitude grows with the factor, relative to
    that of mscale_all (0: none), as DeepSeek's and Mistral's model code has it."""
    n_rot = 2 * len(freq)
    turn = lambda n: n_rot * np.log(original / (n * 2 * np.pi)) / (2 * np.log(base))
    low, high = max(np.floor(turn(fast)), 0), min(np.ceil(turn(slow)), n_rot - 1)
    slowness = np.clip((np.arange(n_rot // 2) - low) / max(high - low, 0.001), 0, 1)
    growth = lambda m: 0.1 * m * np.log(factor) + 1
    return freq / factor * slowness + freq * (1 - slowness), growth(1) / growth(mscale_all)


def logits_of(keys, tensors, n_ctx):
    arch = keys['general.architecture']
    key = lambda name, default=None: keys.get(f'{arch}.{name}', default)
    eps = key('attention.layer_norm_rms_epsilon')
    n_embd, n_rot = key('embedding_length'), key('rope.dimension_count')
    n_tok = len(TOKENS)
    gemma = arch.startswith('gemma')
    pairs = 'adjacent' if arch in ('granitemoe', 'mistral3', 'llama') else 'halves'
    residual = key('residual_scale', 1.0)
    position = np.arange(n_tok)
    distance = position[:, None] - position[None, :]

    def at(name, i, local):
        """A number of layer i: that of windowed layers, one for all layers, or one of an array."""
        found = key(name + '_swa') if local else None
        found = key(name) if found is None else found
        return found[i] if isinstance(found, list) else found

    def frequencies(base, n_rot=n_rot):
        return base ** (-np.arange(0, n_rot, 2) / n_rot)

    base = key('rope.freq_base')
    freq, magnitude = frequencies(base), 1.0
    original = key('rope.scaling.original_context_length')
    if key('rope.scaling.type') == 'yarn':
        freq, magnitude = yarn(freq, base, key('rope.scaling.factor'), original, key('rope.scaling.yarn_beta_fast'),
                               key('rope.scaling.yarn_beta_slow'), key('rope.scaling.yarn_log_multiplier', 0))
    if 'rope_factors_long.weight' in tensors:
        freq = freq / tensors['rope_factors_%s.weight' % ('long' if n_ctx > original else 'short')]
        magnitude = key('rope.scaling.attn_factor')

    def attention(w, x, i, local):
        n_head, n_kv = at('attention.head_count', i, False), at('attention.head_count_kv', i, False)
        k_dim, v_dim = at('attention.key_length', i, local), at('attention.value_length', i, local)

        def part(name, n, dim):
            y = x @ w('attn_' + name).T + (0 if w(f'attn_{name}.bias') is None else w(f'attn_{name}.bias'))
            y = y.reshape(n_tok, n, dim)
            norm = w(f'attn_{name}_norm')
            return y if norm is None else rms_norm(y, norm, eps)

        if w('attn_qkv') is not None:
            q, k, v = np.split((x @ w('attn_qkv').T).reshape(n_tok, -1, k_dim), [n_head, n_head + n_kv], axis=1)
        else:
            q, k, v = part('q', n_head, k_dim), part('k', n_kv, k_dim), part('v', n_kv, v_dim)
        own = frequencies(10000.0, key('rope.dimension_count_swa', n_rot)), 1.0
        use = own if local and arch == 'gemma3' else (freq, magnitude)
        q, k = rotate(q, *use, pairs), rotate(k, *use, pairs)
        growth = key('attention.temperature_scale')
        if growth:
            q = q * (1 + growth * np.log(1 + position // original))[:, None, None]
        hidden = (distance < 0) | (local & (distance >= key('attention.sliding_window', 0)))
        out = np.zeros((n_tok, n_head, v_dim))
        for h in range(n_head):
            kv = h // (n_head // n_kv)
            score = q[:, h] @ k[:, kv].T * key('attention.scale', 1 / np.sqrt(k_dim))
            cap = key('attn_logit_softcapping')
            if cap:
                score = cap * np.tanh(score / cap)
            out[:, h] = softmax(np.where(hidden, -np.inf, score)) @ v[:, kv]
        return out.reshape(n_tok, -1) @ w('attn_output').T

    def gated(x, gate, up, down):
        return ((gelu if gemma else silu)(x @ gate.T) * (x @ up.T)) @ down.T

    def feed_forward(w, x):
        if w('ffn_gate_inp') is None:
            gate, up = (w('ffn_gate'), w('ffn_up')) if w('ffn_gate') is not None else np.split(w('ffn_up'), 2)
            return gated(x, gate, up, w('ffn_down'))
        scores = x @ w('ffn_gate_inp').T
        out = np.zeros_like(x)
        for t in range(n_tok):
            chosen = np.argsort(-scores[t], kind='stable')[:key('expert_used_count')]
            # Qwen1.5-MoE: softmax over all, and not renormalised. The others: over the chosen.
            share = softmax(scores[t])[chosen] if arch == 'qwen2moe' else softmax(scores[t, chosen])
            for weight, e in zip(share, chosen):
                out[t] += weight * gated(x[t], w('ffn_gate_exps')[e], w('ffn_up_exps')[e], w('ffn_down_exps')[e])
        if w('ffn_up_shexp') is not None:
            shared = gated(x, w('ffn_gate_shexp'), w('ffn_up_shexp'), w('ffn_down_shexp'))
            gate = w('ffn_gate_inp_shexp')
            out += shared if gate is None else shared / (1 + np.exp(-(x @ gate)))[:, None]
        return out

    x = tensors['token_embd.weight'][TOKENS] * key('embedding_scale', np.sqrt(n_embd) if gemma else 1)
    for i in range(key('block_count')):
        w = lambda name: tensors.get(f'blk.{i}.{name}', tensors.get(f'blk.{i}.{name}.weight'))
        # Gemma 2: every other layer has a window; Gemma 3: five of six, unless the file says which.
        local = i % {'gemma2': 2, 'gemma3': 6}.get(arch, 1) < {'gemma2': 1, 'gemma3': 5}.get(arch, 0)
        local = key('attention.sliding_window_pattern', {i: local})[i]
        for norm, run, after in (('attn_norm', lambda w, y: attention(w, y, i, local), 'post_attention_norm'),
                                 ('ffn_norm', feed_forward, 'post_ffw_norm')):
            y = run(w, rms_norm(x, w(norm), eps))
            x = x + residual * (y if w(after) is None else rms_norm(y, w(after), eps))
    head = tensors.get('output.weight', tensors['token_embd.weight'])
    out = rms_norm(x, tensors['output_norm.weight'], eps) @ head.T / key('logit_scale', 1.0)
    cap = key('final_logit_softcapping')
    return cap * np.tanh(out / cap) if cap else out


def write_logits(path, logits):
    with open(path, 'wb') as f:
        f.write(struct.pack('<2i', *logits.shape) + logits.astype('<f4').tobytes())


# The models --------------------------------------------------------------------------------------------------------

N_VOCAB, N_EMBD, N_HEAD, N_KV, HEAD_DIM, N_FF, N_LAYER = 512, 32, 4, 2, 16, 64, 2


def model(arch, extra, experts=0, n_ff_expert=32, shared=False, qkv_bias=False, fused=False):
    rng = np.random.default_rng(len(arch) * 1000 + experts)
    keys = {'general.architecture': arch}
    own = {'context_length': 64, 'embedding_length': N_EMBD, 'block_count': N_LAYER, 'feed_forward_length': N_FF,
           'attention.head_count': N_HEAD, 'attention.head_count_kv': N_KV, 'attention.key_length': HEAD_DIM,
           'attention.value_length': HEAD_DIM, 'attention.layer_norm_rms_epsilon': 1e-6,
           'rope.dimension_count': HEAD_DIM, 'rope.freq_base': 10000.0, **extra}
    if experts:
        own |= {'expert_count': experts, 'expert_used_count': 3, 'expert_feed_forward_length': n_ff_expert}
    if shared:
        own['expert_shared_feed_forward_length'] = N_FF
    keys |= {f'{arch}.{name}': v for name, v in own.items()}
    tensors = {}

    def matrix(name, *shape, scale=None, kind=np.float16):
        tensors[name + '.weight'] = (rng.standard_normal(shape) * (scale or 1.5 / np.sqrt(shape[-1]))).astype(kind)

    def vector(name, n, base=1.0, spread=0.2):
        tensors[name] = (base + spread * rng.standard_normal(n)).astype(np.float32)

    matrix('token_embd', N_VOCAB, N_EMBD, scale=0.3)
    vector('output_norm.weight', N_EMBD)
    if fused:
        tensors['rope_factors_short.weight'] = np.linspace(1, 1.6, HEAD_DIM // 2).astype(np.float32)
        tensors['rope_factors_long.weight'] = np.geomspace(1.1, 40, HEAD_DIM // 2).astype(np.float32)
    n_q, n_k = N_HEAD * HEAD_DIM, N_KV * HEAD_DIM
    for i in range(N_LAYER):
        b = f'blk.{i}.'
        vector(b + 'attn_norm.weight', N_EMBD)
        if fused:
            matrix(b + 'attn_qkv', n_q + 2 * n_k, N_EMBD)
        else:
            for name, n in (('q', n_q), ('k', n_k), ('v', n_k)):
                matrix(b + 'attn_' + name, n, N_EMBD)
                if qkv_bias:
                    vector(b + f'attn_{name}.bias', n, base=0.0)
        matrix(b + 'attn_output', N_EMBD, n_q)
        vector(b + 'ffn_norm.weight', N_EMBD)
        if experts:
            matrix(b + 'ffn_gate_inp', experts, N_EMBD, kind=np.float32)
            matrix(b + 'ffn_gate_exps', experts, n_ff_expert, N_EMBD)
            matrix(b + 'ffn_up_exps', experts, n_ff_expert, N_EMBD)
            matrix(b + 'ffn_down_exps', experts, N_EMBD, n_ff_expert)
        elif fused:
            matrix(b + 'ffn_up', 2 * N_FF, N_EMBD)
            matrix(b + 'ffn_down', N_EMBD, N_FF)
        if shared or not (experts or fused):
            suffix = '_shexp' if shared else ''
            matrix(b + 'ffn_gate' + suffix, N_FF, N_EMBD)
            matrix(b + 'ffn_up' + suffix, N_FF, N_EMBD)
            matrix(b + 'ffn_down' + suffix, N_EMBD, N_FF)
        if arch == 'qwen2moe':
            vector(b + 'ffn_gate_inp_shexp.weight', N_EMBD, base=0.0)
    return keys, tensors


def make(folder):
    scales = {'attention.scale': 0.11, 'embedding_scale': 12.0, 'residual_scale': 0.22, 'logit_scale': 6.0}
    growing = {'rope.freq_base': 50.0, 'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4.0,
               'rope.scaling.original_context_length': 6, 'rope.scaling.yarn_beta_fast': 0.5,
               'rope.scaling.yarn_beta_slow': 0.05, 'rope.scaling.yarn_log_multiplier': 0.5,
               'attention.temperature_scale': 0.25}
    long = {'rope.scaling.original_context_length': 32, 'rope.scaling.attn_factor': 1.1902}
    for name, made in (('qwen2moe', model('qwen2moe', {}, experts=8, shared=True, qkv_bias=True)),
                       ('granitemoe', model('granitemoe', scales, experts=6, shared=True)),
                       ('mistral3', model('mistral3', growing)),
                       ('longrope', model('phi3', long, fused=True))):
        path = f'{folder}/{name}.gguf'
        write_gguf(path, *made)
        loaded = read_gguf(path)
        write_logits(f'{folder}/{name}.logits', logits_of(*loaded, n_ctx=16))
        if name == 'longrope':
            write_logits(f'{folder}/{name}-long.logits', logits_of(*loaded, n_ctx=33))


if __name__ == '__main__':
    if len(sys.argv) == 3 and sys.argv[1] == 'make':
        make(sys.argv[2])
    elif len(sys.argv) in (4, 5) and sys.argv[1] == 'logits':
        write_logits(sys.argv[3], logits_of(*read_gguf(sys.argv[2]), n_ctx=int((sys.argv[4:] or [16])[0])))
    else:
        sys.exit(__doc__)
