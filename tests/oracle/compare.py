#!/usr/bin/env python3
"""Compares `gyre score` with the goldens of other engines; plain Python, exit 0 only if all hold.

    gyre score -m MODEL --ids $(compare.py GOLDEN --print-ids) --oracle --json \
        --logits oracle.f32 --logit-rows 1024:1536 > oracle.json
    gyre score -m MODEL --ids … --json --logits int8.f32 --logit-rows 1024:1536 > int8.json
    compare.py GOLDEN --oracle oracle.json --int8 int8.json \
        --oracle-logits oracle.f32 --int8-logits int8.f32 --logit-rows 1024:1536

GOLDEN is tests/golden/models/NAME.json (make_logit_goldens.py); NAME.llama.json beside it
(make_llama_goldens.py) is the second witness. Files of logits are f32, little-endian,
[position][vocabulary], positions a … b-1.

Limits: the oracle mode is another f32 program of the same function, so it may differ from the
golden as f32 programs differ from exact arithmetic. The golden holds that distance for mlx-lm
(`f32_noise`, measured against float64); NOISE_FACTOR times its maximum is allowed, because Gyre's
sums run in one chain where a BLAS splits them in many. The int8 path may add a KL of 0.01.
"""

import argparse
import array
import json
import math
import pathlib
import sys

NOISE_FACTOR = 4
TOP_EQUAL = 0.995
INT8_PERPLEXITY, PEER_PERPLEXITY = 0.005, 0.01
KL_LIMIT, KL_ROWS = 0.01, 64


class Report:
    def __init__(self):
        self.failed = 0

    def check(self, name, value, limit, at_least=False):
        holds = value >= limit if at_least else value <= limit
        self.failed += not holds
        sign = ">=" if at_least else "<="
        print(f"{'pass' if holds else 'FAIL'}  {name}: {value:.6g}, expected {sign} {limit:.6g}")

    def note(self, text):
        print(f"note  {text}")


class LogitFile:
    """Rows of a file of logits, by position."""

    def __init__(self, path, rows, vocabulary):
        self.path, self.vocabulary = path, vocabulary
        self.begin, self.end = rows
        size = pathlib.Path(path).stat().st_size
        expected = (self.end - self.begin) * vocabulary * 4
        if size != expected:
            raise SystemExit(f"{path}: {size} bytes, expected {expected}")
        self.stream = open(path, "rb")

    def __contains__(self, position):
        return self.begin <= position < self.end

    def row(self, position):
        self.stream.seek((position - self.begin) * self.vocabulary * 4)
        values = array.array("f")
        values.frombytes(self.stream.read(self.vocabulary * 4))
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def top(self, position):
        row = self.row(position)
        return row.index(max(row))


def log_softmax(row):
    largest = max(row)
    total = largest + math.log(math.fsum(math.exp(v - largest) for v in row))
    return [v - total for v in row]


def kl(reference, other):
    p, q = log_softmax(reference), log_softmax(other)
    return math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q))


def golden_kl(golden, entry, row):
    """KL(golden || row) over the golden's largest tokens and one bucket for all others: a lower
    bound of the whole, and close to it because the bucket is small."""
    top = max(row)
    total = top + math.log(math.fsum(math.exp(v - top) for v in row))
    seen_p = seen_q = divergence = 0.0
    for token, logit in dict(zip(entry["ids"], entry["logits"])).items():
        p = math.exp(logit - golden["logsumexp"][entry["position"]])
        q = math.exp(row[token] - total)
        divergence += p * math.log(p / q) if p > 0 else 0.0
        seen_p, seen_q = seen_p + p, seen_q + q
    rest_p, rest_q = max(1 - seen_p, 0.0), max(1 - seen_q, 1e-12)
    return divergence + (rest_p * math.log(rest_p / rest_q) if rest_p > 1e-9 else 0.0)


def load_score(path, golden):
    score = json.loads(pathlib.Path(path).read_text())
    count = len(score["ids"])
    if count < 2 or score["ids"] != golden["ids"][:count]:
        raise SystemExit(f"{path}: other token ids than the golden's")
    if len(score["logprobs"]) != count - 1:
        raise SystemExit(f"{path}: {len(score['logprobs'])} logprobs, expected {count - 1}")
    return score


def perplexity(logprobs):
    return math.exp(-math.fsum(logprobs) / len(logprobs))


def perplexity_change(score, logprobs):
    """Relative, over the tokens that the score covers."""
    count = len(score["logprobs"])
    return abs(perplexity(score["logprobs"]) / perplexity(logprobs[:count]) - 1)


def top_share(golden, logits):
    positions = [p for p in range(logits.begin, logits.end) if p < len(golden["ids"])]
    wrong = [p for p in positions if logits.top(p) != golden["top"][p]]
    return positions, wrong


