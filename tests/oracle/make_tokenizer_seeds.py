#!/usr/bin/env python3
"""Seed inputs of the tokenizer fuzz targets (format: tests/fuzz/tokenizer_input.h)."""
import pathlib

ROOT = pathlib.Path(__file__).parents[2] / "tests/fuzz/corpus"
TEXTS = ["the quick brown fox's 123 tests", "  \n\n\r\n\t x", "a<s>b</s> <h1> c", "日本語 한국어 🙂\u0301 é", "\xff\xfe raw \xf0\x9f"]


def record(kind, text):
    raw = text.encode()
    return bytes([kind, len(raw)]) + raw


def write(target, name, data):
    folder = ROOT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


for i, text in enumerate(TEXTS):
    tail = b"\0" + (text.encode("latin1") if i == 4 else text.encode())
    special = record(3, "<s>") + record(3, "</s>") + record(4, "<h1>") + record(4, "  ") + bytes([192, 0])
    ids = b"\xc4\x00\xc9\x01"
    for pre in (0, 1, 9, 12, 25, 35, 53, 54, 62, 70, 71):
        merges = b"".join(record(129, m) for m in ("t h", "th e", "Ġ the", "Ġ Ġ", "1 2"))
        write("tokenizer_bpe_fuzz", "seed_%d_%d" % (i, pre), bytes([18, pre]) + special + ids + merges + tail)
    for flags in (16, 17, 20, 24, 82):
        tokens = b"".join(record(9 + 8 * k, t) for k, t in enumerate(["▁", "t", "h", "e", "th", "the", "▁t", "▁the", "▁▁"]))
        write("tokenizer_spm_fuzz", "seed_%d_%d" % (i, flags), bytes([flags, 0]) + special + ids + tokens + tail)
