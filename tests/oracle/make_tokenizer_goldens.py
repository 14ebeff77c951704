#!/usr/bin/env python3
"""Token ids of llama.cpp (through llama-cpp-python) for many strings -> tests/golden/tokenizer/.

Needs: pip install llama-cpp-python==0.3.36 gguf tokenizers; models/*.gguf (./dev fetches them);
models/vocab/ggml-vocab-*.gguf from the source package of llama-cpp-python (vendor/llama.cpp/models).
Files: strings.txt (escaped, one a line), toy_bpe.txt and toy_spm.txt (small vocabularies),
<case>.txt: lines `ids MODE I: ids..` for some strings, then `MODE blocks N of COUNT: hashes`, one hash
for N strings, and `pieces`, `eog` over all tokens. Modes: 11 = add_special parse_special, 00, 01, 10.
"""
import argparse, ctypes, pathlib, random, re, tempfile
import gguf
import llama_cpp as L
from tokenizers import Tokenizer, models, trainers

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "tests/golden/tokenizer"
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>",
            "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<unused5>", "<unused55>", "[multimodal]", "<table>", "<|user|>",
            "<|end|>", "<|assistant|>", "<|eot_id|>", "<|begin_of_text|>", "<|fim_prefix|>", "<repo_name>", "<h1>",
            "</h1>", "<0x0A>", "<file_sep>", "<|begin", "of_turn>", "<｜User｜>", "<｜end▁of▁sentence｜>"]
WORDS = """the quick brown fox It's I'll we've You'RE don't DON'T they'd I'm o'clock hello World HELLO camelCase
snake_case __init__ foo(bar) x=1; a+b 3.14 1,000,000 2026-11-30 $5.00 50% C++ naïve café Ärger straße İstanbul Привет
мир Ελλάδα ΣΊΣΥΦΟΣ 你好 世界 漢字かな交じり文 カタカナ 한국어 텍스트 שלום עולם مرحبا بالعالم नमस्ते हिन्दी ไทยแลนด์ বাংলা தமிழ்
የአማርኛ ⅷ ½ ① ² ٣٤٥ १२३ ６７８ 😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 e\u0301 a\u0308\u0323 \u200b \u00ad \u2028 \ufeff « » “quotes” ‘x’ — … ™ € ∑ → ■
ﬁ Ⅳ ǅ ʰ ª ー ・ 。 、 ！ ～ ！？ 1a a1 a1b2 12345678 0x1F 'twas 's 'S 'll 'LL 'Re '' ' 'ſ ’s""".split()
SPACES = [" ", "  ", "   ", "    ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r", " \n", "\n ", "\t \n", "\u00a0",
          "\u3000", "\u2003 ", "\v", "\f", "\x85", "", "", "", " ", " ", " "]
CODE = ["def f(x):\n    return x**2  # square\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n\n",
        "<html>\r\n  <body class=\"x\">&amp;</body>\r\n</html>", "SELECT * FROM t WHERE a<>'b' AND c>=10;",
        "{\"key\": [1, 2.5e-3, null, true], \"s\": \"\\u00e9\\n\"}", "if err != nil { return fmt.Errorf(\"%w\", err) }",
        "x = np.zeros((3,4))\n\n\n\ny  =  x@x.T\n", "#!/bin/sh\nset -eu; echo \"$HOME\" | sed 's/a/b/g'\n"]


def make_strings(rng):
    out = ["", " ", "  ", "\n", "a", " a", "a ", "▁", "▁▁a", " ▁ ", ">▁</", "> </", ">▁</ >"]
    out = [s.encode() for s in out]
    out += [bytes([b]) for b in range(256)]
    out += [bytes([97, b, 98]) for b in range(128, 256)]
    out += [s.encode() for s in CODE + SPECIALS + WORDS]
    for _ in range(700):  # sentences
        out.append("".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randint(1, 9))).encode())
    for _ in range(250):  # special tokens glued to text
        parts = [rng.choice(SPECIALS + WORDS[:20] + SPACES) for _ in range(rng.randint(2, 8))]
        out.append("".join(parts).encode())
    for _ in range(250):  # assigned and unassigned code points of all planes
        n = rng.randint(1, 12)
        pick = lambda: rng.choice([rng.randrange(0x20, 0x500), rng.randrange(0x500, 0x3000), rng.randrange(0x3000, 0xd800),
                                   rng.randrange(0xe000, 0x20000), rng.randrange(0x20000, 0x110000)])
        out.append("".join(chr(pick()) for _ in range(n)).encode())
    for _ in range(250):  # random bytes, broken UTF-8
        base = bytearray("".join(rng.choice(WORDS) + " " for _ in range(3)).encode())
        for _ in range(rng.randint(1, 4)):
            base[rng.randrange(len(base))] = rng.randrange(256)
        out.append(bytes(base) if rng.random() < .6 else rng.randbytes(rng.randint(1, 16)))
    for _ in range(250):  # digits, punctuation, white space
        alphabet = rng.choice(["0123456789", "0123456789 .,", " \n\t\r", " \n", "!?.,;:'\"-_()[]{}", " a1.\n'", "aA \n", "٣4 五",
                               "🙂\u0301a ", "'sStTrReEvVlLdDmM ", "é\u0301漢a ", "/\n. a"])
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))).encode())
    for text in ["a", " ", "\n", "1", "🙂", "\u0301", "ab", " a", "\r\n", "é", "漢", "=", "\t", "<", "A"]:
        for n in (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257):
            out.append(text.encode() * n)
    # llama.cpp's BPE throws on code points above U+10FFFF.
    bad = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
    return [s for s in dict.fromkeys(out) if not bad.search(s)]


