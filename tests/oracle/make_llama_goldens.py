"""Makes tests/golden/models/<model>.llama.json: llama.cpp on the ids of <model>.json.

    python tests/oracle/make_llama_goldens.py models/SmolLM2-135M-Instruct.Q4_1.gguf

A second witness, which quantises activations in its own way: log-probability of every next token,
top token, perplexity, and greedy continuations of three prompts (they may part from ours where two
tokens are nearly equal; a report, not a test). K and V are f32. Needs llama-cpp-python, numpy.
"""

import json
import pathlib
import sys

import llama_cpp
import numpy as np

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "models"
PROMPTS = [
    "The capital of France is",
    "Once upon a time there was a miller who",
    "def fibonacci(n):\n",
]
GREEDY = 32
F32 = 0  # ggml's number of the type


def open_model(path):
    return llama_cpp.Llama(path, n_ctx=2048, n_batch=512, n_threads=1, n_threads_batch=1, type_k=F32,
                           type_v=F32, logits_all=True, verbose=False)


def teacher_forced(model, ids):
    model.reset()
    model.eval(ids)
    logprob, top = [], []
    for position in range(len(ids)):
        row = model.scores[position].astype(np.float64)
        top.append(int(row.argmax()))
        if position + 1 < len(ids):
            largest = row.max()
            total = largest + np.log(np.exp(row - largest).sum())
            logprob.append(round(float(row[ids[position + 1]] - total), 5))
    return logprob, top


def greedy(model, prompt):
    prompt_ids = model.tokenize(prompt.encode())
    model.reset()
    model.eval(prompt_ids)
    ids = []
    while len(ids) < GREEDY:
        ids.append(int(model.scores[model.n_tokens - 1].argmax()))
        if ids[-1] == model.token_eos():
            break
        model.eval([ids[-1]])
    text = model.detokenize(ids).decode("utf-8", "replace")
    return {"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids, "text": text}


def main():
    path = pathlib.Path(sys.argv[1])
    ids = json.loads((GOLDEN / f"{path.stem}.json").read_text())["ids"]
    model = open_model(str(path))
    logprob, top = teacher_forced(model, ids)
    golden = {
        "model": path.name,
        "oracle": f"llama-cpp-python {llama_cpp.__version__}",
        "perplexity": float(np.exp(-np.mean(logprob))),
        "ids": ids,
        "top": top,
        "logprob": logprob,
        "greedy": [greedy(model, prompt) for prompt in PROMPTS],
    }
    out = GOLDEN / f"{path.stem}.llama.json"
    lines = [f' "{key}": {json.dumps(value)}' for key, value in golden.items()]
    out.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(out, out.stat().st_size, "bytes; perplexity", golden["perplexity"])


if __name__ == "__main__":
    main()
