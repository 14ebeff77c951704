"""The two real models as mlx-lm runs them: f32 on the CPU, weights dequantised by `gguf`.

An oracle that shares nothing with Gyre: another reader of the file, another dequantiser, another
set of operators. Used by make_logit_goldens.py and, where mlx is installed, by compare.py.
"""

import importlib.util
import os
import sys
import types

os.environ.setdefault("MLX_ENABLE_TF32", "0")

import mlx.core as mx
import numpy as np
from gguf_weights import GgufFile


def import_mlx_model(name):
    """mlx_lm.models.<name> without mlx_lm's own __init__, which needs `transformers`."""
    if "mlx_lm" not in sys.modules:
        package = types.ModuleType("mlx_lm")
        package.__path__ = list(importlib.util.find_spec("mlx_lm").submodule_search_locations)
        sys.modules["mlx_lm"] = package
    return importlib.import_module(f"mlx_lm.models.{name}")


# GGUF name of a tensor inside a block -> mlx name, for both architectures.
COMMON = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
}
LLAMA = COMMON | {"ffn_norm": "post_attention_layernorm"}
GEMMA3 = COMMON | {
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def interleaved_to_halves(weight, heads):
    """GGUF llama files store q and k rows so that rope turns neighbours (2i, 2i+1);
    mlx turns (i, i + half). Undoes that order."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def load_llama(file):
    module = import_mlx_model("llama")
    heads, kv_heads = file.hyper("attention.head_count"), file.hyper("attention.head_count_kv")
    args = module.ModelArgs(
        model_type="llama",
        hidden_size=file.hyper("embedding_length"),
        num_hidden_layers=file.hyper("block_count"),
        intermediate_size=file.hyper("feed_forward_length"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        rms_norm_eps=file.hyper("attention.layer_norm_rms_epsilon"),
        vocab_size=len(file.value("tokenizer.ggml.tokens")),
        rope_theta=file.hyper("rope.freq_base"),
        tie_word_embeddings="output.weight" not in file.tensors,
    )
    reorder = {"attn_q": heads, "attn_k": kv_heads}
    return module.Model(args), LLAMA, lambda part, w: (
        interleaved_to_halves(w, reorder[part]) if part in reorder else w
    )


def load_gemma3(file):
    module = import_mlx_model("gemma3_text")
    args = module.ModelArgs(
        model_type="gemma3_text",
        hidden_size=file.hyper("embedding_length"),
        num_hidden_layers=file.hyper("block_count"),
        intermediate_size=file.hyper("feed_forward_length"),
        num_attention_heads=file.hyper("attention.head_count"),
        num_key_value_heads=file.hyper("attention.head_count_kv"),
        head_dim=file.hyper("attention.key_length"),
        rms_norm_eps=file.hyper("attention.layer_norm_rms_epsilon"),
        vocab_size=len(file.value("tokenizer.ggml.tokens")),
        rope_theta=file.hyper("rope.freq_base"),
        query_pre_attn_scalar=file.hyper("attention.key_length"),
        sliding_window=file.hyper("attention.sliding_window"),
    )
    model = module.Model(args)
    model.tie_word_embeddings = True
    model.pop("lm_head")
    # The file holds 1 + w, what the norm multiplies with; mlx adds the 1 itself.
    return model, GEMMA3, lambda part, w: w - np.float32(1) if part.endswith("norm") else w


class Reference:
    """logits(ids) of one model file."""

    def __init__(self, path):
        mx.set_default_device(mx.cpu)
        self.file = GgufFile(path)
        loaders = {"llama": load_llama, "gemma3": load_gemma3}
        self.model, names, convert = loaders[self.file.arch](self.file)
        unused = set(self.file.tensors)
        weights = []

        def take(gguf_name, mlx_name, part):
            unused.discard(gguf_name)
            weights.append((mlx_name, mx.array(convert(part, self.file.weight(gguf_name)))))

        take("token_embd.weight", "model.embed_tokens.weight", "token_embd")
        take("output_norm.weight", "model.norm.weight", "output_norm")
        if "output.weight" in self.file.tensors:
            take("output.weight", "lm_head.weight", "output")
        for layer in range(self.file.hyper("block_count")):
            for part, name in names.items():
                take(f"blk.{layer}.{part}.weight", f"model.layers.{layer}.{name}.weight", part)
        if unused:
            raise ValueError(f"unused tensors: {sorted(unused)}")
        self.model.load_weights(weights, strict=True)

    def logit_rows(self, ids, chunk=64):
        """Yields f32 arrays [rows][vocabulary], in order of position. The layers are mlx's; the
        output head, one plain product, is numpy's (mlx needs minutes for it on a CPU)."""
        hidden = self.model.model(mx.array([ids]))
        hidden = np.array(hidden[0])
        head = self.model.model.embed_tokens if "lm_head" not in self.model else self.model.lm_head
        head = np.array(head.weight).T
        for begin in range(0, len(ids), chunk):
            yield hidden[begin : begin + chunk] @ head