def escape(raw):
    return "".join(chr(b) if 33 <= b < 127 and b != 92 else "\\%02x" % b for b in raw)


def fnv(values, h=0xCBF29CE484222325):
    for v in values:
        for b in v.to_bytes(4, "little") if isinstance(v, int) else v:
            h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


class Oracle:
    def __init__(self, path):
        params = L.llama_model_default_params()
        params.vocab_only = True
        self.model = L.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, path
        self.vocab = L.llama_model_get_vocab(self.model)
        self.n = L.llama_vocab_n_tokens(self.vocab)

    def encode(self, text, add, parse):
        buf = (L.llama_token * (len(text) * 4 + 16))()
        n = L.llama_tokenize(self.vocab, text, len(text), buf, len(buf), add, parse)
        assert n >= 0
        return list(buf[:n])

    def piece(self, i, special):
        buf = ctypes.create_string_buffer(4096)
        n = L.llama_token_to_piece(self.vocab, i, buf, 4096, 0, special)
        assert n >= 0
        return buf.raw[:n]

    def close(self):
        L.llama_model_free(self.model)


def write_case(name, oracle, strings, modes, block, full, pieces=True, append=False):
    lines = []
    for mode in modes:
        ids = [oracle.encode(s, mode[0] == "1", mode[1] == "1") for s in strings]
        lines += ["ids %s %d: %s" % (mode, i, " ".join(map(str, ids[i]))) for i in full if len(ids[i]) < 120]
        hashes = [fnv([x for v in ids[i:i + block] for x in v + [0xFFFFFFFF]]) & 0xFFFFFFFF for i in range(0, len(ids), block)]
        lines.append("%s blocks %d of %d : %s" % (mode, block, len(ids), "".join("%08x" % h for h in hashes)))
    if pieces:
        # llama.cpp shows characters outside the byte alphabet as [UNK_BYTE_..], Gyre as themselves.
        strange = [i for i in range(oracle.n) if b"[UNK_BYTE_" in oracle.piece(i, True)]
        known = sorted(set(range(oracle.n)) - set(strange))
        lines.append("pieces: %016x %016x %s" % (*(
            fnv(b for i in known for b in [oracle.piece(i, s), b"\xff"]) for s in (True, False)), " ".join(map(str, strange))))
        eog = [i for i in range(oracle.n) if L.llama_vocab_is_eog(oracle.vocab, i)]
        control = [i for i in range(oracle.n) if L.llama_vocab_get_attr(oracle.vocab, i) & (1 | 8)]
        lines.append("eog: " + " ".join(map(str, eog)))
        lines.append("special: %d %016x" % (len(control), fnv(control)))
    (OUT / (name + ".txt")).write_text("\n".join(lines) + "\n")
    print(name, flush=True)


def byte_alphabet():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def toy_bpe(strings, rng):
    """Merges learned over whole strings: they cross every word boundary, so splits show in the ids."""
    spell = byte_alphabet()
    corpus = ["".join(spell[b] for b in s) for s in strings if len(s) < 300]
    tok = Tokenizer(models.BPE())
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=2400, initial_alphabet=list(spell.values()),
                                                        show_progress=False, max_token_length=8))
    import json
    data = json.loads(tok.to_str())["model"]
    tokens = sorted(data["vocab"], key=data["vocab"].get)
    merges = [" ".join(m) if isinstance(m, list) else m for m in data["merges"]]
    extra = [("<|im_start|>", 3), ("<|im_end|>", 3), ("<s>", 3), ("</s>", 3), ("<|end", 4), ("  ", 4), ("   ", 4),
             ("<h1>", 4), ("of_turn>", 4), ("<unused5>", 3), ("<unused55>", 5), ("<mask>", 2)]
    extra = [e for e in extra if e[0] not in data["vocab"]]
    return tokens + [t for t, _ in extra], [1] * len(tokens) + [k for _, k in extra], merges


