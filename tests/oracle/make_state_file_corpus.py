"""Writes the seed inputs of tests/fuzz/state_file_fuzz.cc, from the byte picture in docs/formats/state_file.md.

Byte 0 asks the target to make sizes and checksums right (it has the hash, this script does not), so a
seed states only what it is about.
"""

import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "fuzz/corpus/state_file_fuzz"
FIX, FIX_PARTS, TWO_LAYERS = 1, 2, 4
ONE = "kv:start0:1*full/1x4+2/bf16+bf16"
TWO = ONE + ":1*sliding3/1x4+2/f32+f32"


def padded(data, to):
    return data + bytes(-len(data) % to)


def state(tokens, length, parts, signature=ONE, start=0, contract=1, version=1, order=0x01020304, note="",
          counts=None):
    """parts: (layer, kind, index, bytes). counts: (tokens, parts) as the head states them."""
    texts = [text.encode() for text in ("model", "bf16|key", signature, note)]
    counts = counts or (len(tokens), len(parts))
    head = b"GYRESTAT" + struct.pack("<IIQQQ", order, version, 0, 0, 0)
    head += struct.pack("<6I", contract, length, start, counts[0], counts[1], 64)
    head += struct.pack("<4I", *map(len, texts)) + bytes(48) + b"".join(texts)
    head = padded(padded(head, 8) + struct.pack(f"<{len(tokens)}i", *tokens), 8)
    for layer, kind, index, data in parts:
        head += struct.pack("<IIIIQQ", layer, kind, index, 0, len(data), 0)
    return padded(head, 64) + b"".join(padded(data, 64) for _, _, _, data in parts)


def page(positions, size):
    """A bf16 page of one head: any bytes will do, zero behind the positions is not needed to load."""
    return bytes(i * 7 % 251 for i in range(size)) if positions else bytes(size)


def main():
    bf16, f32 = 64 * (4 + 2) * 2, 64 * (4 + 2) * 4
    one = [(0, 0, 0, page(3, bf16))]
    seeds = {
        "empty": (FIX, state([], 0, [])),
        "three_tokens": (FIX | FIX_PARTS, state([5, 6, 7], 3, one)),
        "three_tokens_unhashed": (FIX, state([5, 6, 7], 3, one)),
        "two_pages": (FIX | FIX_PARTS, state(list(range(70)), 70, [(0, 0, p, page(1, bf16)) for p in (0, 1)])),
        "two_layers": (FIX | FIX_PARTS | TWO_LAYERS,
                       state(list(range(70)), 66,
                             [(0, 0, 0, page(1, bf16)), (0, 0, 1, page(1, bf16)), (1, 0, 1, page(1, f32))], TWO)),
        "every_kind": (FIX | FIX_PARTS, state([1], 1, [(0, 0, 0, b"a"), (0, 1, 0, b"bc"), (0, 2, 0, b"d" * 64),
                                                       (0, 3, 0, b"e" * 65)], note="seed 7")),
        "no_page": (FIX | FIX_PARTS, state([1, 2], 2, [])),
        "wrong_size": (FIX | FIX_PARTS, state([1, 2], 2, [(0, 0, 0, bytes(100))])),
        "out_of_order": (FIX | FIX_PARTS, state([1] * 70, 70, [(0, 0, 1, page(1, bf16)), (0, 0, 0, page(1, bf16))])),
        "long_context": (FIX | FIX_PARTS, state([1] * 5000, 5000, one)),
        "many_tokens": (FIX, state([1], 1, one, counts=(0xFFFFFFFF, 1))),
        "many_parts": (FIX, state([1], 1, one, counts=(1, 0x7FFFFFFF))),
        "other_contract": (FIX | FIX_PARTS, state([1], 1, one, contract=2)),
        "other_version": (FIX, state([1], 1, one, version=2)),
        "other_order": (FIX, state([1], 1, one, order=0x04030201)),
        "negative_token": (FIX, state([-1], 1, one)),
        "text_with_newline": (FIX, state([1], 1, one, note="a\nb")),
        "started": (FIX | FIX_PARTS, state([1, 2], 2, [(0, 0, 0, page(2, bf16))], start=1)),
        "cut": (0, state([1], 1, one)[:100]),
        "magic": (0, b"GYRESTAT"),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (flags, data) in seeds.items():
        (FOLDER / name).write_bytes(bytes([flags]) + data)
    print(f"{len(seeds)} seeds in {FOLDER.name}")


if __name__ == "__main__":
    main()
