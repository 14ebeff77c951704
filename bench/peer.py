#!/usr/bin/env python3
"""llama.cpp on one model file, measured as `gyre bench` measures Gyre; one JSON object on stdout.

    peer.py MODEL --threads N [--prompt 512] [--gen 128] [--batch 1,8] [--flash auto|on|off]
    peer.py MODEL --threads N --score ID,ID,...     log-probabilities of given ids
    peer.py MODEL --threads N --greedy ID,ID,...    16 greedy tokens behind given ids

Times cover llama_decode alone: no load, no sampling, no copy into Python. Prefill is one batch of
512 (n_batch = n_ubatch = 512), the best of three behind one warm-up, as Gyre's; weights are repacked for this CPU where llama.cpp
has a layout for them (its default).
"""

import argparse
import ctypes
import json
import time

import llama_cpp as llama
import numpy as np

PREFILL_RUNS = 3
FLASH = {
    "auto": llama.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}


@llama.llama_log_callback
def silent(_level, _text, _data):
    pass


def some_ids(count, vocabulary):
    """The ids that `gyre bench` reads."""
    return [(i * 7919 + 1234) % vocabulary for i in range(count)]


class Peer:
    def __init__(self, path, threads, flash="auto", streams=1, context=1024):
        started = time.perf_counter()
        self.model = llama.llama_model_load_from_file(
            path.encode(), llama.llama_model_default_params()
        )
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        params = llama.llama_context_default_params()
        params.n_ctx = context * streams
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = streams
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = FLASH[flash]
        self.context = llama.llama_init_from_model(self.model, params)
        self.load_ms = (time.perf_counter() - started) * 1e3
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.batch = llama.llama_batch_init(512, 0, 1)

    def close(self):
        llama.llama_batch_free(self.batch)
        llama.llama_free(self.context)
        llama.llama_model_free(self.model)

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def decode(self, tokens, want):
        """tokens: (id, position, stream). want: which of them get logits. Returns seconds."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (token, position, stream) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0] = stream
            batch.logits[i] = want(i)
        started = time.perf_counter()
        if llama.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        llama.llama_synchronize(self.context)
        return time.perf_counter() - started

    def logits(self, row):
        pointer = llama.llama_get_logits_ith(self.context, row)
        return np.ctypeslib.as_array(
            ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self.vocabulary,)
        )

    def prefill(self, count):
        tokens = [(t, i, 0) for i, t in enumerate(some_ids(count, self.vocabulary))]
        runs = []
        for _ in range(PREFILL_RUNS + 1):
            self.clear()
            seconds = 0.0
            for begin in range(0, count, 512):
                part = tokens[begin : begin + 512]
                seconds += self.decode(part, lambda i, part=part: i + 1 == len(part))
            runs.append(seconds)
        return count / min(runs[1:])  # the first warms up

    def generate(self, count, streams):
        self.clear()
        following, seconds = some_ids(streams, self.vocabulary), 0.0
        for position in range(count):
            step = [(t, position, stream) for stream, t in enumerate(following)]
            seconds += self.decode(step, lambda i: True)
            following = [int(self.logits(i).argmax()) for i in range(streams)]
        return count * streams / seconds

    def score(self, ids):
        logprobs = []
        for begin in range(0, len(ids), 128):
            part = ids[begin : begin + 128]
            self.decode([(t, begin + i, 0) for i, t in enumerate(part)], lambda i: True)
            for i in range(len(part)):
                if begin + i + 1 < len(ids):
                    row = self.logits(i).astype(np.float64)
                    largest = row.max()
                    total = largest + np.log(np.exp(row - largest).sum())
                    logprobs.append(float(row[ids[begin + i + 1]] - total))
        return logprobs

    def greedy(self, ids, count=16):
        self.decode([(t, i, 0) for i, t in enumerate(ids)], lambda i: i + 1 == len(ids))
        out = [int(self.logits(len(ids) - 1).argmax())]
        while len(out) < count:
            self.decode([(out[-1], len(ids) + len(out) - 1, 0)], lambda i: True)
            out.append(int(self.logits(0).argmax()))
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--gen", type=int, default=128)
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--flash", choices=FLASH, default="auto")
    parser.add_argument("--score", type=numbers)
    parser.add_argument("--greedy", type=numbers)
    args = parser.parse_args()
    llama.llama_log_set(silent, None)
    llama.llama_backend_init()

    peer = Peer(args.model, args.threads, args.flash)
    out = {"load_ms": peer.load_ms}
    if args.score:
        out["logprobs"] = peer.score(args.score)
    elif args.greedy:
        out["ids"] = peer.greedy(args.greedy)
    else:
        if args.prompt:
            out["prefill_tokens_per_s"] = peer.prefill(args.prompt)
        out["decode_tokens_per_s"] = {}
        for streams in args.batch if args.gen else []:
            if streams > 1:
                peer.close()
                peer = Peer(args.model, args.threads, args.flash, streams)
            out["decode_tokens_per_s"][str(streams)] = peer.generate(args.gen, streams)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
