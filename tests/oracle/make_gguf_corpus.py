#!/usr/bin/env python3
"""Make tests/fuzz/corpus/gguf_fuzz/: seeds for the GGUF fuzzer, from the goldens and broken on purpose.

Run from the repository root after make_gguf_goldens.py. The broken seeds change one field each.
"""

import pathlib
import shutil
import struct

GOLDENS = pathlib.Path("tests/golden/gguf")
OUT = pathlib.Path("tests/fuzz/corpus/gguf_fuzz")


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def pair(key: bytes, kind: int, payload: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + payload


def tensor(name: bytes, dims, kind: int, offset: int) -> bytes:
    return text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}QIQ", *dims, kind, offset)


def model(pairs=(), tensors=(), data=64, version=3, alignment=32) -> bytes:
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return out + bytes(-len(out) % alignment) + bytes(range(256))[:data]


SEEDS = {
    "empty": model(data=0),
    "big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "vector": model(tensors=[tensor(b"t", [8], 0, 0)]),
    "overlap": model(tensors=[tensor(b"a", [8], 0, 0), tensor(b"b", [12], 0, 0)]),
    "reversed": model(tensors=[tensor(b"a", [8], 0, 32), tensor(b"b", [8], 0, 0)]),
    "four_dims": model(tensors=[tensor(b"t", [4, 2, 1, 2], 0, 0)]),
    "huge_dims": model(tensors=[tensor(b"t", [2**32 - 32, 2**31, 2], 2, 0)]),
    "huge_offset": model(tensors=[tensor(b"t", [8], 0, 2**64 - 32)]),
    "alignment": model([pair(b"general.alignment", 4, struct.pack("<I", 8))], [tensor(b"t", [2], 0, 8)],
                       alignment=8),
    "nested": model([pair(b"deep", 9, struct.pack("<IQIQ", 9, 1, 9, 1))]),
    "strings": model([pair(b"texts", 9, struct.pack("<IQ", 8, 3) + text(b"a") + text(b"") + text(b"bc"))]),
    "bools": model([pair(b"flags", 9, struct.pack("<IQ", 7, 3) + b"\1\0\1"), pair(b"flag", 7, b"\1")]),
    "split": model([pair(b"split.no", 2, b"\1\0"), pair(b"split.count", 2, b"\2\0"),
                    pair(b"split.tensors.count", 5, struct.pack("<i", 2))]),
    "split_one": model([pair(b"split.count", 2, b"\1\0"), pair(b"split.tensors.count", 5, struct.pack("<i", 0))]),
    "duplicate": model([pair(b"k", 0, b"\1"), pair(b"k", 0, b"\1")]),
}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for path in GOLDENS.glob("*.gguf"):
        shutil.copy(path, OUT / path.stem)
    for name, data in SEEDS.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
