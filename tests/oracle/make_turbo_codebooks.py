#!/usr/bin/env python3
"""Lloyd-Max codebooks of the turbo code, and goldens of coded rows.

A coordinate of a random unit vector in d dimensions has the density (1 - t^2)^((d-3)/2) on
[-1, 1]; scaled by sqrt(d) its variance is 1. The best 2^bits values for it are the fixed point of
"cell borders are midpoints, values are conditional means", found here by Newton's method in
double precision. Writes src/kernels/codes/turbo_codebooks.inl (the positive halves as bf16), and under OUT
theory.txt (dimension, bits, mean squared error of the bf16 values, of the unrounded ones) and
turbo.bin (rows coded by a plain restatement of docs/formats/kv.md in exact rationals).
Usage: make_turbo_codebooks.py [OUT], default tests/golden/kv
"""
import pathlib
import struct
import sys
from fractions import Fraction

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIMS, BITS = (32, 64, 128, 256, 512), (2, 3, 4, 5, 6, 8)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)
f32 = np.float32


def density(z, d):
    """Not normalised: only ratios are used, and the total over z > 0."""
    return np.maximum(1 - z * z / d, 0) ** ((d - 3) / 2)


def moments(a, b, d):
    """Integrals of 1, z, z^2 times the density over [a, b], elementwise."""
    half = (b - a)[:, None] / 2
    z = (a + b)[:, None] / 2 + half * NODES
    f = density(z, d) * WEIGHTS * half
    return f.sum(1), (f * z).sum(1), (f * z * z).sum(1)


def borders(c, d):
    return np.concatenate([[0.0], (c[:-1] + c[1:]) / 2, [min(d ** 0.5, 14.0)]])


def codebook(d, bits):
    """The positive half, ascending, in double precision."""
    n = 2 ** (bits - 1)
    grid = np.linspace(0, min(d ** 0.5, 14.0), 200001)
    share = np.cumsum(density(grid, d) ** (1 / 3))
    c = np.interp((np.arange(n) + 0.5) / n, share / share[-1], grid)  # the high-rate limit
    for step in range(300):
        e = borders(c, d)
        m0, m1, _ = moments(e[:-1], e[1:], d)
        mean = m1 / m0
        residual = c - mean
        if step >= 100 and abs(residual).max() < 1e-13:
            break
        if step < 100:
            c = mean
            continue
        down = density(e[:-1], d) * (mean - e[:-1]) / m0 / 2  # d mean / d (border below), halved
        up = density(e[1:], d) * (e[1:] - mean) / m0 / 2
        down[0] = up[-1] = 0
        jacobian = np.diag(1 - down - up) - np.diag(down[1:], -1) - np.diag(up[:-1], 1)
        c = c - np.linalg.solve(jacobian, residual)
    assert abs(residual).max() < 1e-11 and (np.diff(c) > 0).all() and c[0] > 0, (d, bits)
    return c


def distortion(c, d):
    e = borders(c, d)
    m0, m1, m2 = moments(e[:-1], e[1:], d)
    total = moments(np.array([0.0]), np.array([min(d ** 0.5, 14.0)]), d)[0][0]
    return (m2 - 2 * c * m1 + c * c * m0).sum() / total


