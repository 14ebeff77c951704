"""Makes tests/golden/models/<model>.json: teacher-forced logits of a real model in f32.

    python tests/oracle/make_logit_goldens.py models/SmolLM2-135M-Instruct.Q4_1.gguf 640
    python tests/oracle/make_logit_goldens.py models/gemma-3-270m-q4_k_m.gguf 1536

The values are mlx-lm's (f32, CPU, weights dequantised by `gguf`). A second, float64 pass in numpy
says how far any f32 implementation may be from exact arithmetic: `f32_noise`. Token ids come from
llama.cpp's tokenizer and are stored, so a reader needs neither text nor tokenizer.
Needs numpy, gguf, mlx, mlx-lm, llama-cpp-python, and some minutes.
"""

import argparse
import hashlib
import json
import pathlib

import numpy as np

TEXT = "/usr/share/common-licenses/GPL-3"
GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "models"
ROW_STEP = 32  # every 32nd position, and the last, stores a row of logits
TOP = 48  # its largest logits
PROBES = 32  # and these many ids spread over the vocabulary


def text_ids(model, count):
    from llama_cpp import Llama

    tokenizer = Llama(model, vocab_only=True, verbose=False)
    ids = tokenizer.tokenize(open(TEXT, "rb").read())[:count]
    assert len(ids) == count, f"text has {len(ids)} tokens, expected {count}"
    return ids


def rounded(values, digits=6):
    return [round(float(v), digits) for v in values]


class Summary:
    """What the golden keeps of a stream of logit rows."""

    def __init__(self, ids, row_ids=None):
        self.ids, self.row_ids = ids, row_ids or {}
        self.top, self.gap, self.logprob, self.logsumexp, self.rows = [], [], [], [], {}

    def add(self, logits):
        for row in logits:
            self.add_row(row)

    def add_row(self, row):
        self.vocabulary = len(row)
        position = len(self.top)
        exact = row.astype(np.float64)
        largest = exact.max()
        logsumexp = largest + np.log(np.exp(exact - largest).sum())
        second, first = np.argpartition(row, -2)[-2:]
        if exact[second] > exact[first]:
            first, second = second, first
        self.top.append(int(first))
        self.gap.append(exact[first] - exact[second])
        self.logsumexp.append(logsumexp)
        if position + 1 < len(self.ids):
            self.logprob.append(exact[self.ids[position + 1]] - logsumexp)
        if position % ROW_STEP == ROW_STEP - 1 or position + 1 == len(self.ids):
            ids = self.row_ids.get(position)
            if ids is None:
                top = np.argpartition(row, -TOP)[-TOP:]
                probes = np.arange(PROBES) * (len(row) // PROBES) + 7
                ids = [int(i) for i in top[np.argsort(-row[top])]] + [int(i) for i in probes]
            self.row_ids[position] = ids
            self.rows[position] = exact[ids]

    def perplexity(self):
        return float(np.exp(-np.mean(self.logprob)))


def summarise(name, reference, ids, row_ids=None):
    summary = Summary(ids, row_ids)
    for logits in reference.logit_rows(ids):
        summary.add(logits)
        print(f"{name}: {len(summary.top)} of {len(ids)} positions", flush=True)
    return summary


def noise(mlx, exact):
    """Largest and typical differences between the f32 pass and exact arithmetic."""
    logprob = np.abs(np.array(mlx.logprob) - np.array(exact.logprob))
    logits = [np.abs(mlx.rows[p] - exact.rows[p]).max() for p in mlx.rows]
    return {
        "logprob_max": float(logprob.max()),
        "logprob_rms": float(np.sqrt(np.mean(logprob**2))),
        "logit_max": float(max(logits)),
        "top_differs": sum(a != b for a, b in zip(mlx.top, exact.top)),
        "perplexity": exact.perplexity(),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("count", type=int)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    model = pathlib.Path(args.model)
    ids = text_ids(args.model, args.count)

    import numpy_reference

    exact = summarise("float64", numpy_reference.Reference(args.model), ids)

    import mlx_reference

    mlx = summarise("mlx", mlx_reference.Reference(args.model), ids, exact.row_ids)
    golden = {
        "model": model.name,
        "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "text": f"the first {len(ids)} tokens of {TEXT}",
        "oracle": "mlx-lm, f32 on the CPU, weights dequantised by gguf",
        "vocabulary": mlx.vocabulary,
        "perplexity": mlx.perplexity(),
        "f32_noise": noise(mlx, exact),
        "ids": ids,
        "top": mlx.top,
        "gap": rounded(mlx.gap, 4),
        "logprob": rounded(mlx.logprob),
        "logsumexp": rounded(mlx.logsumexp, 5),
        "rows": [
            {"position": p, "ids": mlx.row_ids[p], "logits": rounded(mlx.rows[p], 5)}
            for p in sorted(mlx.rows)
        ],
    }
    out = args.out or GOLDEN / f"{model.stem}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = [f' "{key}": {json.dumps(value)}' for key, value in golden.items()]
    out.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(out, out.stat().st_size, "bytes; perplexity", golden["perplexity"], golden["f32_noise"])


if __name__ == "__main__":
    main()
