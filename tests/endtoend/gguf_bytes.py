"""Reads and writes GGUF files byte by byte, also wrong ones; and makes a tiny Llama model.

Independent of gyre's own reader. Values carry their GGUF type, so that a test can state a wrong one.
"""

import dataclasses
import random
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?",
        U64: "<Q", I64: "<q", F64: "<d"}
TYPE_F32, TYPE_F16, TYPE_Q4_0, TYPE_Q8_0 = 0, 1, 2, 8


@dataclasses.dataclass
class Tensor:
    name: str
    dims: list  # innermost first, as in the file
    type: int
    data: bytes
    offset: int = None  # None: placed behind the one before


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        element, items = content
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack(PACK[kind], content)


def write(metadata, tensors, version=3, alignment=32, magic=b"GGUF", tensor_count=None, key_count=None):
    """metadata: {key: (type, content)} or a list of such pairs. Returns the file's bytes."""
    pairs = list(metadata.items() if isinstance(metadata, dict) else metadata)
    head = magic + struct.pack("<IQQ", version, len(tensors) if tensor_count is None else tensor_count,
                               len(pairs) if key_count is None else key_count)
    for key, (kind, content) in pairs:
        head += string(key) + struct.pack("<I", kind) + value(kind, content)
    body = b""
    for tensor in tensors:
        offset = len(body) if tensor.offset is None else tensor.offset
        head += string(tensor.name) + struct.pack("<I", len(tensor.dims))
        head += b"".join(struct.pack("<Q", d) for d in tensor.dims) + struct.pack("<IQ", tensor.type, offset)
        body += tensor.data + b"\0" * (-len(tensor.data) % alignment)
    return head + b"\0" * (-len(head) % alignment) + body


class TinyLlama:
    """A whole Llama model of a few kilobytes with random weights; every part can be replaced."""

    dim, layers, heads, kv_heads, ffn, context = 64, 2, 4, 2, 96, 128

    def __init__(self, seed=1):
        self.random = random.Random(seed)
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
        tokens += ["\u2581", "a", "b", "ab", "\u2581a", "\u2581ab"]
        kinds = [2, 3, 3] + [6] * 256 + [1] * 6
        self.metadata = {
            "general.architecture": (STRING, "llama"),
            "llama.block_count": (U32, self.layers),
            "llama.context_length": (U32, self.context),
            "llama.embedding_length": (U32, self.dim),
            "llama.feed_forward_length": (U32, self.ffn),
            "llama.attention.head_count": (U32, self.heads),
            "llama.attention.head_count_kv": (U32, self.kv_heads),
            "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
            "llama.rope.dimension_count": (U32, self.dim // self.heads),
            "llama.rope.freq_base": (F32, 10000.0),
            "tokenizer.ggml.model": (STRING, "llama"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
            "tokenizer.ggml.scores": (ARRAY, (F32, [-float(i) for i in range(len(tokens))])),
            "tokenizer.ggml.token_type": (ARRAY, (I32, kinds)),
            "tokenizer.ggml.bos_token_id": (U32, 1),
            "tokenizer.ggml.eos_token_id": (U32, 2),
        }
        self.vocabulary = len(tokens)
        head_dim = self.dim // self.heads
        self.tensors = [self.matrix("token_embd.weight", self.vocabulary, self.dim)]
        for i in range(self.layers):
            block = f"blk.{i}."
            self.tensors += [
                self.ones(block + "attn_norm.weight"),
                self.matrix(block + "attn_q.weight", self.dim, self.dim),
                self.matrix(block + "attn_k.weight", self.kv_heads * head_dim, self.dim),
                self.matrix(block + "attn_v.weight", self.kv_heads * head_dim, self.dim),
                self.matrix(block + "attn_output.weight", self.dim, self.dim),
                self.ones(block + "ffn_norm.weight"),
                self.matrix(block + "ffn_gate.weight", self.ffn, self.dim),
                self.matrix(block + "ffn_up.weight", self.ffn, self.dim),
                self.matrix(block + "ffn_down.weight", self.dim, self.ffn),
            ]
        self.tensors.append(self.ones("output_norm.weight"))
        self.tensors.append(self.matrix("output.weight", self.vocabulary, self.dim))

    def matrix(self, name, rows, cols):
        """Q8_0: blocks of 32, an f16 scale before each."""
        data = b"".join(struct.pack("<e32b", 0.01, *(self.random.randint(-100, 100) for _ in range(32)))
                        for _ in range(rows * cols // 32))
        return Tensor(name, [cols, rows], TYPE_Q8_0, data)

    def ones(self, name):
        return Tensor(name, [self.dim], TYPE_F32, struct.pack("<f", 1.0) * self.dim)

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def without(self, name):
        self.tensors = [t for t in self.tensors if t.name != name]
        return self

    def bytes(self, **options):
        return write(self.metadata, self.tensors, **options)