def toy_spm(rng):
    chars = list(dict.fromkeys("".join(WORDS) + "▁.,\n\t"))
    tokens = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)] + [("<0x%02X>" % b, 0, 6) for b in range(256)]
    seen = {t for t, _, _ in tokens}
    words = ["▁" + w for w in WORDS] + WORDS + ["▁▁", "▁▁▁", "▁▁▁▁", "\n\n", "e▁f", "n▁", "▁\n"]
    for w in words:
        for a in range(len(w)):
            for b in range(a + 2, min(a + 5, len(w)) + 1):
                if w[a:b] not in seen and rng.random() < .6:
                    seen.add(w[a:b])
                    tokens.append((w[a:b], -float(rng.randrange(300)), 1))
    tokens += [(c, -1000.0, 1) for c in chars if c not in seen and rng.random() < .8]
    for t, k in [("<|im_start|>", 3), ("<|im_end|>", 4), ("<h1>", 4), ("▁▁▁▁▁", 4), ("<unused5>", 5), ("<mask>", 3), ("aa", 4),
                 ("aaa", 4), ("aba", 4)]:
        if t not in seen:
            tokens.append((t, 0.0, k))
    return tokens


def write_gguf(path, model, pre, tokens, types, merges=None, scores=None, **more):
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_tokenizer_model(model)
    if pre:
        w.add_tokenizer_pre(pre)
    w.add_token_list([t.encode() for t in tokens])
    w.add_token_types(types)
    if merges:
        w.add_token_merges(merges)
    if scores:
        w.add_token_scores(scores)
    for key, value in more.items():
        (w.add_bool if isinstance(value, bool) else w.add_uint32)("tokenizer.ggml." + key, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


PRES = """default llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe chatglm-bpe glm4 glm5 gpt-2 phi-2
gigachat a.x-4.0 mellum modern-bert mpt olmo jais exaone4 trillion granite-docling starcoder refact command-r smollm codeshell
exaone minerva-7b mellum2 qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan megrez solar-open grok-2 qwen35 ufakzeka
seed-coder bailingmoe bailingmoe2 llada-moe minicpm5 laguna falcon deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense hy_v4
joyai-llm poro-chat bloom gpt3-finnish viking tekken gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m
kimi-k2""".split()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    rng = random.Random(20261130)
    OUT.mkdir(parents=True, exist_ok=True)
    strings = make_strings(rng)
    more = random.Random(1)  # for the real vocabularies only: the oracle is slow on some patterns
    everything = list(dict.fromkeys(strings + make_strings(more)))[:len(strings) + 400]
    (OUT / "strings.txt").write_text("".join(escape(s) + "\n" for s in everything))
    print(len(strings), "strings,", len(everything), "for real vocabularies")
    full = list(range(0, 12)) + list(range(500, len(strings), 23))
    tmp = pathlib.Path(tempfile.mkdtemp())
    wanted = lambda name: only in name

    tokens, types, merges = toy_bpe(strings, rng)
    (OUT / "toy_bpe.txt").write_text("".join("%d %s\n" % (k, escape(t.encode())) for t, k in zip(tokens, types)) +
                                     "".join("m %s\n" % escape(m.encode()) for m in merges))
    for pre in PRES:
        if wanted("toy_bpe." + pre):
            write_gguf(tmp / "x.gguf", "gpt2", pre, tokens, types, merges, bos_token_id=tokens.index("<s>"),
                       eos_token_id=tokens.index("</s>"), add_eos_token=True)
            oracle = Oracle(tmp / "x.gguf")
            write_case("toy_bpe." + pre, oracle, strings, ["11", "00"], 16, [], pieces=pre == "default")
            oracle.close()
    spm = toy_spm(rng)
    (OUT / "toy_spm.txt").write_text("".join("%d %r %s\n" % (k, s, escape(t.encode())) for t, s, k in spm))
    for name, more in [("prefix", {}), ("plain", dict(add_space_prefix=False, add_bos_token=False, add_eos_token=True))]:
        if wanted("toy_spm." + name):
            write_gguf(tmp / "x.gguf", "llama", None, [t for t, _, _ in spm], [k for _, _, k in spm], None,
                       [float(s) for _, s, _ in spm], bos_token_id=1, eos_token_id=2, unknown_token_id=0, **more)
            oracle = Oracle(tmp / "x.gguf")
            write_case("toy_spm." + name, oracle, strings, ["11", "00"], 8, full[::4])
            oracle.close()
    for name in ["SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"]:
        if wanted(name):
            oracle = Oracle(ROOT / "models" / (name + ".gguf"))
            write_case(name, oracle, everything, ["11", "10", "01", "00"], 2, full)
            oracle.close()
    for path in sorted((ROOT / "models/vocab").glob("ggml-vocab-*.gguf")):
        name = path.stem
        if not any(x in name for x in ("bert", "aquila", "neox")) and wanted(name):
            oracle = Oracle(path)
            write_case("vocab." + name, oracle, everything, ["11", "00"], 32, full[::8])
            oracle.close()


main()
