#!/usr/bin/env python3
"""Makes the model files that the tests read, each from a seed or from a file of this checkout.

  make_models.py large NAME N_VOCAB OUT.gguf    a model of the shape of LARGE[NAME], in F16, whose weights mean nothing
  make_models.py FOLDER                         writes into FOLDER
      NAME.gguf              a tiny model of random F16 weights for each row of MODELS; its reference logits are
                             tests/data/logits/NAME.logits
      tiny/tiny-f16.gguf     models/tessera-tiny.gguf with its weights rounded to F16
      tiny/hf/               the same weights as a Hugging Face folder, in F32
      NAME.gguf, NAME.logits for each row of LAYER_MODELS, whose layers differ, with logits computed in float64
      bad/                   files that are malformed, or well-formed but out of the ordinary

Needs numpy. Random numbers are those of numpy's default generator. A tiny model is refused unless its SHA-256 is the
one of its row, because the logits were computed for exactly these weights.
"""
import hashlib
import json
import pathlib
import shutil
import struct
import sys

import numpy as np

import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9      # types of metadata values
TENSOR_F32, TENSOR_F16, TENSOR_Q8_0 = 0, 1, 8
ALIGNMENT = 32


# GGUF --------------------------------------------------------------------------------------------------------------

def text(s):
    raw = s.encode()
    return struct.pack('<Q', len(raw)) + raw


def value(kind, v):
    """A metadata value with its type; `kind` is a type or (ARRAY, type of the elements)."""
    if isinstance(kind, tuple):
        elements = b''.join(value(kind[1], e)[4:] for e in v)
        return struct.pack('<IIQ', ARRAY, kind[1], len(v)) + elements
    forms = {U32: '<I', I32: '<i', F32: '<f', BOOL: '<?'}
    return struct.pack('<I', kind) + (text(v) if kind == STRING else struct.pack(forms[kind], v))


def padded(raw):
    return raw + b'\0' * (-len(raw) % ALIGNMENT)


def gguf(keys, tensors):
    """The bytes of a file. keys: [(name, kind, value)]; tensors: [(name, array of float16 or float32)]."""
    return b''.join(gguf_parts(keys, tensors))


def gguf_parts(keys, tensors):
    """The same bytes as the head and one part for each tensor."""
    head = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(keys))
    head += b''.join(text(name) + value(kind, v) for name, kind, v in keys)
    offset = 0
    for name, w in tensors:
        head += text(name) + struct.pack(f'<I{w.ndim}Q', w.ndim, *reversed(w.shape))
        head += struct.pack('<IQ', TENSOR_F16 if w.dtype == np.float16 else TENSOR_F32, offset)
        offset += len(padded(bytes(w.nbytes % ALIGNMENT))) + w.nbytes - w.nbytes % ALIGNMENT
    yield padded(head)
    for _, w in tensors:
        yield padded(np.ascontiguousarray(w).tobytes())


