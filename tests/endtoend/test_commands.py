"""What each command prints, on both models (the stable command line)."""

import math
import unittest

from harness import GEMMA, PASSAGE, SMOLLM2, GyreTest, run

PROMPT = "The capital of France is"


class Generate(GyreTest):
    def test_json_fields(self):
        out = self.ok_json("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 4, "--temp", 0)
        self.assertLessEqual({"model", "prompt_ids", "ids", "text", "finish_reason", "timings"}, out.keys())
        self.assertLessEqual({"load_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "first_token_ms"},
                             out["timings"].keys())
        for name, figure in out["timings"].items():
            self.assertGreater(figure, 0, name)
        self.assertEqual(len(out["ids"]), 4)
        self.assertEqual(out["finish_reason"], "length")

    def test_instruct_model_is_asked_in_its_template(self):
        chat = self.ok_json("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 1, "--temp", 0)
        raw = self.ok_json("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 1, "--temp", 0, "--raw")
        plain = self.ok_json("tokenize", "-m", SMOLLM2, "--text", PROMPT)["ids"]
        self.assertEqual(raw["prompt_ids"], plain)
        self.assertGreater(len(chat["prompt_ids"]), len(plain))
        start, end = 1, 2  # <|im_start|>, <|im_end|>
        self.assertEqual(chat["prompt_ids"][0], start)
        self.assertIn(end, chat["prompt_ids"])

    def test_knows_the_capital_of_france(self):
        for model in (SMOLLM2, GEMMA):
            with self.subTest(model=model):
                text = "The capital of Germany is Berlin. " + PROMPT
                out = self.ok_json("generate", "-m", model, "-p", text, "-n", 4, "--temp", 0, "--raw")
                self.assertIn("Paris", out["text"])

    def test_ends_at_the_models_end_token(self):
        out = self.ok_json("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 200, "--temp", 0)
        self.assertEqual(out["finish_reason"], "stop")
        self.assertLess(len(out["ids"]), 200)
        self.assertNotIn("<|im_end|>", out["text"])

    def test_plain_output_is_the_json_text(self):
        arguments = ("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 12, "--temp", 0)
        self.assertEqual(self.ok(*arguments).out.rstrip("\n"), self.ok_json(*arguments)["text"].rstrip("\n"))

    def test_ids_spell_the_text(self):
        out = self.ok_json("generate", "-m", GEMMA, "-p", PROMPT, "-n", 12, "--temp", 0, "--raw")
        ids = ",".join(map(str, out["ids"]))
        self.assertEqual(self.ok("detokenize", "-m", GEMMA, "--ids", ids).out.strip(), out["text"].strip())

    def test_a_seed_decides(self):
        def draw(seed):
            return self.ok_json("generate", "-m", SMOLLM2, "-p", "Once upon a time", "-n", 16, "--temp", 1.2,
                                "--seed", seed, "--raw")["ids"]
        first = draw(7)
        self.assertEqual(draw(7), first)
        self.assertTrue(any(draw(seed) != first for seed in (8, 9, 10)))

    def test_sampler_flags_narrow_the_choice(self):
        greedy = self.ok_json("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 12, "--temp", 0, "--raw")["ids"]
        for flags in (("--top-k", 1), ("--top-p", 0.0001), ("--min-p", 1)):
            with self.subTest(flags=flags):
                drawn = self.ok_json("generate", "-m", SMOLLM2, "-p", PROMPT, "-n", 12, "--temp", 1.5, "--seed", 3,
                                     "--raw", *flags)["ids"]
                self.assertEqual(drawn, greedy)


class Tokens(GyreTest):
    def test_json_fields_and_round_trip(self):
        for model, text in ((SMOLLM2, "Hello, wörld! 🙂 12"), (GEMMA, "Hello, wörld! 🙂 12")):
            with self.subTest(model=model):
                out = self.ok_json("tokenize", "-m", model, "--text", text)
                self.assertEqual(len(out["ids"]), len(out["pieces"]))
                ids = ",".join(map(str, out["ids"]))
                self.assertEqual(self.ok("detokenize", "-m", model, "--ids", ids).out.rstrip("\n"), text)

    def test_a_file_is_the_same_as_its_text(self):
        path = self.file("text.txt", "two words\nnext line".encode())
        self.assertEqual(self.ok_json("tokenize", "-m", GEMMA, "--file", path)["ids"],
                         self.ok_json("tokenize", "-m", GEMMA, "--text", "two words\nnext line")["ids"])

    def test_bos_and_special_tokens_by_choice(self):
        ids = self.ok_json("tokenize", "-m", GEMMA, "--text", "hi")["ids"]
        self.assertEqual(ids[0], 2)
        self.assertEqual(self.ok_json("tokenize", "-m", GEMMA, "--text", "hi", "--no-bos")["ids"], ids[1:])
        special = "<|im_start|>user"
        parsed = self.ok_json("tokenize", "-m", SMOLLM2, "--text", special)["ids"]
        plain = self.ok_json("tokenize", "-m", SMOLLM2, "--text", special, "--no-special")["ids"]
        self.assertEqual(parsed[0], 1)
        self.assertNotIn(1, plain)
        self.assertGreater(len(plain), len(parsed))

    def test_bytes_that_are_not_utf8(self):
        path = self.file("bytes", b"a\xff\xfe\xc3(b\x00c")
        for model in (SMOLLM2, GEMMA):
            with self.subTest(model=model):
                self.assertGreater(len(self.ok_json("tokenize", "-m", model, "--file", path)["ids"]), 3)

    def test_empty_text(self):
        self.assertEqual(self.ok_json("tokenize", "-m", SMOLLM2, "--text", "")["ids"], [])


class Score(GyreTest):
    def test_fields_agree_with_each_other(self):
        for model in (SMOLLM2, GEMMA):
            with self.subTest(model=model):
                out = self.ok_json("score", "-m", model, "--file", PASSAGE)
                self.assertLessEqual({"ids", "logprobs", "perplexity", "digest", "tokens", "seconds"}, out.keys())
                self.assertEqual(out["tokens"], len(out["ids"]))
                self.assertEqual(len(out["logprobs"]), len(out["ids"]) - 1)
                self.assertTrue(all(p <= 0 for p in out["logprobs"]))
                mean = math.fsum(out["logprobs"]) / len(out["logprobs"])
                self.assertAlmostEqual(out["perplexity"] / math.exp(-mean), 1, places=6)
                # English prose: neither certainty nor noise.
                self.assertGreater(out["perplexity"], 5)
                self.assertLess(out["perplexity"], 120)

    def test_ids_are_the_same_as_their_text(self):
        by_file = self.ok_json("score", "-m", SMOLLM2, "--file", PASSAGE)
        by_ids = self.ok_json("score", "-m", SMOLLM2, "--ids", ",".join(map(str, by_file["ids"])))
        self.assertEqual(by_ids["digest"], by_file["digest"])
        self.assertEqual(by_ids["logprobs"], by_file["logprobs"])

    def test_another_text_has_another_digest(self):
        self.assertNotEqual(self.ok_json("score", "-m", SMOLLM2, "--ids", "10,11,12")["digest"],
                            self.ok_json("score", "-m", SMOLLM2, "--ids", "10,11,13")["digest"])


class Others(GyreTest):
    def test_verify(self):
        done = run("verify", "-m", SMOLLM2, "--quick", "--json")
        self.assertEqual(done.code, 0, done.err)
        out = done.json
        self.assertLessEqual({"model", "digest", "axes"}, out.keys())
        self.assertIn("bf16", out["digest"])
        self.assertGreaterEqual(len(out["axes"]), 4)
        for axis in out["axes"]:
            self.assertIs(axis["equal"], True, axis)
            self.assertIs(axis["exercised"], True, axis)
            self.assertGreater(axis["cases"], 0, axis)

    def test_bench(self):
        out = self.ok_json("bench", "-m", SMOLLM2, "--prompt", 32, "--gen", 8, "--batch", "1,2", "--threads", 1)
        self.assertLessEqual({"isa", "threads", "prefill_tokens_per_s", "decode_tokens_per_s", "read_gb_per_s",
                              "measured_read_gb_per_s"}, out.keys())
        self.assertEqual(out["threads"], 1)
        self.assertEqual(set(out["decode_tokens_per_s"]), {"1", "2"})
        self.assertGreater(min(out["decode_tokens_per_s"].values()), 0)

    def test_inspect(self):
        for model, words in ((SMOLLM2, ("llama", "Q4_1", "Q8_0", "blk.29.attn_q.weight", "8192")),
                             (GEMMA, ("gemma3", "Q4_K", "Q6_K", "blk.17.ffn_down.weight", "32768"))):
            out = self.ok("inspect", model).out
            for word in words:
                with self.subTest(model=model, word=word):
                    self.assertIn(word, out)

    def test_help_and_version(self):
        out = self.ok("--help").out
        for command in ("generate", "tokenize", "detokenize", "score", "verify", "bench", "inspect"):
            with self.subTest(command=command):
                self.assertIn(command, out)
                self.assertIn("usage: gyre " + command, self.ok(command, "--help").out)


if __name__ == "__main__":
    unittest.main()
