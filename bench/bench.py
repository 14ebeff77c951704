#!/usr/bin/env python3
"""Gyre beside llama.cpp on this machine: `./dev bench`. Writes docs/numbers.md, or, when other
work disturbed the run, build/numbers.md: disturbed figures are never kept as the project's.

    bench.py [--rounds 5] [--quick] [--no-kernels] [--model FILE ...] [--prompt 512] [--gen 128]
             [--out FILE]

Engines take turns (A B A B …), one process a turn, so that clock and neighbours hit both alike;
medians are reported. Answers are compared first. See report.py for the tables.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("GYRE_BUILD", "build/release")
GYRE, KERNELS = str(BUILD / "gyre"), str(BUILD / "bench/kernel_bench")
ATTENTION = str(BUILD / "bench/attention_bench")
MODELS = ["models/gemma-3-270m-q4_k_m.gguf", "models/SmolLM2-135M-Instruct.Q4_1.gguf"]
PERPLEXITY_LIMIT = 0.01  # engines that disagree more are not doing the same work
QUIET, NOISY = 0.10, 0.30  # share of the CPUs that others may use: on average, at any moment


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


# A child's peak counts what its parent had when it forked, so a small process stands between.
STARTER = """import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)"""


class Child:
    """One finished process: its JSON, and its peak memory in MiB."""

    def __init__(self, command):
        done = subprocess.run(
            [sys.executable, "-c", STARTER, *command], cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        self.json = json.loads(done.stdout)
        self.peak_mib = int(done.stderr.splitlines()[-1]) / 1024


def gyre(verb, *arguments):
    return Child([GYRE, verb, *map(str, arguments), "--json"])


def peer(*arguments):
    return Child([sys.executable, str(ROOT / "bench/peer.py"), *map(str, arguments)])


def cpu_times():
    fields = [int(n) for n in open("/proc/stat").readline().split()[1:9]]
    return sum(fields), fields[3] + fields[4]


def foreign_load(seconds=0.5):
    """Share of the CPUs in use while this program sleeps."""
    total, idle = cpu_times()
    time.sleep(seconds)
    total_after, idle_after = cpu_times()
    return 1 - (idle_after - idle) / max(1, total_after - total)


class Neighbours:
    """One busy process pinned to each CPU that we may use."""

    def __enter__(self):
        spin = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
        self.children = [
            subprocess.Popen([sys.executable, "-c", spin, str(cpu)])
            for cpu in sorted(os.sched_getaffinity(0))
        ]
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()


def median(values):
    values = list(values)
    return statistics.median(values) if values else 0.0


class ModelBench:
    """All measurements of one model file."""

    def __init__(self, model, args, foreign):
        self.model, self.args, self.foreign = model, args, foreign
        self.batches = "1,8"

    def check_answers(self):
        golden = ROOT / "tests/golden/models" / (pathlib.Path(self.model).stem + ".json")
        ids = json.loads(golden.read_text())["ids"][:640]  # fewer tokens leave sampling noise near the limit
        text = ",".join(map(str, ids))
        ours = gyre("score", "-m", self.model, "--ids", text).json["logprobs"]
        theirs = peer(self.model, "--threads", 1, "--score", text).json["logprobs"]
        change = math.exp((sum(theirs) - sum(ours)) / len(ours)) - 1
        if len(ours) != len(theirs) or abs(change) > PERPLEXITY_LIMIT:
            raise SystemExit(f"bench: {self.model}: perplexity differs by {change:.2%}, expected <= 1 %")
        prompt = "The capital of France is"
        ours = gyre("generate", "-m", self.model, "--raw", "--temp", 0, "-n", 16, "-p", prompt)
        theirs = peer(self.model, "--greedy", ",".join(map(str, ours.json["prompt_ids"])))
        pairs = enumerate(zip(ours.json["ids"], theirs.json["ids"]))
        same = next((i for i, (a, b) in pairs if a != b), len(ours.json["ids"]))
        return {
            "perplexity_change": change,
            "tokens": len(ids),
            "greedy_equal": same,
            "text": ours.json["text"],
            "peak_mib": {"gyre": ours.peak_mib, "llama": theirs.peak_mib},
        }

    def choose_flash(self):
        """llama.cpp's better setting of flash attention here: by prefill, then decode."""
        speed = {}
        for flash in ("on", "off"):
            found = peer(self.model, "--threads", 2, "--prompt", self.args.prompt,
                         "--gen", self.args.gen // 4, "--flash", flash).json
            speed[flash] = found["prefill_tokens_per_s"] * found["decode_tokens_per_s"]["1"]
        return max(speed, key=speed.get)

    def interleaved(self, threads, flash):
        ours, theirs = [], []
        for turn in range(self.args.rounds):
            progress(f"{self.model}, {threads} threads, round {turn + 1} of {self.args.rounds}")
            self.foreign.append(foreign_load())
            common = ["--threads", threads, "--prompt", self.args.prompt]
            common += ["--gen", self.args.gen, "--batch", self.batches]
            ours.append(gyre("bench", "-m", self.model, *common, "--repeats", 1))
            theirs.append(peer(self.model, *common, "--flash", flash))
        return {"gyre": self.medians(ours), "llama": self.medians(theirs)}

    def medians(self, turns):
        out = {}
        for key in ("prefill_tokens_per_s", "read_gb_per_s", "measured_read_gb_per_s"):
            out[key] = median(t.json[key] for t in turns if key in t.json)
        out["decode"] = {
            batch: median(t.json["decode_tokens_per_s"][batch] for t in turns)
            for batch in self.batches.split(",")
        }
        out["isa"] = turns[0].json.get("isa", "")
        return out

    def loads(self):
        """Starts in a row, each engine: milliseconds to ready, median and most."""
        out = {}
        for name, start in (
            ("gyre", lambda: gyre("bench", "-m", self.model, "--prompt", 0, "--gen", 0)),
            ("llama", lambda: peer(self.model, "--threads", 2, "--prompt", 0, "--gen", 0)),
        ):
            times = [start().json["load_ms"] for _ in range(7)]
            out[name] = {"median": median(times), "most": max(times)}
        return out

    def beside_neighbours(self, flash):
        runs = {"gyre 1": [], "gyre 2": [], "llama 1": [], "llama 2": []}
        with Neighbours():
            for turn in range(self.args.rounds):
                progress(f"{self.model}, busy neighbours, round {turn + 1} of {self.args.rounds}")
                for name, speeds in runs.items():
                    engine, threads = name.split()
                    common = ["--threads", threads, "--prompt", 0, "--gen", self.args.gen // 4]
                    if engine == "gyre":
                        done = gyre("bench", "-m", self.model, *common, "--batch", 1, "--repeats", 1)
                    else:
                        done = peer(self.model, *common, "--flash", flash)
                    speeds.append(done.json["decode_tokens_per_s"]["1"])
        return {name: median(speeds) for name, speeds in runs.items()}

    def instruction_sets(self):
        out = {}
        for isa in ("avx2", "avxvnni", "avx512vnni", "avx512"):
            command = [GYRE, "bench", "-m", self.model, "--isa", isa, "--threads", "2", "--json"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            if done.returncode == 0:
                out[isa] = json.loads(done.stdout)
            else:
                progress(f"{isa}: {done.stderr.strip()}")
        return out

    def run(self):
        result = {"model": self.model, "file_mib": os.path.getsize(ROOT / self.model) / 2**20}
        result |= {"prompt": self.args.prompt, "gen": self.args.gen}
        result["answers"] = self.check_answers()
        result["flash"] = flash = self.choose_flash()
        result["loads"] = self.loads()
        result["threads"] = {threads: self.interleaved(threads, flash) for threads in (1, 2)}
        result["neighbours"] = self.beside_neighbours(flash)
        result["isas"] = self.instruction_sets()
        result["prefill_macs"] = report.prefill_macs(ROOT / self.model)
        return result


def run_rows(command):
    """A program's rows, one JSON object a line."""
    progress(pathlib.Path(command[0]).name)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {command[0]}: exit {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def kernels(args):
    """Rows of kernel_bench; only the peaks with --no-kernels."""
    return run_rows([KERNELS, "--json"] + (["--format", "q8_0", "--megabytes", "0"] if args.no_kernels else []))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, no kernel table")
    parser.add_argument("--no-kernels", action="store_true")
    parser.add_argument("--model", action="append", help="a model file (both test models)")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prefill test")
    parser.add_argument("--gen", type=int, default=128, help="tokens of the decode test")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.no_kernels = min(args.rounds, 2), True
    if args.rounds < 1:
        parser.error("--rounds: expected at least 1")

    load, foreign = os.getloadavg()[0], [foreign_load(2.0)]
    progress(f"load average {load:.2f}, other processes use {foreign[0]:.0%} of the CPUs")
    if foreign[0] > QUIET:
        progress("this machine is busy: the figures will not be quotable")
    results = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "load_average": load,
        "rounds": args.rounds,
        "machine": report.machine(),
        "commit": report.commit(ROOT),
        "models": [ModelBench(m, args, foreign).run() for m in args.model or MODELS],
        "kernels": kernels(args),
        "attention": [] if args.no_kernels else run_rows([ATTENTION, "--json"]),
        "whole": not args.quick and not args.model and not args.no_kernels
        and (args.prompt, args.gen) == (512, 128),
    }
    results["foreign"] = {"mean": statistics.mean(foreign), "most": max(foreign)}
    disturbed = results["foreign"]["mean"] > QUIET or results["foreign"]["most"] > NOISY
    results["disturbed"] = disturbed
    text = report.markdown(results)
    quotable = results["whole"] and not disturbed
    out = args.out or ROOT / ("docs/numbers.md" if quotable else "build/numbers.md")
    section = report.quality_section(ROOT / "docs/numbers.md")  # of another script
    out.write_text(text + ("\n" + section if section else ""))
    (ROOT / "build/numbers.json").write_text(json.dumps(results, indent=1))
    print(text)
    progress(f"written to {out}")


if __name__ == "__main__":
    main()
