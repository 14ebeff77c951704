"""Key-value schemes and saved rows, from outside."""

import json
import os
import pathlib
import unittest

from harness import FAILURE, GEMMA, PASSAGE, SMOLLM2, USAGE, GyreTest, run

KEYS = ("kv8", "kv4-g32-start70", "turbo-k8v4", "anchor-k4v4-start100")


class Schemes(GyreTest):
    def test_score_names_its_scheme_and_codes_change_bits(self):
        for model in (SMOLLM2, GEMMA):
            digests = {}
            for key in ("bf16", *KEYS):
                out = self.ok_json("score", "-m", model, "--file", PASSAGE, "--limit", 140, "--kv", key)
                self.assertEqual(out["scheme"], key)
                digests[key] = out["digest"]
            self.assertEqual(len(set(digests.values())), len(digests), digests)

    def test_a_start_is_a_position(self):
        """Positions below the start have the bits of bf16, whatever the chunk."""
        bf16 = self.ok_json("score", "-m", SMOLLM2, "--file", PASSAGE, "--limit", 140)["logprobs"]
        digests = set()
        for chunk in (512, 64, 33):
            out = self.ok_json("score", "-m", SMOLLM2, "--file", PASSAGE, "--limit", 140, "--kv", "kv4-start70",
                               "--chunk", chunk)
            digests.add(out["digest"])
            self.assertEqual(out["logprobs"][:70], bf16[:70])
            self.assertNotEqual(out["logprobs"][70:], bf16[70:])
        self.assertEqual(len(digests), 1)

    def test_schemes_beside_each_other(self):
        out = self.ok_json("score", "-m", SMOLLM2, "--file", PASSAGE, "--limit", 140, "--kv", "kv8", "--against", "bf16")
        self.assertEqual((out["scheme"], out["against"], out["tokens"]), ("kv8", "bf16", 140))
        self.assertGreater(out["kl"], 0)
        self.assertLess(out["kl"], 0.05)
        self.assertGreater(out["same_top"], 0.9)
        own = self.ok_json("score", "-m", SMOLLM2, "--file", PASSAGE, "--limit", 140)["perplexity"]
        self.assertAlmostEqual(out["against_perplexity"] / own, 1, places=6)

    def test_inspect_counts_bytes(self):
        kv = self.ok_json("inspect", GEMMA, "--kv", "turbo-k8v4", "--ctx", 1000)["kv"]
        self.assertEqual(kv["layers"], {"bf16": 15, "turbo-k8v4": 3})
        self.assertEqual(kv["attention"], {"global": 3, "sliding_window": 15})
        # 1 kv head of 256: 4 bytes a value pair in bf16, 512 positions in a window; 8 + 4 bits and two factors.
        self.assertEqual(kv["bytes"], 15 * 512 * 1024 + 3 * 1000 * (256 + 128 + 8))
        self.assertEqual(kv["bf16_bytes"], 15 * 512 * 1024 + 3 * 1000 * 1024)
        self.assertIn("kv anchor-k4v4:", self.ok("inspect", SMOLLM2, "--kv", "anchor-k4v4").out)

    def test_bench_takes_a_scheme(self):
        out = self.ok_json("bench", "-m", SMOLLM2, "--kv", "kv8", "--prompt", 70, "--gen", 4, "--repeats", 1)
        self.assertEqual(out["scheme"], "kv8")

    def test_bad_keys_are_refused_by_name(self):
        for key, expected in (("kv7", "kv bits: 7, expected 2, 3, 4, 5, 6 or 8"), ("kv4-g48", "kv group: 48"),
                              ("kv8-start0", "its shortest form, kv8"), ("turbo", "kv scheme: turbo, expected bf16")):
            for command in (("score", "--ids", "1,2"), ("generate", "-p", "x"), ("bench",), ("verify",)):
                with self.subTest(key=key, command=command[0]):
                    self.refused(USAGE, "--kv: .*" + expected, command[0], "-m", SMOLLM2, *command[1:], "--kv", key)
        self.refused(FAILURE, "kv8-g128: layer 0: K: group: 128, expected a divisor of the head size 64",
                     "score", "-m", SMOLLM2, "--ids", "1,2", "--kv", "kv8-g128")

    def test_a_config_beside_the_model(self):
        model = str(self.folder / "model.gguf")
        os.symlink(SMOLLM2, model)
        score = ("score", "-m", model, "--file", PASSAGE, "--limit", 100)
        self.refused(FAILURE, "kv_config.json", *score, "--kv", "config")
        config = self.folder / "kv_config.json"
        config.write_text(json.dumps([{"layer_idx": 0, "bits": 4, "group_size": 64}, {"layer_idx": 3, "code": "turbo-k8v4"}]))
        mixed = self.ok_json(*score, "--kv", "config")
        self.assertEqual(mixed["scheme"], "config")
        self.assertNotEqual(mixed["digest"], self.ok_json(*score)["digest"])
        layers = self.ok_json("inspect", model, "--kv", "config")["kv"]["layers"]
        self.assertEqual(layers, {"kv4": 1, "bf16": 28, "turbo-k8v4": 1})
        config.write_text(json.dumps([{"layer_idx": 30, "bits": 4, "group_size": 64}]))
        self.refused(FAILURE, "entry 0: layer_idx: 30, expected one of the model's 30 caches", *score, "--kv", "config")
        config.write_text(json.dumps([{"layer_idx": 0, "code": "turbo-k9v4"}]))
        self.refused(FAILURE, "entry 0: code: turbo key bits: 9", *score, "--kv", "config")


