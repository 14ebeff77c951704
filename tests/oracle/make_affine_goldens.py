#!/usr/bin/env python3
"""Goldens for src/kernels/codes/affine: docs/formats/kv.md restated with numpy, and compared with MLX.

Writes rows.bin (bf16 input rows) and affine_<bits>_<group>.bin (the packed rows), all small. With
--mlx it then quantises the same rows and random ones by mx.quantize on the CPU: equal bytes, except
where a group is wholly negative, and there equal to the same rule without the zero in its range.
Usage: make_affine_goldens.py [--mlx] [OUT], default tests/golden/kv
"""
import pathlib
import sys

import numpy as np

f32 = np.float32
DIM, BITS, GROUPS = 256, (2, 3, 4, 5, 6, 8), (32, 64, 128)


def to_bf16(x):
    """float32 -> the bits of the nearest bf16, ties to even; finite input."""
    b = np.asarray(x, f32).view(np.uint32).astype(np.uint64)
    return ((b + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(h):
    return (np.asarray(h).astype(np.uint32) << 16).view(f32)


def operand(x):
    """bf16 operands: what is below 2^-56 becomes +0."""
    h = to_bf16(x)
    h[np.abs(from_bf16(h)) < 2.0 ** -56] = 0
    return h


def code_group(w, bits, with_zero=True):
    n = f32(2 ** bits - 1)
    lo, hi = w.min(), w.max()
    if with_zero:
        hi = max(f32(0), hi)
    s = max(f32((hi - lo) / n), f32(1e-7))
    edge = lo
    if not abs(lo) > abs(hi):
        s, edge = -s, hi
    q0 = np.rint(f32(edge / s))
    bias = f32(0)
    if q0 != 0:
        s, bias = f32(edge / q0), edge
    codes = np.minimum(np.rint((w - bias) / s), n)
    assert codes.min() >= 0
    return codes.astype(np.uint32), s, bias


def pack(codes, bits):
    value = 0
    for i, code in enumerate(codes):
        value |= int(code) << (i * bits)
    return value.to_bytes(len(codes) * bits // 8, "little")


def code_row(w, bits, group, with_zero=True):
    parts = [code_group(g, bits, with_zero) for g in w.reshape(-1, group)]
    codes = np.concatenate([p[0] for p in parts])
    scales = to_bf16(np.array([p[1] for p in parts], f32))
    biases = to_bf16(np.array([p[2] for p in parts], f32))
    return pack(codes, bits) + scales.astype("<u2").tobytes() + biases.astype("<u2").tobytes()


def make_rows():
    """Rows that meet every branch: signs, ties, equal values, zeros, tiny and huge values."""
    rng = np.random.default_rng(20261201)
    rows = [rng.standard_normal(DIM) * 2.0 ** e for e in (-50, -24, -22, -3, 0, 5, 90)]
    rows += [abs(rng.standard_normal(DIM)), -abs(rng.standard_normal(DIM)),
             np.round(rng.standard_normal(DIM) * 4) / 4, rng.integers(-1, 2, DIM) * 3.0,
             np.zeros(DIM), np.full(DIM, 5.0), np.full(DIM, -5.0), np.full(DIM, 2.0 ** 99),
             np.where(np.arange(DIM) % 32 == 7, 300.0, rng.standard_normal(DIM)),
             np.where(np.arange(DIM) < 128, 0.0, rng.standard_normal(DIM)),
             rng.uniform(-1, 1, DIM) * 1e-7, rng.uniform(-1, 1, DIM) * 3e-6,
             np.linspace(-1, 1, DIM), np.linspace(4, 5, DIM), rng.standard_t(2, DIM)]
    return np.stack([operand(r.astype(f32)) for r in rows])


def compare_with_mlx(rows):
    import mlx.core as mx
    mx.set_default_device(mx.cpu)
    rng = np.random.default_rng(7)
    more = rng.standard_normal((400, DIM)) * np.exp2(rng.integers(-20, 10, (400, 1)))
    more[::9], more[1::9] = abs(more[::9]), -abs(more[1::9])
    more[2::9] = np.round(more[2::9] * 4) / 4
    values = from_bf16(np.concatenate([rows, operand(more.astype(f32))]))
    print(f"mlx {mx.__version__}, CPU, {len(values)} rows of {DIM}")
    for bits in BITS:
        for group in GROUPS:
            q, s, b = mx.quantize(mx.array(values).astype(mx.bfloat16), group_size=group, bits=bits)
            packed = np.array(q).view(np.uint8).reshape(len(values), -1)
            tails = [np.array(t.astype(mx.float32)) for t in (s, b)]
            differ = 0
            for i, row in enumerate(values):
                theirs = packed[i].tobytes() + b"".join(to_bf16(t[i]).astype("<u2").tobytes() for t in tails)
                negative = (row.reshape(-1, group).max(1) < 0).any()
                assert theirs == code_row(row, bits, group, with_zero=False), (bits, group, i)
                if theirs != code_row(row, bits, group):
                    assert negative, (bits, group, i)
                    differ += 1
            print(f"{bits} bits, groups of {group}: {differ} rows differ, each with a wholly negative group")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--mlx"]
    out = pathlib.Path(arguments[0] if arguments else
                       pathlib.Path(__file__).resolve().parents[1] / "golden/kv")
    out.mkdir(parents=True, exist_ok=True)
    rows = make_rows()
    (out / "rows.bin").write_bytes(rows.astype("<u2").tobytes())
    for bits in BITS:
        for group in GROUPS:
            packed = b"".join(code_row(from_bf16(r), bits, group) for r in rows)
            (out / f"affine_{bits}_{group}.bin").write_bytes(packed)
    if "--mlx" in sys.argv:
        compare_with_mlx(rows)


if __name__ == "__main__":
    main()
