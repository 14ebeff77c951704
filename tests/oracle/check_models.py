#!/usr/bin/env python3
"""Both real models against mlx-lm and llama.cpp: runs `gyre score`, then compare.py.

    check_models.py [--gyre FILE] [--model smollm2|gemma] [--oracle-tokens N]

The oracle mode is slow (Gemma's 1,536 tokens need about 20 minutes of CPU time), so the test run
gives it only the first tokens (--oracle-tokens); without the option it reads all of them, and then
the top tokens of Gemma past two windows are compared.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARE = str(pathlib.Path(__file__).with_name("compare.py"))
# Model file, tokens of its golden, positions whose logits are compared when all tokens are read.
MODELS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1", 640, (128, 640)),
    "gemma": ("gemma-3-270m-q4_k_m", 1536, (1024, 1536)),
}


def golden(stem):
    return str(ROOT / "tests/golden/models" / f"{stem}.json")


def score(gyre, stem, count, rows, folder, *options):
    """Runs `gyre score` on the golden's first tokens; returns its JSON's and logits' paths."""
    ids = subprocess.run([sys.executable, COMPARE, golden(stem), "--print-ids", "--limit", str(count)],
                         capture_output=True, text=True, check=True).stdout.strip()
    name = folder / ("oracle" if options else "int8")
    out, logits = name.with_suffix(".json"), name.with_suffix(".f32")
    command = [gyre, "score", "-m", str(ROOT / "models" / f"{stem}.gguf"), "--ids", ids, "--json",
               "--logits", str(logits), "--logit-rows", f"{rows[0]}:{rows[1]}", *options]
    with open(out, "wb") as stream:
        subprocess.run(command, stdout=stream, check=True)
    return str(out), str(logits)


def compare(stem, rows, *arguments):
    command = [sys.executable, COMPARE, golden(stem), "--logit-rows", f"{rows[0]}:{rows[1]}", *arguments]
    return subprocess.run(command, check=False).returncode == 0


def check(gyre, model, oracle_tokens=None):
    stem, count, rows = MODELS[model]
    with tempfile.TemporaryDirectory(prefix="gyre-oracle-") as name:
        folder = pathlib.Path(name)
        if oracle_tokens is None or oracle_tokens >= count:
            int8, int8_logits = score(gyre, stem, count, rows, folder)
            oracle, oracle_logits = score(gyre, stem, count, rows, folder, "--oracle")
            return compare(stem, rows, "--oracle", oracle, "--oracle-logits", oracle_logits,
                           "--int8", int8, "--int8-logits", int8_logits)
        # int8 over all tokens (logits of the last 64), the oracle mode over the first few.
        last, first = (count - 64, count), (0, oracle_tokens)
        int8, int8_logits = score(gyre, stem, count, last, folder)
        holds = compare(stem, last, "--int8", int8, "--int8-logits", int8_logits)
        oracle, oracle_logits = score(gyre, stem, oracle_tokens, first, folder, "--oracle")
        return compare(stem, first, "--oracle", oracle, "--oracle-logits", oracle_logits) and holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gyre", default=str(ROOT / "build/release/gyre"))
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--oracle-tokens", type=int)
    args = parser.parse_args()
    results = [check(args.gyre, model, args.oracle_tokens) for model in args.model or MODELS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
