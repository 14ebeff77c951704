"""Broken model files: refused with one line that names the field, the value and the expectation."""

import math
import struct
import unittest

import gguf_bytes as gguf
from gguf_bytes import ARRAY, BOOL, F32, I32, STRING, U8, U32, U64, Tensor, TinyLlama
from harness import FAILURE, SMOLLM2, GyreTest


class TinyModel(GyreTest):
    """The good file first: what is refused below differs from it in one place."""

    def test_is_accepted_and_computes(self):
        path = self.file("tiny.gguf", TinyLlama().bytes())
        out = self.ok_json("score", "-m", path, "--ids", "1,260,261,262,5")
        self.assertEqual(len(out["logprobs"]), 4)
        self.assertNotEqual(out["digest"], self.ok_json("score", "-m", self.file("b.gguf", TinyLlama(2).bytes()),
                                                        "--ids", "1,260,261,262,5")["digest"])

    def test_version_2_is_the_same_model(self):
        ids = "1,260,261"
        self.assertEqual(
            self.ok_json("score", "-m", self.file("v3.gguf", TinyLlama().bytes()), "--ids", ids)["digest"],
            self.ok_json("score", "-m", self.file("v2.gguf", TinyLlama().bytes(version=2)), "--ids", ids)["digest"])


class Bad(GyreTest):
    def refuse(self, pattern, data, name="bad.gguf"):
        done = self.refused(FAILURE, pattern, "score", "-m", self.file(name, data), "--ids", "1,5,6")
        self.assertIn("expected", done.err)
        return done

    def change(self, pattern, change, **options):
        model = TinyLlama()
        change(model)
        return self.refuse(pattern, model.bytes(**options))


