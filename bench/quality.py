#!/usr/bin/env python3
"""What each KV scheme costs in quality: `./dev quality`. Writes the table between the quality
markers of docs/numbers.md and leaves the rest of that file alone.

    quality.py [--model FILE ...] [--scheme KEY ...] [--tokens N] [--threads N] [--out FILE]

A text of licences, which every Debian machine has, is scored by `gyre score --kv KEY --against
bf16`: both rows in one process, every position's predictions compared. No figure depends on the
machine or its load.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
GYRE = str(ROOT / os.environ.get("GYRE_BUILD", "build/release") / "gyre")
LICENCES = pathlib.Path("/usr/share/common-licenses")
# No text that largely repeats an earlier one.
TEXT = ("GPL-3", "MPL-2.0", "GFDL-1.3", "Artistic", "Apache-2.0", "CC0-1.0")
# All that SmolLM2's context holds; far beyond Gemma's windows and 8k.
MODELS = {"models/SmolLM2-135M-Instruct.Q4_1.gguf": 8192, "models/gemma-3-270m-q4_k_m.gguf": 10240}
SCHEMES = (
    "kv8", "kv6", "kv5", "kv4", "kv4-g32",
    "turbo-k8v4", "turbo-k8v3", "turbo-k6v4", "turbo-k4v4",
    "anchor-k5v4", "anchor-k4v4", "anchor-k4v3",
)
TARGETS = (  # scheme, figure, limit
    ("kv8", "perplexity", 0.002),
    ("turbo-k8v4", "perplexity", 0.007),
    ("anchor-k4v4", "kl", 0.05),
)


def gyre(*arguments):
    done = subprocess.run([GYRE, *map(str, arguments), "--json"], cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"quality: gyre {' '.join(map(str, arguments))}: exit {done.returncode}")
    return json.loads(done.stdout)


def growth(d):
    return d["perplexity"] / d["against_perplexity"] - 1


def depth_name(d, last):
    k = lambda n: f"{n // 1024}k"  # noqa: E731
    return f"{k(d['from'])}–{'end' if last else k(d['to'])}"


def table(model, results):
    first = results[0]
    depths = [depth_name(d, d is first["depths"][-1]) for d in first["depths"]]
    lines = [
        f"### {pathlib.Path(model).name}, {first['tokens']} tokens, bf16 perplexity "
        f"{first['against_perplexity']:.3f}",
        "",
        "| scheme | bytes a token | perplexity | KL to bf16 | same top token | "
        + " | ".join(f"KL {d}" for d in depths) + " |",
        "|---" * (5 + len(depths)) + "|",
    ]
    for r in results:
        cells = [r["scheme"], f"{r['bytes']:.0f} ({r['share']:.0%})", f"{growth(r):+.2%}",
                 f"{r['kl']:.4f}", f"{r['same_top']:.1%}"]
        cells += [f"{d['kl']:.4f}" for d in r["depths"]]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def verdicts(model, results):
    for scheme, figure, limit in TARGETS:
        for r in results:
            if r["scheme"] != scheme:
                continue
            value = r["kl"] if figure == "kl" else growth(r)
            text = f"{value:.4f}" if figure == "kl" else f"{value:+.2%}"
            wanted = f"{limit}" if figure == "kl" else f"{limit:+.1%}"
            yield (f"{pathlib.Path(model).name}: {scheme}: {figure} {text}, wanted at most {wanted}: "
                   + ("met" if value <= limit else "NOT MET"))


def bytes_per_token(model, scheme, tokens):
    return gyre("inspect", model, "--kv", scheme, "-c", tokens)["kv"]["bytes"] / tokens


def measure(model, text, tokens, args):
    results = []
    wide = bytes_per_token(model, "bf16", tokens)
    for scheme in args.scheme or SCHEMES:
        one = gyre("score", "-m", model, "-f", text, "--limit", tokens, "--kv", scheme, "--against",
                   "bf16", *(["--threads", args.threads] if args.threads else []))
        one["bytes"] = bytes_per_token(model, scheme, tokens)
        one["share"] = one["bytes"] / wide
        results.append(one)
        print(f"quality: {model}: {scheme}: perplexity {growth(one):+.3%}, KL {one['kl']:.5f}, "
              f"{one['seconds']:.0f} s", file=sys.stderr, flush=True)
    return results


def put(path, text):
    new = f"{report.QUALITY_BEGIN}\n{text}{report.QUALITY_END}\n"
    old, section = path.read_text() if path.exists() else "# Numbers\n", report.quality_section(path)
    path.write_text(old.replace(section, new) if section else old.rstrip("\n") + "\n\n" + new)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", help="a model file (both test models)")
    parser.add_argument("--scheme", action="append", help="a scheme's key (the list of the table)")
    parser.add_argument("--tokens", type=int, help="tokens of the text")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/numbers.md")
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        for name in TEXT:
            text.write((LICENCES / name).read_text(encoding="utf-8", errors="replace") + "\n")
        text.flush()
        lines = [
            "## KV schemes: quality",
            "",
            f"Taken {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d} at commit {report.commit(ROOT)} by "
            "`bench/quality.py` (`./dev quality`). The text is Debian's licence files",
            f"{', '.join(TEXT)}, one row in bf16 beside one in the scheme, every position compared. KL is "
            "KL(bf16 || scheme) in nats,",
            "a mean over positions; “KL 2k–4k” is that of positions 2048 to 4095. Layers with a window stay bf16 "
            "in turbo and anchored",
            "schemes. Bytes are exact, before rounding up to pages, at the length of the text.",
            "",
        ]
        notes = []
        for model in args.model or MODELS:
            results = measure(model, text.name, args.tokens or MODELS.get(model, 8192), args)
            lines += table(model, results) + [""]
            notes += verdicts(model, results)
    lines += [f"- {note}" for note in notes]
    put(args.out, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
