#!/usr/bin/env python3
"""Goldens for src/sampling: docs/formats/sampling.md restated slowly and plainly.

Exact rationals and Python integers; every filter sorts everything; DRY compares every suffix.
Usage: make_sampling_goldens.py [OUT], default tests/golden/sampling/cases.txt
"""
import math
import pathlib
import random
import struct
import sys
from fractions import Fraction

import numpy as np

f32 = np.float32
LARGEST = f32(3.4028234663852886e38)
np.seterr(all="ignore")


def to_f32(x: Fraction) -> np.float32:
    """Nearest float32, ties to even; exact input, normal range or zero."""
    if x == 0:
        return f32(0)
    sign, x = (-1, -x) if x < 0 else (1, x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** e > x:
        e -= 1
    unit = Fraction(2) ** (max(e, -126) - 23)
    return f32(float(sign * round(x / unit) * unit))


def fma(a, b, c):
    return to_f32(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def const(text):
    return f32(float.fromhex(text))


EXP_STEPS = [const(t) for t in ("0x1.1239e2p-7", "0x1.5558f2p-5", "0x1.555492p-3",
                                "0x1.fffffcp-2", "0x1p0", "0x1p0")]


def exp(x):
    """The contract's exp for x <= 0."""
    if float(x) < float.fromhex("-0x1.5d589ep6"):
        return f32(0)
    magic = const("0x1.8p23")
    n = f32(fma(x, const("0x1.715476p0"), magic) - magic)
    r = fma(n, const("-0x1.62e43p-1"), x)
    r = fma(n, const("0x1.05c61p-29"), r)
    p = const("0x1.6a2432p-10")
    for step in EXP_STEPS:
        p = fma(p, r, step)
    return f32(math.ldexp(float(p), int(n)))


def saturate(x):
    return min(max(f32(x), -LARGEST), LARGEST)


def weigh(values):
    top = max(values)
    weights = []
    for v in values:
        d = f32(v - top)
        weights.append(0 if np.isinf(d) else round(Fraction(float(exp(d))) * 2**40))
    return weights


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def random_bits(seed, choice, position, draw):
    lo = 0xFFFFFFFF
    c = philox((position & lo, position >> 32, choice, draw), (seed & lo, seed >> 32))
    return c[0] | c[1] << 32


def fixed32(p):
    return round(Fraction(float(p)) * 2**32)


def rank(item):
    return (-float(item[1]), item[0])  # -0.0 == 0.0 in Python too


def shortest(ordered, weights, p):
    """The shortest prefix that holds at least the share p, never empty."""
    total, need, have, out = sum(weights.values()), fixed32(p), 0, []
    for item in ordered:
        out.append(item)
        have += weights[item[0]]
        if have * 2**32 >= need * total:
            break
    return out


def depth(top, value, bits, largest):
    return min(round(Fraction(float(top) - float(value)) * 2**bits), largest)


def window(history, n):
    return history if n < 0 else history[max(0, len(history) - n):]


def step_bias(s, p, h):
    table = dict(p["logit_bias"])
    return [(i, saturate(v + f32(table[i])) if i in table else v) for i, v in s]


def step_penalties(s, p, h):
    ids = window(h, p["penalty_last_n"])
    out = []
    for i, v in s:
        n = ids.count(i)
        if n:
            r = f32(p["repetition_penalty"])
            v = saturate(v / r if v > 0 else v * r)
            minus = saturate(f32(f32(n) * f32(p["frequency_penalty"])) + f32(p["presence_penalty"]))
            v = saturate(v - minus)
        out.append((i, v))
    return out


def step_dry(s, p, h):
    if p["dry_multiplier"] == 0:
        return s
    ids = window(h, p["dry_penalty_last_n"])
    breakers = p["dry_sequence_breakers"]
    limit = len(ids)
    for end in range(len(ids), 0, -1):
        if any(ids[max(0, end - len(b)):end] == b for b in breakers):
            limit = len(ids) - end
            break
    best = {}
    for j in range(len(ids) - 1):
        length = 0
        while length < limit and length <= j and ids[j - length] == ids[len(ids) - 1 - length]:
            length += 1
        if length >= p["dry_allowed_length"]:
            best[ids[j + 1]] = max(best.get(ids[j + 1], 0), length)
    out = []
    for i, v in s:
        if i in best and [i] not in breakers:
            penalty = f32(p["dry_multiplier"])
            for _ in range(best[i] - p["dry_allowed_length"]):
                penalty = saturate(penalty * f32(p["dry_base"]))
            v = saturate(v - penalty)
        out.append((i, v))
    return out


def weights_of(s):
    return dict(zip([i for i, _ in s], weigh([v for _, v in s])))


def step_top_n_sigma(s, p, h):
    n = float(f32(p["top_n_sigma"]))
    if n == 0 or len(s) < 2:
        return s
    top = max(v for _, v in s)
    d = [depth(top, v, 12, 2**20) for _, v in s]
    spread = len(d) * sum(x * x for x in d) - sum(d) ** 2
    limit = n * (math.sqrt(float(spread)) / float(len(d)))
    return [item for item, x in zip(s, d) if float(x) <= limit]


def step_top_k(s, p, h):
    return s if p["top_k"] == 0 else sorted(s, key=rank)[:p["top_k"]]


def step_typical(s, p, h):
    if p["typical_p"] >= 1:
        return s
    w = weights_of(s)
    s = [item for item in s if w[item[0]]]
    top = max(v for _, v in s)
    d = {i: depth(top, v, 20, 2**31) for i, v in s}
    mean = sum(w[i] * d[i] for i, _ in s) // sum(w.values())
    return shortest(sorted(s, key=lambda t: (abs(d[t[0]] - mean), t[0])), w, p["typical_p"])


def step_top_p(s, p, h):
    return s if p["top_p"] >= 1 else shortest(sorted(s, key=rank), weights_of(s), p["top_p"])


def step_min_p(s, p, h):
    w = weights_of(s)
    return [item for item in s if w[item[0]] * 2**32 >= fixed32(p["min_p"]) * 2**40]


def step_xtc(s, p, h):
    bits = random_bits(p["seed"], p["choice"], p["position"], 1)
    if bits >> 32 >= fixed32(p["xtc_probability"]) or len(s) < 2:
        return s
    w = weights_of(s)
    total = sum(w.values())
    reach = sorted((t for t in s if w[t[0]] and
                    w[t[0]] * 2**32 >= fixed32(p["xtc_threshold"]) * total), key=rank)
    return [t for t in s if t not in reach[:-1]] if len(reach) >= 2 else s


def step_temperature(s, p, h):
    t = f32(p["temperature"])
    if t == 1:
        return s
    top = max(v for _, v in s)
    return [(i, saturate(f32(v - top) / t)) for i, v in s]


DEFAULTS = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, top_n_sigma=0.0,
                xtc_probability=0.0, xtc_threshold=0.1, dry_multiplier=0.0, dry_base=1.75,
                dry_allowed_length=2, dry_penalty_last_n=-1, dry_sequence_breakers=[],
                repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0,
                penalty_last_n=64, logit_bias=[], seed=0, position=0, choice=0,
                order="bias;penalties;dry;top_n_sigma;top_k;typical;top_p;min_p;xtc;temperature")


def sample(logits, history, p, allowed=None):
    s = [(i, v) for i, v in enumerate(logits) if allowed is None or i in allowed]
    steps = p["order"].split(";")
    greedy = p["temperature"] == 0 and "temperature" in steps
    for name in steps:
        if not greedy or name in ("bias", "penalties", "dry"):
            s = sorted(globals()["step_" + name](s, p, history))
    if greedy:
        s = sorted(s, key=rank)[:1]
    w = weights_of(s)
    target = random_bits(p["seed"], p["choice"], p["position"], 0) * sum(w.values()) >> 64
    prefix = 0
    for i, _ in s:
        prefix += w[i]
        if prefix > target:
            return w, i
    raise AssertionError("no token")


def made_logits(kind, seed, n):
    """Rows that the test can make itself: kind 'wide' (2^24 levels over +-16), 'tied' (32 levels)."""
    out = []
    for i in range(n):
        bits = random_bits(seed, 0, i, 0)
        out.append(f32(((bits >> 40) - 2**23) * 2.0**-19 if kind == "wide"
                       else ((bits >> 59) - 16) * 0.5))
    return out


def digest(w):
    d = 0xCBF29CE484222325
    for i in sorted(w):
        for word in (i, w[i]):
            d = ((d ^ word) * 0x100000001B3) & (2**64 - 1)
    return d


def write_case(out, name, logits, made, history, changes, allowed=None):
    p = {**DEFAULTS, **changes}
    w, token = sample(logits, history, p, allowed)
    raw = weigh(logits)
    top = max(logits)
    logprob = float(logits[token]) - float(top) - math.log(sum(raw) / 2**40)
    best = sorted(enumerate(logits), key=rank)[:3]
    out.append(f"case {name}")
    for key in changes:
        value = changes[key]
        if key == "logit_bias":
            value = " ".join(f"{i}:{float(f32(v)).hex()}" for i, v in value)
        elif key == "dry_sequence_breakers":
            value = " ".join(",".join(map(str, b)) for b in value)
        elif isinstance(value, float):
            value = float(f32(value)).hex()
        out.append(f"{key} {value}")
    out.append("made " + made if made else
               "logits " + " ".join(struct.pack(">f", v).hex() for v in logits))
    if history:
        out.append("history " + " ".join(map(str, history)))
    if allowed is not None:
        out.append("allowed " + " ".join(map(str, sorted(allowed))))
    out.append(f"survivors {len(w)} {digest(w):016x} {sum(w.values())}")
    if len(w) <= 8:
        out.append("weights " + " ".join(f"{i}:{w[i]}" for i in sorted(w)))
    out.append(f"token {token}")
    out.append(f"logprob {logprob!r}")
    out.append("best " + " ".join(str(i) for i, _ in best))
    out.append("end")


def random_changes(rng, vocab):
    c = dict(seed=rng.getrandbits(64), position=rng.randrange(2**33), choice=rng.randrange(4))
    def maybe(chance, **kw):
        if rng.random() < chance:
            c.update(kw)
    r = lambda a, b: float(f32(rng.uniform(a, b)))
    maybe(.7, temperature=rng.choice([0.0, 0.25, r(.1, 3), r(.1, 3), 1e-30, 100.0]))
    maybe(.3, top_k=rng.choice([1, 2, 5, 40, vocab, vocab + 5]))
    maybe(.4, top_p=rng.choice([0.0, r(.1, 1), .9, .99, 1e-12]))
    maybe(.3, min_p=rng.choice([r(0, .2), 1.0, 1e-9]))
    maybe(.3, typical_p=rng.choice([r(.05, 1), 0.0, .95]))
    maybe(.3, top_n_sigma=r(.1, 3))
    maybe(.3, xtc_probability=rng.choice([1.0, .5]), xtc_threshold=rng.choice([0.0, .01, .1, .6]))
    maybe(.4, repetition_penalty=r(.7, 2), penalty_last_n=rng.choice([-1, 0, 3, 20]))
    maybe(.3, presence_penalty=r(-2, 2))
    maybe(.3, frequency_penalty=r(-2, 2))
    maybe(.4, dry_multiplier=r(.1, 2), dry_base=r(1, 3), dry_allowed_length=rng.randrange(1, 4),
          dry_penalty_last_n=rng.choice([-1, 5, 30]),
          dry_sequence_breakers=rng.choice([[], [[1]], [[2, 3], [4]], [[0, 1, 0]]]))
    if "dry_sequence_breakers" in c:
        c["dry_sequence_breakers"] = [b for b in c["dry_sequence_breakers"] if max(b) < vocab]
    maybe(.3, logit_bias=[(i, r(-20, 20)) for i in rng.sample(range(vocab), min(vocab, 3))])
    if rng.random() < .5:
        order = DEFAULTS["order"].split(";")
        rng.shuffle(order)
        c["order"] = ";".join(order[:rng.randrange(1, 11)])
    return c


def random_logits(rng, n):
    shape = rng.choice(["normal", "peaked", "tied", "flat", "extreme"])
    if shape == "normal":
        return [f32(rng.gauss(0, 3)) for _ in range(n)]
    if shape == "peaked":
        return [f32(rng.gauss(0, 1) + (12 if rng.random() < .1 else 0)) for _ in range(n)]
    if shape == "tied":
        return [f32(rng.choice([-1.5, -0.0, 0.0, 2.0, 2.0, 3.25])) for _ in range(n)]
    if shape == "flat":
        return [f32(0.5)] * n
    return [f32(rng.choice([-3.4e38, 3.4e38, 1e-40, -1e-40, 80.0, -80.0, 3.3e38]))
            for _ in range(n)]


def main():
    rng = random.Random(20261130)
    out = []
    for k in range(150):
        n = rng.choice([1, 2, 3, 8, 30, 70])
        history = [rng.randrange(min(n, 5)) for _ in range(rng.choice([0, 1, 6, 40]))]
        allowed = set(rng.sample(range(n), rng.randrange(1, n + 1))) if rng.random() < .15 else None
        write_case(out, f"random-{k}", random_logits(rng, n), "", history, random_changes(rng, n),
                   allowed)
    rows = {f"{kind} {seed} {n}": made_logits(kind, seed, n)
            for kind, seed, n in (("wide", 7, 3000), ("tied", 8, 2500))}
    for made, logits in rows.items():
        for k, changes in enumerate((
                dict(), dict(temperature=0.0), dict(top_k=40), dict(top_k=1500),
                dict(top_p=.95), dict(top_p=.5, temperature=.7), dict(typical_p=.9),
                dict(typical_p=.3), dict(min_p=.05), dict(top_n_sigma=1.0),
                dict(top_p=.999, order="temperature;top_p", temperature=5.0),
                dict(xtc_probability=1.0, xtc_threshold=.02),
                dict(top_k=100, typical_p=.9, top_p=.9, min_p=.01, temperature=.8))):
            write_case(out, f"{made.split()[0]}-{k}", logits, made, [],
                       {**changes, "seed": 99 + k, "position": 5})
    default = pathlib.Path(__file__).parent.parent / "golden" / "sampling" / "cases.txt"
    pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else default).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
