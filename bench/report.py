"""Tables of `./dev bench`: from measurements to docs/numbers.md."""

import pathlib
import subprocess


def machine():
    """What the reader must know about this machine."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    first = dict(
        (part.strip() for part in line.split(":", 1))
        for line in info.split("\n\n")[0].splitlines()
        if ":" in line
    )
    wanted = ("avx2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8")
    flags = first.get("flags", "").split()
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / f).read_text().strip() for f in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return {
        "cpu": first.get("model name", first.get("CPU part", "unknown")),
        "model": f"family {first.get('cpu family', '?')}, model {first.get('model', '?')}",
        "cores": info.count("processor\t"),
        "caches": ", ".join(caches),
        "flags": ", ".join(f for f in wanted if f in flags),
        "memory": f"{memory:.0f} GiB",
        "compiler": output("g++", "--version").splitlines()[0],
        "system": output("uname", "-sr"),
    }


def output(*command, cwd=None):
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd).stdout.strip()


QUALITY_BEGIN, QUALITY_END = "<!-- quality:begin -->", "<!-- quality:end -->"


def quality_section(path):
    """What bench/quality.py wrote into a numbers file, markers and all; empty if nothing."""
    text = path.read_text() if path.exists() else ""
    if QUALITY_BEGIN not in text or QUALITY_END not in text:
        return ""
    return text[text.index(QUALITY_BEGIN) : text.index(QUALITY_END) + len(QUALITY_END)] + "\n"


def commit(root):
    changed = output("git", "status", "--porcelain", "-uno", "--", "src", "bench", cwd=root)
    return output("git", "rev-parse", "--short=12", "HEAD", cwd=root) + (" with changes" if changed else "")


def prefill_macs(path):
    """Multiplications of one prompt token: every matrix but the embedding and the head."""
    from gguf import GGUFReader

    tensors = GGUFReader(path).tensors
    return sum(int(t.n_elements) for t in tensors if t.name.startswith("blk.") and len(t.shape) == 2)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def speed(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def ratio(a, b):
    return f"{a / b:.2f}x" if b else "-"


def count(number, noun):
    return f"{number} {noun}" + ("" if int(number) == 1 else "s")


def share(a, b):
    return f"{a / b:.0%}" if b else "-"


def peaks(rows):
    """GMAC/s of one core by instruction set, as the kernel bench measured it."""
    found = {}
    for row in rows:
        if row["gemm_share"]:
            found.setdefault(row["isa"], []).append(row["gemm_gmac_per_s"] / row["gemm_share"])
    return {isa: max(values) for isa, values in found.items()}


def model_section(m, peak_of):
    lines = [f"## {pathlib.Path(m['model']).name} ({m['file_mib']:.0f} MiB)", ""]
    a = m["answers"]
    lines += [
        f"Answers first: perplexity of {a['tokens']} tokens differs by {abs(a['perplexity_change']):.2%}; "
        f"{a['greedy_equal']} of 16 greedy tokens are equal. llama.cpp's better setting here: flash "
        f"attention {m['flash']}.",
        "",
    ]
    rows = []
    for threads, pair in m["threads"].items():
        ours, theirs = pair["gyre"], pair["llama"]
        peak = peak_of.get(ours["isa"], 0) * 1e9 * int(threads)
        work = ours["prefill_tokens_per_s"] * m["prefill_macs"]
        rows.append([f"prefill {m['prompt']}, {count(threads, 'thread')}", speed(ours["prefill_tokens_per_s"]),
                     speed(theirs["prefill_tokens_per_s"]),
                     ratio(ours["prefill_tokens_per_s"], theirs["prefill_tokens_per_s"]),
                     share(work, peak) + " of the int8 peak"])
        for batch in ours["decode"]:
            limit = ""
            if batch == "1":
                limit = share(ours["read_gb_per_s"], ours["measured_read_gb_per_s"]) + " of the read rate"
            rows.append([f"decode {m['gen']}, {count(batch, 'stream')}, {count(threads, 'thread')}",
                         speed(ours["decode"][batch]), speed(theirs["decode"][batch]),
                         ratio(ours["decode"][batch], theirs["decode"][batch]), limit])
    lines += table(["tokens a second", "Gyre", "llama.cpp", "ratio", "Gyre's share of the limit"], rows)
    lines += second_core(m) + neighbours(m) + isas(m) + load_and_memory(m)
    return lines


def second_core(m):
    one, two = m["threads"][1], m["threads"][2]
    rows = []
    for name, key in (("Gyre", "gyre"), ("llama.cpp", "llama")):
        rows.append([name, ratio(two[key]["prefill_tokens_per_s"], one[key]["prefill_tokens_per_s"]),
                     ratio(two[key]["decode"]["1"], one[key]["decode"]["1"]),
                     ratio(two[key]["decode"]["8"], two[key]["decode"]["1"])])
    return table(["gain", "prefill, 2nd core", "decode, 2nd core", "8 streams over 1"], rows)


def neighbours(m):
    quiet = {f"{engine} {threads}": m["threads"][threads][engine]["decode"]["1"]
             for engine in ("gyre", "llama") for threads in (1, 2)}
    rows = []
    for name, busy in m["neighbours"].items():
        engine, threads = name.split()
        rows.append([f"{'Gyre' if engine == 'gyre' else 'llama.cpp'}, {count(threads, 'thread')}", speed(quiet[name]),
                     speed(busy), share(busy, m["neighbours"][f"{engine} 1"]),
                     share(busy, quiet[f"{engine} 1"])])
    return table(["decode beside one busy process a core", "quiet", "busy", "of its 1 thread, busy too",
                  "of its 1 thread, quiet"], rows)


def isas(m):
    rows = [[isa, speed(r["prefill_tokens_per_s"]), speed(r["decode_tokens_per_s"]["1"])]
            for isa, r in m["isas"].items()]
    return table(["Gyre by instruction set, 2 threads", "prefill", "decode"], rows)


def load_and_memory(m):
    peak, loads = m["answers"]["peak_mib"], m["loads"]
    rows = [[name, f"{loads[key]['median']:.0f} ms", f"{loads[key]['most']:.0f} ms", f"{peak[key]:.0f} MiB",
             share(peak[key], m["file_mib"])]
            for name, key in (("Gyre", "gyre"), ("llama.cpp, with its Python", "llama"))]
    return table(["7 starts in a row, 2 threads", "to ready, median", "most", "peak resident memory",
                  "of the file"], rows)


def kernel_section(rows):
    lines = ["## Linear kernels, one core", ""]
    for isa, peak in peaks(rows).items():
        lines.append(f"- {isa}: int8 peak {peak:.0f} GMAC/s")
    lines.append("")
    cells = []
    for r in rows:
        cost = r["batch_cost"]
        cells.append([r["isa"], r["format"], f"{r['gemm_gmac_per_s']:.0f}", f"{r['gemm_share']:.0%}",
                      f"{r['gemm8_gmac_per_s']:.0f}", f"{r['gemv_gb_per_s']:.1f}", f"{r['gemv_share']:.0%}",
                      " / ".join(f"{cost[c]:.2f}" for c in ("2", "4", "8"))])
    return lines + table(["set", "format", "384 columns, GMAC/s", "of peak", "8 columns", "1 column, GB/s",
                          "of reads", "2 / 4 / 8 columns cost"], cells)


def attention_section(rows):
    """Each code's speed beside bf16 in the same run, by head size and length."""
    codes = list(dict.fromkeys(r["code"] for r in rows))
    settings = {}
    for r in rows:
        place = (r["what"], r["dim"], r["kv_heads"], r["group"], r["positions"])
        settings.setdefault(place, {})[r["code"]] = r
    cells = []
    for (what, dim, kv_heads, group, positions), by_code in settings.items():
        first = by_code[codes[0]]
        unit = next(key for key in first if "_per_s" in key)
        cells.append([what, f"{kv_heads} x {dim}, group {group}", positions,
                      f"{first[unit]:,.0f} {unit.replace('_per_s', '').replace('_', ' ')}/s",
                      f"{first['share']:.0%}" if first["share"] else ""]
                     + [f"{by_code[c]['speed_of_bf16']:.2f}" if c in by_code else "" for c in codes[1:]])
    lines = ["", "## Attention by code of keys and values, one core", "",
             f"{rows[0]['isa']}. The speed of bf16 and its share of the limit measured beside it (decode: reads; "
             "prefill: f32 fma; scores: int8), then the other codes' speeds, bf16 = 1: turns round the codes, "
             "the best of each.", ""]
    return lines + table(["", "kv heads", "positions", codes[0], "of the limit"] + codes[1:], cells)