class Headers(Bad):
    def test_truncated_anywhere(self):
        data = TinyLlama().bytes()
        header = data.index(b"output.weight") + 40
        cuts = [0, 1, 3, 4, 7, 8, 15, 16, 23, 24, *range(25, header, 397), header, len(data) - 33, len(data) // 2]
        for cut in cuts:
            with self.subTest(cut=cut):
                self.refuse("gyre: ", data[:cut])

    def test_real_model_truncated(self):
        with open(SMOLLM2, "rb") as stream:
            data = stream.read(3_000_000)
        for cut in (1000, 500_000, 1_500_000, 3_000_000):
            with self.subTest(cut=cut):
                self.refuse("gyre: ", data[:cut])

    def test_magic_and_version(self):
        self.refuse("magic|GGUF", TinyLlama().bytes(magic=b"GGML"))
        for version in (0, 1, 4, 99):
            with self.subTest(version=version):
                self.refuse("version", TinyLlama().bytes(version=version))
        self.refuse("byte order", TinyLlama().bytes(version=0x03000000))

    def test_absurd_counts(self):
        for count in (1 << 20, 1 << 40, (1 << 64) - 1):
            with self.subTest(count=count):
                self.refuse("count|tensor|metadata|key", TinyLlama().bytes(tensor_count=count))
                self.refuse("count|tensor|metadata|key", TinyLlama().bytes(key_count=count))

    def test_nested_array_and_unknown_type(self):
        def nested(model):
            model.metadata["extra"] = (ARRAY, (ARRAY, [(U8, [1]), (U8, [2])]))
        self.change("extra", nested)
        data = TinyLlama().bytes()
        place = data.index(b"llama.block_count") + len("llama.block_count")
        self.refuse("llama.block_count|type", data[:place] + struct.pack("<I", 99) + data[place + 4:])

    def test_absurd_string(self):
        data = TinyLlama().bytes()
        for length in (1 << 32, (1 << 63) - 1, (1 << 64) - 1):
            with self.subTest(length=length):
                self.refuse("gyre: ", data[:24] + struct.pack("<Q", length) + data[32:])

    def test_repeated_names(self):
        model = TinyLlama()
        self.refuse("llama.block_count", gguf.write([*model.metadata.items(), ("llama.block_count", (U32, 2))],
                                                    model.tensors))
        self.change("output_norm.weight", lambda m: m.tensors.append(m.ones("output_norm.weight")))

    def test_alignment(self):
        for value in (0, 7, 1 << 31):
            def align(model, value=value):
                model.metadata["general.alignment"] = (U32, value)
            with self.subTest(value=value):
                self.change("alignment", align)


class Tensors(Bad):
    def test_offsets(self):
        for offset in (32, 16, 1, 1 << 40, (1 << 64) - 32):  # overlapping, misaligned, outside, wrapping
            def move(model, offset=offset):
                model.tensors[-1].offset = offset
            with self.subTest(offset=offset):
                self.change("output.weight|overlap|token_embd", move)

    def test_dimensions(self):
        for dims in ([0, 64], [64, 0], [1 << 32, 1 << 32], [(1 << 64) - 1, 2], [63, 265], [64, 264], [64], [64, 265, 1, 1, 1]):
            def reshape(model, dims=dims):
                model.tensor("output.weight").dims = dims
            with self.subTest(dims=dims):
                self.change("output.weight", reshape)

    def test_types(self):
        for kind in (4, 5, 31, 1000, (1 << 32) - 1):
            def retype(model, kind=kind):
                model.tensor("output.weight").type = kind
            with self.subTest(kind=kind):
                self.change("output.weight", retype)

    def test_missing_and_unused(self):
        self.change("blk.1.attn_k.weight", lambda m: m.without("blk.1.attn_k.weight"))
        self.change("blk.0.strange.weight", lambda m: m.tensors.append(m.ones("blk.0.strange.weight")))

    def test_scales_that_are_not_finite(self):
        for scale in (math.nan, math.inf):
            def spoil(model, scale=scale):
                tensor = model.tensor("blk.1.ffn_up.weight")
                tensor.data = tensor.data[:34] + struct.pack("<e", scale) + tensor.data[36:]
            with self.subTest(scale=scale):
                self.change("blk.1.ffn_up.weight", spoil)

    def test_norms_that_are_not_finite(self):
        def spoil(model):
            tensor = model.tensor("blk.0.attn_norm.weight")
            tensor.data = struct.pack("<f", math.nan) + tensor.data[4:]
        self.change("blk.0.attn_norm.weight", spoil)


class HyperParameters(Bad):
    def test_wrong_values(self):
        for key, content in (
                ("general.architecture", (STRING, "gpt-neox")),
                ("general.architecture", (U32, 1)),
                ("llama.block_count", (U32, 0)),
                ("llama.block_count", (U32, 3)),
                ("llama.block_count", (U32, 1 << 31)),
                ("llama.block_count", (STRING, "2")),
                ("llama.embedding_length", (U32, 0)),
                ("llama.embedding_length", (U32, 65)),
                ("llama.embedding_length", (U64, 1 << 40)),
                ("llama.feed_forward_length", (U32, 0)),
                ("llama.feed_forward_length", (U32, 128)),
                ("llama.attention.head_count", (U32, 0)),
                ("llama.attention.head_count", (U32, 5)),
                ("llama.attention.head_count_kv", (U32, 3)),
                ("llama.attention.head_count_kv", (U32, 0)),
                ("llama.context_length", (U32, 0)),
                ("llama.attention.layer_norm_rms_epsilon", (F32, math.nan)),
                ("llama.attention.layer_norm_rms_epsilon", (F32, -1.0)),
                ("llama.attention.layer_norm_rms_epsilon", (BOOL, True)),
                ("llama.rope.freq_base", (F32, 0.0)),
                ("llama.rope.freq_base", (F32, math.inf)),
                ("llama.rope.dimension_count", (U32, 17)),
                ("llama.rope.dimension_count", (U32, 1000)),
                ("llama.rope.scaling.type", (STRING, "spiral"))):
            def set_key(model, key=key, content=content):
                model.metadata[key] = content
            with self.subTest(key=key, content=content):
                self.change(r"gyre: ", set_key)

    def test_missing_keys(self):
        for key in ("general.architecture", "llama.block_count", "llama.embedding_length", "llama.attention.head_count",
                    "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", "tokenizer.ggml.tokens"):
            with self.subTest(key=key):
                self.change(key, lambda m, key=key: m.metadata.pop(key))


class Vocabularies(Bad):
    def test_wrong_vocabularies(self):
        tokens = TinyLlama().metadata["tokenizer.ggml.tokens"][1][1]
        for key, content in (
                ("tokenizer.ggml.model", (STRING, "runes")),
                ("tokenizer.ggml.tokens", (ARRAY, (STRING, []))),
                ("tokenizer.ggml.tokens", (ARRAY, (I32, [1, 2, 3]))),
                ("tokenizer.ggml.tokens", (ARRAY, (STRING, tokens[:-1]))),
                ("tokenizer.ggml.scores", (ARRAY, (F32, [0.0]))),
                ("tokenizer.ggml.scores", (ARRAY, (F32, [math.nan] * len(tokens)))),
                ("tokenizer.ggml.token_type", (ARRAY, (I32, [1]))),
                ("tokenizer.ggml.bos_token_id", (U32, len(tokens))),
                ("tokenizer.ggml.eos_token_id", (U32, (1 << 32) - 1)),
                ("tokenizer.ggml.eos_token_id", (STRING, "2"))):
            def set_key(model, key=key, content=content):
                model.metadata[key] = content
            with self.subTest(key=key, content=str(content)[:60]):
                self.change("gyre: ", set_key)


class Splits(GyreTest):
    def parts(self, change=lambda i, metadata: None):
        """The tiny model in two files; returns the first one's path."""
        model = TinyLlama()
        halves = model.tensors[:7], model.tensors[7:]
        for i, tensors in enumerate(halves):
            metadata = dict(model.metadata) if i == 0 else {}
            metadata |= {"split.no": (gguf.U16, i), "split.count": (gguf.U16, 2),
                         "split.tensors.count": (I32, len(model.tensors))}
            change(i, metadata)
            self.file(f"tiny-0000{i + 1}-of-00002.gguf", gguf.write(metadata, tensors))
        return self.folder / "tiny-00001-of-00002.gguf"

    def test_is_the_same_model(self):
        whole = self.ok_json("score", "-m", self.file("whole.gguf", TinyLlama().bytes()), "--ids", "1,260,261")
        split = self.ok_json("score", "-m", self.parts(), "--ids", "1,260,261")
        self.assertEqual(split["digest"], whole["digest"])

    def test_a_missing_part(self):
        first = self.parts()
        (self.folder / "tiny-00002-of-00002.gguf").unlink()
        self.refused(FAILURE, "tiny-00002-of-00002.gguf", "score", "-m", first, "--ids", "1,2")

    def test_numbers_that_disagree(self):
        for key, content in (("split.no", (gguf.U16, 5)), ("split.count", (gguf.U16, 3)),
                             ("split.tensors.count", (I32, 1))):
            def change(i, metadata, key=key, content=content):
                metadata[key] = content
            with self.subTest(key=key):
                self.refused(FAILURE, "split", "score", "-m", self.parts(change), "--ids", "1,2")


del Bad  # a base class with no cases of its own

if __name__ == "__main__":
    unittest.main()