def compare_oracle(report, golden, score, logits):
    noise = golden["f32_noise"]
    differences = [abs(a - b) for a, b in zip(score["logprobs"], golden["logprob"])]
    report.check("oracle mode, largest logprob difference", max(differences),
                 NOISE_FACTOR * noise["logprob_max"])
    rms = math.sqrt(math.fsum(d * d for d in differences) / len(differences))
    report.check("oracle mode, rms logprob difference", rms, NOISE_FACTOR * noise["logprob_rms"])
    report.check("oracle mode, perplexity change", perplexity_change(score, golden["logprob"]),
                 NOISE_FACTOR * noise["logprob_rms"])
    if logits is None:
        return
    positions, wrong = top_share(golden, logits)
    report.check(f"oracle mode, top token equal on {len(positions)} positions",
                 1 - len(wrong) / len(positions), TOP_EQUAL, at_least=True)
    for p in wrong:
        report.note(f"position {p}: another top token, the golden's margin is {golden['gap'][p]}")
    largest, count = 0.0, 0
    for entry in golden["rows"]:
        if entry["position"] in logits:
            row = logits.row(entry["position"])
            largest = max([largest] + [abs(row[t] - v) for t, v in zip(entry["ids"], entry["logits"])])
            count += len(entry["ids"])
    if count:
        report.check(f"oracle mode, largest difference of {count} logits", largest,
                     NOISE_FACTOR * noise["logit_max"])


def compare_int8(report, golden, score, logits):
    report.check("int8, perplexity change against f32",
                 perplexity_change(score, golden["logprob"]), INT8_PERPLEXITY)
    if logits is None:
        return
    positions, wrong = top_share(golden, logits)
    report.note(f"int8: top token equal on {len(positions) - len(wrong)} of {len(positions)}")
    found = [golden_kl(golden, e, logits.row(e["position"]))
             for e in golden["rows"] if e["position"] in logits]
    if found:
        report.check(f"int8, KL from the golden, mean of {len(found)} rows",
                     math.fsum(found) / len(found), KL_LIMIT)


def compare_paths(report, oracle, int8):
    begin, end = max(oracle.begin, int8.begin), min(oracle.end, int8.end)
    positions = range(begin, end, max(1, (end - begin) // KL_ROWS))
    found = [kl(oracle.row(p), int8.row(p)) for p in positions]
    report.check(f"KL(oracle mode || int8), mean of {len(found)} rows",
                 math.fsum(found) / len(found), KL_LIMIT)
    report.note(f"KL(oracle mode || int8): largest {max(found):.6g}")


def compare_peer(report, golden, peer, score, name):
    if peer["ids"] != golden["ids"]:
        raise SystemExit("the llama.cpp golden has other token ids")
    report.check(f"{name}, perplexity change against llama.cpp",
                 perplexity_change(score, peer["logprob"]), PEER_PERPLEXITY)


def parse_rows(text):
    begin, _, end = text.partition(":")
    return int(begin), int(end)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("--print-ids", action="store_true", help="for --ids, and nothing else")
    parser.add_argument("--limit", type=int, help="with --print-ids: only the first")
    parser.add_argument("--oracle", help="JSON of `gyre score --oracle`")
    parser.add_argument("--int8", help="JSON of `gyre score`")
    parser.add_argument("--oracle-logits")
    parser.add_argument("--int8-logits")
    parser.add_argument("--logit-rows", type=parse_rows, help="positions a:b of both files")
    args = parser.parse_args()
    golden = json.loads(args.golden.read_text())
    if args.print_ids:
        print(",".join(map(str, golden["ids"][: args.limit])))
        return 0
    if not args.oracle and not args.int8:
        parser.error("nothing to compare, expected --oracle, --int8 or both")

    def logits(path):
        if path is None:
            return None
        if args.logit_rows is None:
            parser.error("--logit-rows: missing")
        return LogitFile(path, args.logit_rows, golden["vocabulary"])

    report = Report()
    oracle_logits, int8_logits = logits(args.oracle_logits), logits(args.int8_logits)
    witness = args.golden.with_suffix(".llama.json")
    peer = json.loads(witness.read_text()) if witness.exists() else None
    if args.oracle:
        compare_oracle(report, golden, load_score(args.oracle, golden), oracle_logits)
    if args.int8:
        score = load_score(args.int8, golden)
        compare_int8(report, golden, score, int8_logits)
        if peer:
            compare_peer(report, golden, peer, score, "int8")
    if oracle_logits and int8_logits:
        compare_paths(report, oracle_logits, int8_logits)
    print(f"{args.golden.stem}: {'all hold' if not report.failed else f'{report.failed} failed'}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