def to_bf16(x):
    b = np.asarray(x, f32).view(np.uint32).astype(np.uint64)
    return ((b + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(h):
    return (np.asarray(h).astype(np.uint32) << 16).view(f32)


def to_f32(x: Fraction):
    """Nearest float32, ties to even; no subnormal arises here."""
    if x == 0:
        return f32(0)
    sign, x = (-1, -x) if x < 0 else (1, x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** e > x:
        e -= 1
    unit = Fraction(2) ** (e - 23)
    return f32(float(sign * round(x / unit) * unit))


def lane_dot(a, b):
    lanes = [f32(0)] * 64
    for i, (x, y) in enumerate(zip(a, b)):
        lanes[i % 64] = to_f32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(lanes[i % 64])))
    width = 32
    while width:
        lanes = [f32(lanes[i] + lanes[i + width]) for i in range(width)]
        width //= 2
    return lanes[0]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def rotate(x, seed):
    x = x.copy()
    d = len(x)
    n = 1 << (d.bit_length() - 1)
    starts = [0] if n == d else [0, d - n, 0]
    scale = f32(2.0 ** -(n.bit_length() // 2)) if n.bit_length() % 2 else \
        f32(f32(0.5 ** 0.5) * f32(2.0 ** -(n.bit_length() // 2 - 1)))
    for number, start in enumerate(starts):
        part = x[start:start + n]
        for i in range(n):
            word = philox((i // 32, number, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))[0]
            if word >> (i % 32) & 1:
                part[i] = -part[i]
        h = 1
        while h < n:
            for i in range(0, n, 2 * h):
                for j in range(i, i + h):
                    a, b = part[j], part[j + h]
                    part[j], part[j + h] = f32(a + b), f32(a - b)
            h *= 2
        x[start:start + n] = [f32(v * scale) for v in part]
    return x


def code_row(w, half, bits, seed):
    """w: bf16 operands as float32."""
    d, h = len(w), len(half)
    amax = abs(w).max()
    if amax == 0:
        return bytes(d * bits // 8 + 4)
    e = int(np.frexp(amax)[1]) - 1
    w = np.array([f32(v * f32(2.0 ** -e)) for v in w], f32)
    factor = np.sqrt(f32(f32(d) / lane_dot(w, w)))
    y = rotate(w, seed)
    limits = [f32((half[i] + half[i + 1]) * f32(0.5)) for i in range(h - 1)]
    stream, values = 0, []
    for i, v in enumerate(y):
        z = f32(v * factor)
        m = sum(abs(z) > t for t in limits)
        stream |= int(h - 1 - m if z < 0 else h + m) << (i * bits)
        values.append(-half[m] if z < 0 else half[m])
    rho = f32(f32(lane_dot(y, values) / lane_dot(values, values)) * f32(2.0 ** e))
    return stream.to_bytes(d * bits // 8, "little") + struct.pack("<f", rho)


def make_rows(d):
    rng = np.random.default_rng(d)
    rows = [rng.standard_normal(d), rng.standard_t(2, d) * 2.0 ** 80, rng.standard_normal(d) * 2.0 ** -40,
            np.where(np.arange(d) == d - 3, -7.0, 0.0), np.zeros(d)]
    out = to_bf16(np.stack(rows).astype(f32))
    out[abs(from_bf16(out)) < 2.0 ** -56] = 0
    return out


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests/golden/kv")
    out.mkdir(parents=True, exist_ok=True)
    books, theory = {}, []
    text = ["// Positive halves of the turbo codebooks as bf16, ascending; for each dimension the bits",
            "// 2, 3, 4, 5, 6, 8 one after the other. Made by tests/oracle/make_turbo_codebooks.py.", ""]
    for d in DIMS:
        line = []
        for bits in BITS:
            exact = codebook(d, bits)
            books[d, bits] = to_bf16(exact.astype(f32))
            rounded = distortion(from_bf16(books[d, bits]).astype(float), d)
            theory.append(f"{d} {bits} {rounded:.6e} {distortion(exact, d):.6e}")
            line += [f"0x{v:04x}" for v in books[d, bits]]
        text.append(f"// dimension {d}")
        text.append("{" + ",\n ".join(", ".join(line[i:i + 12]) for i in range(0, len(line), 12)) + "},")
    (ROOT / "src/kernels/codes/turbo_codebooks.inl").write_text("\n".join(text) + "\n")
    (out / "theory.txt").write_text("\n".join(theory) + "\n")
    blob = b""
    for d in (32, 64, 80, 128, 256, 576):
        rows = make_rows(d)
        for bits in BITS:
            half = from_bf16(books[max(k for k in DIMS if k <= d), bits])
            for row in rows:
                coded = code_row(from_bf16(row), half, bits, 0x6779726574757262)
                blob += struct.pack("<II", d, bits) + row.astype("<u2").tobytes() + coded
    (out / "turbo.bin").write_bytes(blob)


if __name__ == "__main__":
    main()
