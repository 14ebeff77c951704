#!/usr/bin/env python3
"""Make tests/golden/gguf/: tiny GGUF files by the gguf package, and what its reader sees in them.

values.gguf             every metadata type, arrays of every plain type, two tensors, alignment 64
values_v2.gguf          the same file with version 2
dtypes.gguf             one tensor of each format that Gyre reads, with 1 to 4 dimensions
split-0000N-of-00003.gguf   a model in three parts, two tensors in each
*.txt                   the listing of each file (and of the two test models, when models/ has them):
                        `meta KEY TYPE VALUE` and `tensor NAME TYPE SHAPE OFFSET BYTES SUM`

Text values and long arrays are listed as count and FNV-1a hash; SUM weighs the tensor's first and
last 256 bytes. Run from the repository root; fixed seeds. `--check` compares instead of writing.
"""

import pathlib
import shutil
import sys
import tempfile

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

OUT = pathlib.Path("tests/golden/gguf")
MODELS = ["SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"]
TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()
U, I, F = "unsigned", "signed", "float"
KINDS = {GGUFValueType.UINT8: U, GGUFValueType.UINT16: U, GGUFValueType.UINT32: U, GGUFValueType.UINT64: U,
         GGUFValueType.INT8: I, GGUFValueType.INT16: I, GGUFValueType.INT32: I, GGUFValueType.INT64: I,
         GGUFValueType.FLOAT32: F, GGUFValueType.FLOAT64: F, GGUFValueType.BOOL: "bool",
         GGUFValueType.STRING: "string"}
SCALARS = [(GGUFValueType.UINT8, 255), (GGUFValueType.INT8, -128), (GGUFValueType.UINT16, 65535),
           (GGUFValueType.INT16, -32768), (GGUFValueType.UINT32, 4294967295),
           (GGUFValueType.INT32, -2147483648), (GGUFValueType.FLOAT32, 0.1), (GGUFValueType.BOOL, True),
           (GGUFValueType.UINT64, 2**64 - 1), (GGUFValueType.INT64, -2**63), (GGUFValueType.FLOAT64, 0.1)]


def fnv(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def show(kind, item) -> str:
    if kind == "string":
        return f"{len(item)}:{fnv(item)}"
    if kind == F:
        return f"{float(item):.17g}"
    return str(int(item))


def show_field(field) -> str:
    kind = KINDS[field.types[-1]]
    def item(index):
        part = field.parts[index]
        return part.tobytes() if kind == "string" else part[0]
    if field.types[0] != GGUFValueType.ARRAY:
        return f"{kind} {show(kind, item(field.data[0]))}"
    items = [show(kind, item(index)) for index in field.data]
    text = " ".join(items) if len(items) <= 16 else fnv(" ".join(items).encode())
    return f"{kind}[{len(items)}] {text}"


def weigh(data: np.ndarray) -> int:
    data = data.reshape(-1).view(np.uint8)
    sampled = np.concatenate([data[:256], data[-256:]]).astype(np.uint64)
    return int((sampled * np.arange(1, len(sampled) + 1, dtype=np.uint64)).sum())


def listing(paths) -> str:
    lines, seen = [], set()
    for path in paths:
        reader = GGUFReader(path)
        for key, field in reader.fields.items():
            if not key.startswith("GGUF.") and key not in seen:
                seen.add(key)
                lines.append(f"meta {key} {show_field(field)}")
    for number, path in enumerate(paths):
        for tensor in GGUFReader(path).tensors:
            shape = ",".join(str(n) for n in reversed(tensor.shape.tolist()))
            lines.append(f"tensor {tensor.name} {tensor.tensor_type.name} {shape} {number} "
                         f"{tensor.data_offset} {tensor.n_bytes} {weigh(tensor.data)}")
    return "\n".join(lines) + "\n"


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_bytes(writer, name, shape, kind, rng):
    """Bytes of `shape` (outermost first) in the format `kind`."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    raw = rng.integers(0, 256, (*shape[:-1], shape[-1] // block * size), dtype=np.uint8)
    writer.add_tensor(name, raw, raw_dtype=GGMLQuantizationType[kind])


def write_values(path):
    writer = GGUFWriter(path, "tiny")
    writer.add_custom_alignment(64)
    for kind, value in SCALARS:
        writer.add_key_value(f"one.{kind.name.lower()}", value, kind)
    writer.add_string("one.string", "grüße\n\t☃")
    for kind, value in SCALARS:
        value = [value, 0, True] if kind == GGUFValueType.BOOL else [value, 0, 1, 77]
        writer.add_key_value(f"many.{kind.name.lower()}", value, GGUFValueType.ARRAY, kind)
    writer.add_array("many.string", ["", "a", "a string that does not fit into a small buffer", "☃"])
    writer.add_key_value("long.uint8", list(range(100)), GGUFValueType.ARRAY, GGUFValueType.UINT8)
    rng = np.random.default_rng(1)
    add_bytes(writer, "first.weight", (2, 5), "F32", rng)
    add_bytes(writer, "second.weight", (3, 64), "Q8_0", rng)
    finish(writer)


def write_dtypes(path):
    writer = GGUFWriter(path, "tiny")
    rng = np.random.default_rng(2)
    shapes = [(256,), (2, 256), (2, 1, 256), (1, 2, 1, 256)]
    for i, kind in enumerate(TYPES):
        add_bytes(writer, f"t.{kind.lower()}", shapes[i % 4], kind, rng)
    finish(writer)


def write_split(path):
    writer = GGUFWriter(path, "tiny", split_max_tensors=2)
    writer.add_uint32("tiny.block_count", 3)
    rng = np.random.default_rng(3)
    for i in range(3):
        add_bytes(writer, f"blk.{i}.a.weight", (4, 32), "Q4_0", rng)
        add_bytes(writer, f"blk.{i}.b.weight", (7,), "F32", rng)
    finish(writer)


def make(out):
    write_values(out / "values.gguf")
    patched = bytearray((out / "values.gguf").read_bytes())
    patched[4] = 2
    (out / "values_v2.gguf").write_bytes(patched)
    write_dtypes(out / "dtypes.gguf")
    write_split(out / "split.gguf")
    for stem in ["values", "values_v2", "dtypes"]:
        (out / f"{stem}.txt").write_text(listing([out / f"{stem}.gguf"]))
    parts = sorted(out.glob("split-*-of-00003.gguf"))
    assert len(parts) == 3, parts
    (out / "split.txt").write_text(listing(parts))
    for stem in MODELS:
        model = pathlib.Path("models") / f"{stem}.gguf"
        if model.exists():
            (out / f"{stem}.txt").write_text(listing([model]))


def main():
    with tempfile.TemporaryDirectory() as name:
        new = pathlib.Path(name)
        make(new)
        if "--check" in sys.argv:
            bad = [p.name for p in new.iterdir() if (OUT / p.name).read_bytes() != p.read_bytes()]
            sys.exit(f"make_gguf_goldens: {', '.join(bad)}: differ from {OUT}" if bad else 0)
        OUT.mkdir(parents=True, exist_ok=True)
        for path in new.iterdir():
            shutil.copy(path, OUT / path.name)


if __name__ == "__main__":
    main()
