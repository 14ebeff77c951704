"""The two real models in plain numpy, float64 by default: what exact arithmetic would give.

Written from the architectures' description, not from mlx-lm; make_logit_goldens.py uses the
difference between the two to bound the noise of any f32 implementation.
"""

import numpy as np
from gguf_weights import GgufFile


def rounded_to_bf16(value):
    bits = int(np.float32(value).view(np.uint32))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def rope(x, base, neighbours):
    """x [position][head][dim]; pairs are (2i, 2i+1) or (i, i + dim/2)."""
    dim = x.shape[-1]
    angle = np.arange(x.shape[0])[:, None] * base ** (-np.arange(0, dim, 2) / dim)[None, :]
    c, s = np.cos(angle)[:, None, :].astype(x.dtype), np.sin(angle)[:, None, :].astype(x.dtype)
    first, second = (x[..., 0::2], x[..., 1::2]) if neighbours else np.split(x, 2, axis=-1)
    turned = first * c - second * s, first * s + second * c
    return np.stack(turned, -1).reshape(x.shape) if neighbours else np.concatenate(turned, -1)


def attention(q, k, v, scale, window):
    """Causal; a query at t sees keys t - window + 1 … t."""
    n, heads, _ = q.shape
    t = np.arange(n)
    visible = (t[None, :] <= t[:, None]) & (t[None, :] > t[:, None] - window)
    out = np.empty_like(q)
    for head in range(heads):
        kv = head * k.shape[1] // heads
        scores = np.where(visible, (q[:, head] @ k[:, kv].T) * scale, -np.inf)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, head] = (p / p.sum(axis=1, keepdims=True)) @ v[:, kv]
    return out.reshape(n, -1)


class Reference:
    def __init__(self, path, dtype=np.float64):
        self.file = GgufFile(path)
        self.dtype = dtype
        self.gemma = {"llama": False, "gemma3": True}[self.file.arch]
        self.embedding = self.file.weight("token_embd.weight")

    def weight(self, name):
        return self.file.weight(name).astype(self.dtype)

    def hidden(self, ids):
        hyper, n = self.file.hyper, len(ids)
        width, eps = hyper("embedding_length"), hyper("attention.layer_norm_rms_epsilon")
        heads, kv_heads = hyper("attention.head_count"), hyper("attention.head_count_kv")
        dim = hyper("attention.key_length", width // heads)
        act = gelu_tanh if self.gemma else silu
        x = self.embedding[ids].astype(self.dtype)
        if self.gemma:
            x = x * rounded_to_bf16(width**0.5)  # as the model was trained
        for layer in range(hyper("block_count")):
            full = not self.gemma or layer % 6 == 5
            base = hyper("rope.freq_base") if full else 10000.0
            window = n if full else hyper("attention.sliding_window")

            def w(part):
                return self.weight(f"blk.{layer}.{part}.weight")

            h = rms_norm(x, w("attn_norm"), eps)
            q = (h @ w("attn_q").T).reshape(n, heads, dim)
            k = (h @ w("attn_k").T).reshape(n, kv_heads, dim)
            v = (h @ w("attn_v").T).reshape(n, kv_heads, dim)
            if self.gemma:
                q, k = rms_norm(q, w("attn_q_norm"), eps), rms_norm(k, w("attn_k_norm"), eps)
            q, k = (rope(y, base, neighbours=not self.gemma) for y in (q, k))
            h = attention(q, k, v, dim**-0.5, window) @ w("attn_output").T
            x = x + (rms_norm(h, w("post_attention_norm"), eps) if self.gemma else h)
            h = rms_norm(x, w("ffn_norm"), eps)
            h = (act(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)) @ w("ffn_down").T
            x = x + (rms_norm(h, w("post_ffw_norm"), eps) if self.gemma else h)
        return rms_norm(x, self.weight("output_norm.weight"), eps)

    def logit_rows(self, ids, chunk=128):
        """Yields arrays [rows][vocabulary], in order of position."""
        hidden = self.hidden(ids)
        name = "output.weight" if "output.weight" in self.file.tensors else "token_embd.weight"
        head = self.weight(name).T
        for begin in range(0, len(ids), chunk):
            yield hidden[begin : begin + chunk] @ head