class SavedRows(GyreTest):
    PROMPT = "Once upon a time there was a river that"

    def continued(self, model, *settings, again=()):
        """-n 40 at once, and 20, a file, 20; `again` is said at the second start only."""
        state = str(self.folder / "row.state")
        start = ("generate", "-m", model, "-p", self.PROMPT, "--ignore-eos", *settings)
        whole = self.ok_json(*start, "-n", 40)
        first = self.ok_json(*start, "-n", 20, "--save-state", state)
        second = self.ok_json("generate", "-m", model, "--load-state", state, "-n", 20, *again)
        self.assertEqual(first["ids"], whole["ids"][:20])
        self.assertEqual(second["ids"], whole["ids"][20:])
        self.assertEqual(first["text"] + second["text"], whole["text"])
        self.assertEqual(second["prompt_ids"], whole["prompt_ids"] + first["ids"])
        return second

    def test_the_last_20_of_40(self):
        for model in (SMOLLM2, GEMMA):
            for key in ("bf16", *KEYS):
                with self.subTest(model=model, key=key):
                    out = self.continued(model, "--temp", 0, "--kv", key)
                    self.assertEqual(out["scheme"], key)

    def test_sampled_with_the_same_seed(self):
        for key in ("bf16", "anchor-k4v4"):
            with self.subTest(key=key):
                self.continued(SMOLLM2, "--temp", 1.1, "--seed", 9, "--repeat-penalty", 1.2, "--kv", key)
        self.continued(SMOLLM2, "--temp", 1.1, "--seed", 9, again=("--temp", 1.1, "--seed", 9))

    def test_a_row_that_ended_stays_ended(self):
        state = str(self.folder / "row.state")
        first = self.ok_json("generate", "-m", SMOLLM2, "-p", "The capital of France is", "--temp", 0, "--save-state", state)
        self.assertEqual(first["finish_reason"], "stop")
        again = self.ok_json("generate", "-m", SMOLLM2, "--load-state", state, "-n", 5)
        self.assertEqual((again["ids"], again["finish_reason"]), ([], "stop"))

    def test_states_are_refused_by_name(self):
        state = self.folder / "row.state"
        self.ok("generate", "-m", SMOLLM2, "-p", self.PROMPT, "-n", 4, "--temp", 0, "--kv", "kv8", "--save-state", state)
        load = ("generate", "-n", 4, "--load-state")
        self.refused(FAILURE, "model", *load, state, "-m", GEMMA)
        self.refused(FAILURE, "scheme", *load, state, "-m", SMOLLM2, "--kv", "kv4")
        self.refused(USAGE, "--prompt: given, expected nothing beside --load-state", *load, state, "-m", SMOLLM2, "-p", "x")
        self.refused(FAILURE, "none.state", *load, self.folder / "none.state", "-m", SMOLLM2)
        self.refused(FAILURE, r"passage\.txt", *load, PASSAGE, "-m", SMOLLM2)
        data = state.read_bytes()
        for size in (0, 7, 64, len(data) // 2, len(data) - 1):
            with self.subTest(size=size):
                self.refused(FAILURE, "cut", *load, self.file("cut", data[:size]), "-m", SMOLLM2)
        for at in (0, 20, 200, len(data) // 2, len(data) - 3):
            with self.subTest(at=at):
                flipped = bytearray(data)
                flipped[at] ^= 16
                self.refused(FAILURE, "flipped", *load, self.file("flipped", bytes(flipped)), "-m", SMOLLM2)
        # And the untouched file still serves.
        self.assertEqual(len(self.ok_json(*load, state, "-m", SMOLLM2, "--ignore-eos")["ids"]), 4)

    def test_a_state_that_cannot_be_written(self):
        path = self.folder / "no" / "row.state"
        done = run("generate", "-m", SMOLLM2, "-p", "x", "-n", 1, "--save-state", path)
        self.assertEqual(done.code, FAILURE)
        self.assertIn("row.state", done.err)
        self.assertFalse(pathlib.Path(path).exists())


if __name__ == "__main__":
    unittest.main()