def read_gguf(path):
    """(keys as for gguf(), {name: array of float32}) of a file of F32, F16 and Q8_0 tensors."""
    raw = path.read_bytes()
    at = 8

    def take(form):
        nonlocal at
        v, = struct.unpack_from('<' + form, raw, at)
        at += struct.calcsize('<' + form)
        return v

    def take_text():
        nonlocal at
        n = take('Q')
        at += n
        return raw[at - n:at].decode()

    def take_value(kind):
        if kind == STRING:
            return take_text()
        return take({U32: 'I', I32: 'i', F32: 'f', BOOL: '?'}[kind])

    n_tensors, n_keys = take('Q'), take('Q')
    keys = []
    for _ in range(n_keys):
        name, kind = take_text(), take('I')
        if kind == ARRAY:
            kind = ARRAY, take('I')
            keys.append((name, kind, [take_value(kind[1]) for _ in range(take('Q'))]))
        else:
            keys.append((name, kind, take_value(kind)))
    places = []
    for _ in range(n_tensors):
        name = take_text()
        shape = [take('Q') for _ in range(take('I'))][::-1]
        places.append((name, shape, take('I'), take('Q')))
    start = len(padded(raw[:at]))
    tensors = {}
    for name, shape, kind, offset in places:
        n = int(np.prod(shape))
        if kind == TENSOR_Q8_0:
            blocks = np.frombuffer(raw, np.dtype([('scale', '<f2'), ('q', 'i1', 32)]), n // 32, start + offset)
            w = blocks['scale'].astype(np.float32)[:, None] * blocks['q'].astype(np.float32)
        else:
            w = np.frombuffer(raw, {TENSOR_F32: '<f4', TENSOR_F16: '<f2'}[kind], n, start + offset).astype(np.float32)
        tensors[name] = w.reshape(shape)
    return keys, tensors


# Models of random weights ------------------------------------------------------------------------------------------

# The tensors of a layer as `name:shape`, outermost dimension first. `!` marks a matrix kept in F32. Dimensions:
# d n_embd, f n_ff, q/k/v rows of all query, key and value heads, o columns of attention's output, h head_dim, H n_head,
# E n_expert, e n_ff_expert, s n_ff_shared.
QKV = 'attn_q.weight:q,d attn_k.weight:k,d attn_v.weight:k,d attn_output.weight:d,q '
QKV_BIAS = 'attn_q.bias:q attn_k.bias:k attn_v.bias:k '
QK_NORM = 'attn_q_norm.weight:h attn_k_norm.weight:h '
POST_NORMS = 'post_attention_norm.weight:d post_ffw_norm.weight:d '
ATTN_NORM, FFN_NORM = 'attn_norm.weight:d ', 'ffn_norm.weight:d '
MLP = 'ffn_gate.weight:f,d ffn_up.weight:f,d ffn_down.weight:d,f '
MOE = ('!ffn_gate_inp.weight:E,d ffn_gate_exps.weight:E,e,d ffn_up_exps.weight:E,e,d '
       'ffn_down_exps.weight:E,d,e ')
FUSED = 'attn_qkv.weight:q+2k,d attn_output.weight:d,q ffn_norm.weight:d ffn_up.weight:2f,d ffn_down.weight:d,f'
PLAIN = ATTN_NORM + QKV + FFN_NORM + MLP
GPT_OSS = (ATTN_NORM + QKV + QKV_BIAS + 'attn_output.bias:d attn_sinks.weight:H post_attention_norm.weight:d ' + MOE +
           'ffn_gate_inp.bias:E ffn_gate_exps.bias:E,e ffn_up_exps.bias:E,e ffn_down_exps.bias:E,d')
GRANITE_SCALES = {'attention.scale': 0.015625, 'embedding_scale': 12.0, 'residual_scale': 0.22, 'logit_scale': 8.0}
GEMMA2_KEYS = {'attention.sliding_window': 8, 'attn_logit_softcapping': 50.0, 'final_logit_softcapping': 30.0}
GPT_OSS_KEYS = {'attention.sliding_window': 8, 'rope.scaling.type': 'yarn', 'rope.scaling.factor': 32.0,
                'rope.scaling.original_context_length': 1024}

# head_dim is that of queries and keys; v_dim: of values, None: the same. A list has a number for each layer.
DEFAULTS = dict(n_layer=2, n_embd=128, n_ff=256, n_head=4, n_kv=2, head_dim=32, v_dim=None, theta=1e4, eps=1e-6, ctx=4096, n_rot=None,
                tied=False, rope_factors=False, moe=None, n_ff_shared=None, keys={})

# moe: n_expert, n_expert_used, n_ff_expert.
MODELS = {
    'llama': dict(arch='llama', eps=1e-5, ctx=2048, layer=PLAIN),
    'llama3': dict(arch='llama', eps=1e-5, ctx=8192, theta=5e5, tied=True, rope_factors=True, layer=PLAIN),
    'nemo': dict(arch='llama', n_kv=1, head_dim=64, eps=1e-5, ctx=8192, theta=1e6, layer=PLAIN),
    'mixtral': dict(arch='llama', n_ff=128, eps=1e-5, theta=1e6, moe=(4, 2, 128), layer=ATTN_NORM + QKV + FFN_NORM + MOE),
    'qwen2': dict(arch='qwen2', theta=1e6, tied=True, layer=ATTN_NORM + QKV + QKV_BIAS + FFN_NORM + MLP),
    'qwen3': dict(arch='qwen3', head_dim=64, theta=1e6, tied=True, layer=ATTN_NORM + QKV + QK_NORM + FFN_NORM + MLP),
    'qwen3moe': dict(arch='qwen3moe', theta=1e6, moe=(8, 2, 64), layer=ATTN_NORM + QKV + QK_NORM + FFN_NORM + MOE),
    'gemma': dict(arch='gemma', n_kv=1, tied=True, layer=PLAIN),
    'gemma2': dict(arch='gemma2', n_layer=4, n_ff=128, tied=True, keys=GEMMA2_KEYS,
                   layer=ATTN_NORM + QKV + POST_NORMS + FFN_NORM + MLP),
    'gemma3': dict(arch='gemma3', n_layer=7, n_ff=128, n_kv=1, theta=1e6, tied=True,
                   keys={'attention.sliding_window': 8},
                   layer=ATTN_NORM + QKV + QK_NORM + POST_NORMS + FFN_NORM + MLP),
    'phi3': dict(arch='phi3', n_kv=4, eps=1e-5, layer=ATTN_NORM + FUSED),
    'phi4mini': dict(arch='phi3', eps=1e-5, tied=True, n_rot=24, layer=ATTN_NORM + FUSED),
    'olmo2': dict(arch='olmo2', n_kv=4, theta=5e5,
                  layer=QKV + 'attn_q_norm.weight:q attn_k_norm.weight:k ' + POST_NORMS + MLP),
    'granite': dict(arch='granite', eps=1e-5, tied=True, keys=GRANITE_SCALES, layer=PLAIN),
    'smollm3': dict(arch='smollm3', n_layer=4, n_ff=128, theta=5e6, tied=True, layer=PLAIN),
    'gptoss': dict(arch='gpt-oss', n_ff=64, theta=1.5e5, eps=1e-5, moe=(4, 2, 64), keys=GPT_OSS_KEYS, layer=GPT_OSS),
}

SHA256 = {
    'llama': '155c07f65765fd8f2194b47937528427837069a879649325b74997215d475783',
    'llama3': '59ffa74050280c0b6a69df1a34a3ff42cd832d886a91af9d34bd31640d96cf5a',
    'nemo': 'ab9082e4351d037bf3d5c1e421d67c7021b9548551220ef8e03510ac76f80e8d',
    'mixtral': 'e31db9e777ca569757e0caa94bdfbd7fb44556b0d6ec00326a80bd380a72ec07',
    'qwen2': '12493fe2e1a48d48b8719192ac080d35871f6ebe74d1e30ee0eb8071f261653d',
    'qwen3': 'e2c24e46fa5048308612b86fabb57bc7c662a9244bfa8f33d723eea74bad087b',
    'qwen3moe': '8566d1c4445c77e46c7b94588ca9ab85d1cb334f9938ae279f1edd891875dbff',
    'gemma': 'a9db7f81e8df32ef76cebfa98812799c7181ad46f59d9b4a814ff7e5c350293a',
    'gemma2': 'a9c8ab53883ff02082f4c835d0c727b17790a66e08d3afb4a6e560c09a562c9f',
    'gemma3': 'a7e1bf7c1b418a81146c590bf759ca705afd1c1bb08de8c819494b8248d227dc',
    'phi3': '306f9c1d11faf0963201a814f3de61808eaf11551be9416cd535b893e237322e',
    'phi4mini': 'babc09485dad9a20eeaafce936dbb734a8c4d6d0aa5d567739adb9b4c5efbd89',
    'olmo2': 'a9e1b4ff1d40b8a48388d647aa7a5f91360401a0673ed9f2a7233767a92b3127',
    'granite': 'ce414c721463e2797010442080d78db3ff288d47c988bef7ca04959180350255',
    'smollm3': 'a2abda89ebb0741c4d6e80eece28f6bc1c3b0e54c21d896284fef64817f934d0',
    'gptoss': '459f4500b710ce476b2ee1a0a1c25ad54ab118ee3cadee388e096a4240aaf14c',
}


# Models whose layers differ. `layer` has the tensors of each layer then.
KV_SIZES = 'attn_q.weight:q,d attn_k.weight:k,d attn_v.weight:v,d attn_output.weight:d,o '
SHARED = 'ffn_gate_shexp.weight:s,d ffn_up_shexp.weight:s,d ffn_down_shexp.weight:d,s '
LAYER_MODELS = {
    # Head counts and head sizes by arrays, and experts behind two dense layers.
    'mixed-heads': dict(
        arch='llama', n_layer=4, n_head=[4, 2, 6, 3], n_kv=[2, 2, 1, 3], head_dim=[32, 64, 96, 64], v_dim=[64, 64, 32, 96],
        n_ff=[256, 128, 192, 192], n_rot=32, moe=(4, 2, [0, 0, 64, 96]), keys={'leading_dense_block_count': 2},
        layer=[ATTN_NORM + KV_SIZES + FFN_NORM + ffn for ffn in (MLP, MLP, MOE, MOE)]),
    # The largest heads, those of latent attention.
    'wide-heads': dict(arch='qwen3', n_head=3, n_kv=1, head_dim=576, v_dim=512, n_rot=64, tied=True,
                       layer=ATTN_NORM + KV_SIZES + QK_NORM + FFN_NORM + MLP),
    # Windowed layers with smaller heads, but more of them.
    'local-heads': dict(
        arch='gemma3', n_layer=5, n_ff=128, n_head=4, n_kv=[4, 4, 1, 4, 1], head_dim=[32, 32, 64, 32, 64], theta=1e6,
        n_rot=64, tied=True, layer=ATTN_NORM + KV_SIZES + QK_NORM + POST_NORMS + FFN_NORM + MLP,
        keys={'attention.sliding_window': 8, 'attention.sliding_window_pattern': [True, True, False, True, False],
              'attention.key_length': 64, 'attention.key_length_swa': 32, 'attention.value_length': 64,
              'attention.value_length_swa': 32, 'rope.dimension_count_swa': 32}),
    # Norms behind experts. No published architecture of ours has them; the test brings its own.
    'post-norm-experts': dict(
        arch='post-norm-experts', n_layer=3, n_ff=128, moe=(4, 2, 64), n_ff_shared=96, keys={'leading_dense_block_count': 1},
        layer=[ATTN_NORM + KV_SIZES + FFN_NORM + POST_NORMS + ffn for ffn in (MLP, MOE + SHARED, MOE + SHARED)]),
}


def kind_of(v):
    if isinstance(v, list):
        return ARRAY, kind_of(v[0])
    return {bool: BOOL, int: U32, float: F32, str: STRING}[type(v)]


def vocabulary(n_vocab):
    """Metadata of the SentencePiece vocabulary that all these models share: a line [piece, score, type] for each token."""
    rows = json.loads((ROOT / 'tests/data/vocabulary.json').read_text())
    rows += [[f'[UNUSED_{i}]', -1e4, 5] for i in range(len(rows), n_vocab)]
    k = 'tokenizer.ggml.'
    return [(k + 'model', STRING, 'llama'), (k + 'pre', STRING, 'default'),
            (k + 'tokens', (ARRAY, STRING), [row[0] for row in rows]),
            (k + 'scores', (ARRAY, F32), [row[1] for row in rows]),
            (k + 'token_type', (ARRAY, I32), [row[2] for row in rows]),
            (k + 'bos_token_id', U32, 1), (k + 'eos_token_id', U32, 4), (k + 'unknown_token_id', U32, 0),
            (k + 'add_bos_token', BOOL, True), (k + 'add_eos_token', BOOL, False), (k + 'add_space_prefix', BOOL, True)]


def llama3_rope_factors(head_dim, theta):
    """Divisors of rope's frequencies, as Llama 3.1 defines them: factor 32, low 1, high 4, trained for 8192."""
    low, high, trained, factor = 1.0, 4.0, 8192.0, 32.0
    wavelength = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = np.clip((trained / wavelength - low) / (high - low), 0, 1)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(wavelength < trained / high, 1.0, np.where(wavelength > trained / low, factor, between)).astype('<f4')


def random_matrix(g, shape):
    return g.standard_normal(shape, dtype=np.float32)


def random_model(spec, seed=1, n_vocab=0, draw=random_matrix):
    """(keys, tensors) of a model of random weights for a row of MODELS or LARGE. n_vocab: the size of the vocabulary,
    padded with unused tokens; 0: as it is. draw(generator, shape): a matrix of standard deviation 1."""
    c = {**DEFAULTS, **spec}
    arch = c['arch']
    vocab = vocabulary(n_vocab)
    n_vocab = len(vocab[2][2])
    own = {'vocab_size': n_vocab, 'context_length': c['ctx'], 'embedding_length': c['n_embd'],
           'block_count': c['n_layer'], 'feed_forward_length': c['n_ff'], 'attention.head_count': c['n_head'],
           'attention.head_count_kv': c['n_kv'], 'attention.key_length': c['head_dim'],
           'attention.value_length': c['v_dim'] or c['head_dim'], 'attention.layer_norm_rms_epsilon': c['eps'],
           'rope.freq_base': c['theta'], 'rope.dimension_count': c['n_rot'] or c['head_dim'], **c['keys']}
    n_expert, n_used, n_ff_expert = c['moe'] or (0, 0, 0)
    if c['moe']:
        own |= {'expert_count': n_expert, 'expert_used_count': n_used, 'expert_feed_forward_length': n_ff_expert}
    if c['n_ff_shared']:
        own['expert_shared_feed_forward_length'] = c['n_ff_shared']
    keys = [('general.architecture', STRING, arch), ('general.name', STRING, f'random weights {seed}'),
            ('general.file_type', U32, 1)]
    keys += [(f'{arch}.{name}', kind_of(v), v) for name, v in own.items()] + vocab

    def sizes_of(layer):
        at = lambda v: v[layer] if isinstance(v, list) else v
        n_head, n_kv, k_dim, v_dim = at(c['n_head']), at(c['n_kv']), at(c['head_dim']), at(c['v_dim'] or c['head_dim'])
        sizes = {'V': n_vocab, 'd': c['n_embd'], 'f': at(c['n_ff']), 'h': k_dim, 'H': n_head, 'E': n_expert,
                 'e': at(n_ff_expert), 's': c['n_ff_shared'], 'q': n_head * k_dim, 'k': n_kv * k_dim, 'v': n_kv * v_dim,
                 'o': n_head * v_dim}
        return sizes | {'2f': 2 * sizes['f'], 'q+2k': sizes['q'] + 2 * sizes['k']}

    rng = np.random.default_rng(seed)
    tensors = []

    def add(prefix, description, sizes):
        for word in description.split():
            name, letters = word.lstrip('!').split(':')
            shape = tuple(sizes[letter] for letter in letters.split(','))
            g = np.random.default_rng(int(rng.integers(1 << 62)))      # a generator of its own for each tensor
            if len(shape) == 1 or name.endswith('.bias'):
                mean = 0 if name.endswith('.bias') or name == 'attn_sinks.weight' else 1
                deviation = 1.0 if name == 'attn_sinks.weight' else 0.1
                w = (mean + deviation * g.standard_normal(shape)).astype('<f4')
            else:
                if name == 'token_embd.weight':
                    scale = 0.05 if c['tied'] else 0.7
                else:
                    scale = (2.0 if name in ('output.weight', 'ffn_gate_inp.weight') else 1.0) / np.sqrt(shape[-1])
                w = draw(g, shape) * np.float32(scale)
                w = w.astype('<f4' if word.startswith('!') else '<f2')
            tensors.append((prefix + name, w))

    add('', 'token_embd.weight:V,d ' + ('' if c['tied'] else 'output.weight:V,d ') + 'output_norm.weight:d',
        sizes_of(0))
    if c['rope_factors']:
        tensors.append(('rope_freqs.weight', llama3_rope_factors(c['head_dim'], c['theta'])))
    for i in range(c['n_layer']):
        add(f'blk.{i}.', c['layer'][i] if isinstance(c['layer'], list) else c['layer'], sizes_of(i))
    return keys, tensors


def make_random_models(folder):
    for name, spec in MODELS.items():
        made = gguf(*random_model(spec))
        if (found := hashlib.sha256(made).hexdigest()) != SHA256[name]:
            sys.exit(f'{name}.gguf: expected the SHA-256 {SHA256[name]}, found {found}: numpy {np.__version__} draws other '
                     'random numbers than the versions known to work (1.24)')
        (folder / f'{name}.gguf').write_bytes(made)


def make_layer_models(folder):
    for name, spec in LAYER_MODELS.items():
        keys, tensors = random_model(spec)
        (folder / f'{name}.gguf').write_bytes(gguf(keys, tensors))
        exact = {tensor: w.astype(np.float64) for tensor, w in tensors}
        logits = reference.logits_of({key: v for key, _, v in keys}, exact, len(reference.TOKENS))
        reference.write_logits(folder / f'{name}.logits', logits)


# Models of some hundred MiB ----------------------------------------------------------------------------------------

LARGE = {
    'qwen3-0.6b': dict(arch='qwen3', n_layer=28, n_embd=1024, n_ff=3072, n_head=16, n_kv=8, head_dim=128, theta=1e6,
                       ctx=40960, tied=True, layer=MODELS['qwen3']['layer']),
    'qwen3moe-1b': dict(arch='qwen3moe', n_layer=16, n_embd=1024, n_ff=3072, n_head=16, n_kv=4, head_dim=64, theta=1e6,
                        ctx=40960, moe=(32, 4, 768), layer=MODELS['qwen3moe']['layer']),
}


def repeated(g, shape):
    """A matrix that repeats a few random values, which takes little time."""
    return np.resize(g.standard_normal(100003, dtype=np.float32), shape)


def make_large(name, n_vocab, path):
    with open(path, 'wb') as f:
        for part in gguf_parts(*random_model(LARGE[name], n_vocab=n_vocab, draw=repeated)):
            f.write(part)


# The trained model -------------------------------------------------------------------------------------------------

HF_NAMES = {'token_embd': 'model.embed_tokens', 'output_norm': 'model.norm', 'attn_norm': 'input_layernorm',
            'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj',
            'attn_output': 'self_attn.o_proj', 'ffn_norm': 'post_attention_layernorm', 'ffn_gate': 'mlp.gate_proj',
            'ffn_up': 'mlp.up_proj', 'ffn_down': 'mlp.down_proj'}


def make_tiny(folder):
    """models/tessera-tiny.gguf with other types: as F16 GGUF and as a Hugging Face folder in F32."""
    keys, tensors = read_gguf(ROOT / 'models/tessera-tiny.gguf')
    keys = [(name, kind, 1 if name == 'general.file_type' else v) for name, kind, v in keys
            if name != 'general.quantization_version']
    half = [(name, w.astype('<f2') if w.ndim == 2 else w) for name, w in tensors.items()]
    folder.mkdir(exist_ok=True)
    (folder / 'tiny-f16.gguf').write_bytes(gguf(keys, half))

    hf = folder / 'hf'
    hf.mkdir(exist_ok=True)
    for name in ('config.json', 'tokenizer.model', 'chat_template.jinja'):
        shutil.copyfile(ROOT / 'tests/data/tiny' / name, hf / name)
    config = json.loads((hf / 'config.json').read_text())
    heads = {'attn_q': config['num_attention_heads'], 'attn_k': config['num_key_value_heads']}
    header, data, offset = {}, [], 0
    for name, w in half:
        w = w.astype('<f4')
        parts = name.split('.')
        if parts[-2] in heads:
            # rope rotates adjacent pairs in GGUF, and pairs half a head apart in Hugging Face.
            w = w.reshape(heads[parts[-2]], -1, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
        layer = f'model.layers.{parts[1]}.' if parts[0] == 'blk' else ''
        raw = np.ascontiguousarray(w).tobytes()
        header[layer + HF_NAMES[parts[-2]] + '.weight'] = {'dtype': 'F32', 'shape': list(w.shape),
                                                          'data_offsets': [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    head = json.dumps(header).encode()
    (hf / 'model.safetensors').write_bytes(struct.pack('<Q', len(head)) + head + b''.join(data))


# Malformed files ---------------------------------------------------------------------------------------------------

def small_llama(sizes={}, extra=(), n_kv_rows=16):
    """(keys, tensors) of a model of one layer; sizes and extra hold the malformed values."""
    n = {'context_length': 64, 'embedding_length': 32, 'feed_forward_length': 64, 'block_count': 1,
         'attention.head_count': 2, 'attention.head_count_kv': 1, **sizes}
    pieces = ['<unk>', '<s>', '</s>'] + [f'<0x{i:02X}>' for i in range(256)] + [f't{i}' for i in range(61)]
    keys = [('general.architecture', STRING, 'llama')] + [(f'llama.{name}', U32, v) for name, v in n.items()]
    keys += [('llama.attention.layer_norm_rms_epsilon', F32, 1e-5), ('tokenizer.ggml.model', STRING, 'llama'),
             ('tokenizer.ggml.tokens', (ARRAY, STRING), pieces),
             ('tokenizer.ggml.scores', (ARRAY, F32), [0.0] * len(pieces)),
             ('tokenizer.ggml.token_type', (ARRAY, I32), [2, 3, 3] + [6] * 256 + [1] * 61)]
    shapes = {'token_embd': (len(pieces), 32), 'output_norm': (32,), 'blk.0.attn_norm': (32,), 'blk.0.attn_q': (32, 32),
              'blk.0.attn_k': (n_kv_rows, 32), 'blk.0.attn_v': (n_kv_rows, 32), 'blk.0.attn_output': (32, 32),
              'blk.0.ffn_norm': (32,), 'blk.0.ffn_gate': (64, 32), 'blk.0.ffn_up': (64, 32), 'blk.0.ffn_down': (32, 64)}
    return keys + list(extra), [(f'{name}.weight', np.full(shape, 0.01, '<f4')) for name, shape in shapes.items()]


def make_bad(folder):
    folder.mkdir(exist_ok=True)
    put = lambda name, raw: (folder / f'{name}.gguf').write_bytes(raw)
    arch = text('general.architecture') + value(STRING, 'llama')

    def one_tensor(*shape):
        """A file of one F32 tensor, dimensions innermost first, with 64 bytes of data whatever its size."""
        info = text('token_embd.weight') + struct.pack(f'<I{len(shape)}Q', len(shape), *shape)
        head = struct.pack('<4sIQQ', b'GGUF', 3, 1, 1) + arch + info + struct.pack('<IQ', TENSOR_F32, 0)
        return padded(head) + b'\0' * 64

    put('zerodim', one_tensor(32, 0))
    put('trunc', one_tensor(32, 1000000))
    put('alignstr', gguf([('general.architecture', STRING, 'llama'), ('general.alignment', STRING, 'x')], []))
    put('keys80000', gguf([('general.architecture', STRING, 'llama')] +
                          [(f'k{i:07}', U32, i) for i in range(80000)], []))
    put('ok', gguf(*small_llama()))
    put('hkv0', gguf(*small_llama({'attention.head_count_kv': 0})))
    put('hkv3', gguf(*small_llama({'attention.head_count_kv': 3}, n_kv_rows=48)))
    put('hc0', gguf(*small_llama({'attention.head_count': 0})))
    put('blkhuge', gguf(*small_llama({'block_count': 4000000000})))
    put('ctx0', gguf(*small_llama({'context_length': 0})))
    put('bosoob', gguf(*small_llama(extra=[('tokenizer.ggml.bos_token_id', U32, 999999)])))
    put('eosneg', gguf(*small_llama(extra=[('tokenizer.ggml.eos_token_id', U32, 0xffffffff)])))
    put('ropezero', gguf(*small_llama(extra=[('llama.rope.dimension_count', U32, 0)])))
    put('dupbig', gguf(*small_llama(extra=[('llama.expert_count', U32, 8), ('llama.expert_used_count', U32, 99)])))
    keys, tensors = small_llama()
    put('noscores', gguf([key for key in keys if not key[0].endswith('scores')], tensors))


def main():
    if len(sys.argv) == 5 and sys.argv[1] == 'large':
        return make_large(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    if len(sys.argv) != 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_random_models(folder)
    make_layer_models(folder)
    make_tiny(folder / 'tiny')
    make_bad(folder / 'bad')


if __name__ == '__main__':
    main()
