#!/usr/bin/env python3
"""Make tests/golden/quant/: what the gguf package decodes and encodes, and llama.cpp's errors.

decode_<TYPE>.bin   blocks of bytes, then the f32 values that gguf.quants.dequantize gives
encode_input.bin    f32: four sets of 1024 (gaussian, uniform, heavy, offset), then 1024 specials
encode_<TYPE>.bin   the bytes of gguf.quants.quantize for that input, where the package can
llama_errors.txt    per type and set: relative RMS error of ggml_quantize_chunk (no importance
                    matrix), the measure for the types that gguf.quants cannot encode

Needs numpy, gguf and llama-cpp-python. Run from the repository root; fixed seeds.
"""

import ctypes
import pathlib

import gguf
import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

OUT = pathlib.Path("tests/golden/quant")
TYPES = ("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4").split()
SEARCHED = "Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
SETS = ["gaussian", "uniform", "heavy", "offset"]
# Where the f16 scales of a block lie.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
# 0, -0, the smallest and largest subnormal, the smallest normal, 1, -1, the largest, and its negative
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def distinct_codes(name, blocks):
    """How many different weights the blocks show in units of their scales: all must occur."""
    full = {"Q4_0": 16, "Q4_1": 16, "Q5_0": 32, "Q5_1": 32, "Q8_0": 256, "MXFP4": 15, "IQ4_NL": 16}
    if name not in full:
        return
    unit = blocks.copy()
    for at in SCALES.get(name, []):
        unit[:, at:at + 2] = np.array([0x3C00 if at == 0 else 0], "<u2").view(np.uint8)
    if name == "MXFP4":
        unit[:, 0] = 127
    seen = np.unique(quants.dequantize(unit, GGMLQuantizationType[name]))
    assert len(seen) == full[name], (name, len(seen))


def decode_blocks(name, rng):
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    if block == 1:
        values = rng.integers(0, 256, (2048, size), dtype=np.uint8)
        if name == "F16":
            values[:len(EXTREME)] = np.array(EXTREME, "<u2").view(np.uint8).reshape(-1, 2)
        decoded = quants.dequantize(values.reshape(1, -1), GGMLQuantizationType[name])[0]
        return values[np.isfinite(decoded)]  # NaN payloads are not part of the promise
    blocks = rng.integers(0, 256, (6 if block == 256 else 48, size), dtype=np.uint8)
    for at in SCALES.get(name, []):
        scales = rng.normal(0, 0.05, len(blocks)).astype(np.float16).view(np.uint16)
        extremes = EXTREME if block == 32 else [0x8001, 0x7BFF, 0xBC00]
        scales[:len(extremes)] = np.roll(extremes, at // 2)
        blocks[:, at:at + 2] = scales.astype("<u2").view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(90, 160, len(blocks))
        blocks[:5, 0] = [0, 1, 2, 252, 127]
    distinct_codes(name, blocks)
    return blocks


def encode_input(rng):
    sets = {
        "gaussian": rng.normal(0, 0.02, 1024),
        "uniform": rng.uniform(-1, 1, 1024),
        "heavy": 0.05 * rng.standard_t(3, 1024),
        "offset": rng.normal(0.3, 0.1, 1024),
    }
    special = rng.normal(0, 1, (32, 32))
    special[0] = 0
    special[1] = -0.0
    special[2] = 0.7
    special[3] = -3
    special[4] = 0
    special[4, 17] = -5  # a spike
    special[5] = np.arange(32)
    special[6] = (np.arange(32) - 16) / 2  # ties
    special[7] = np.where(np.arange(32) % 2, 1, -1)  # two extremes of one size
    special[8] *= 1e-6
    special[9] *= 1e4
    special[10] = np.abs(special[10])
    special[11] = -np.abs(special[11])
    special[12] *= 3e-8  # scales that round to f16's smallest steps
    special[13, 1:] = 1e-3 * special[13, 1:]
    special[14] = 2.0 ** np.arange(-16, 16)
    special[15] = np.nextafter(np.float32(0.5), np.float32(0))
    return sets, np.concatenate([*(sets[s] for s in SETS), special.ravel()]).astype(np.float32)


def llama_errors(sets):
    package = pathlib.Path(llama_cpp.__file__).parent
    ggml = ctypes.CDLL(str(package / "lib" / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [
        ctypes.c_int64] * 3 + [ctypes.c_void_p]
    for name in SEARCHED:
        qtype = GGMLQuantizationType[name]
        for set_name in SETS:
            x = sets[set_name].astype(np.float32)
            block, size = GGML_QUANT_SIZES[qtype]
            out = np.zeros(len(x) // block * size, np.uint8)
            written = ggml.ggml_quantize_chunk(int(qtype), x.ctypes.data, out.ctypes.data, 0, 1,
                                               len(x), None)
            assert written == len(out)
            rest = quants.dequantize(out, qtype).astype(np.float64) - x
            yield name, set_name, np.sqrt(np.mean(rest**2) / np.mean(x.astype(np.float64)**2))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(TYPES):
        blocks = decode_blocks(name, np.random.default_rng(1000 + number))
        values = quants.dequantize(blocks.reshape(1, -1), GGMLQuantizationType[name])
        assert np.isfinite(values).all(), name
        (OUT / f"decode_{name}.bin").write_bytes(blocks.tobytes() + values.astype("<f4").tobytes())
    sets, x = encode_input(np.random.default_rng(7))
    (OUT / "encode_input.bin").write_bytes(x.astype("<f4").tobytes())
    for name in TYPES:
        if name not in SEARCHED and name != "F32":
            encoded = quants.quantize(x.reshape(1, -1), GGMLQuantizationType[name])
            (OUT / f"encode_{name}.bin").write_bytes(encoded.tobytes())
    lines = [f"{name} {s} {error:.6f}\n" for name, s, error in llama_errors(sets)]
    (OUT / "llama_errors.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