def markdown(results):
    m = results["machine"]
    lines = ["# Numbers", ""]
    if results["disturbed"]:
        lines += ["**Other processes disturbed this run: do not quote.**", ""]
    lines += [
        f"Taken {results['date']} at commit {results['commit']} by `./dev bench`: engines in turns, "
        f"{count(results['rounds'], 'round')}, medians. Load average before: {results['load_average']:.2f}; "
        f"other processes between the rounds: {results['foreign']['mean']:.0%} of the CPUs. "
        "Figures drift between machines; the ratios are what counts.",
        "",
        f"- CPU: {m['cpu']} ({m['model']}), {m['cores']} cores, {m['caches']}; {m['flags']}",
        f"- Memory: {m['memory']}; {m['system']}; {m['compiler']}",
        "- llama.cpp: the copy in llama-cpp-python 0.3.36, compiled here for this CPU, its default "
        "repacking, n_batch = n_ubatch = 512",
        "- Commands: `gyre bench -m FILE --prompt 512 --gen 128 --batch 1,8 --threads N --repeats 1 "
        "--json`, `bench/peer.py FILE --threads N --batch 1,8`, `kernel_bench --json`, "
        "`attention_bench --json`",
        "",
    ]
    peak_of = peaks(results["kernels"])
    for model in results["models"]:
        lines += model_section(model, peak_of)
    if results["whole"]:
        lines += kernel_section(results["kernels"])
        lines += attention_section(results["attention"])
    return "\n".join(lines).rstrip() + "\n"
