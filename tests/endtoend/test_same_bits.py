"""The promise, from outside: one digest whatever the instruction set, threads and chunks."""

import re
import unittest

from harness import FAILURE, GEMMA, PASSAGE, SMOLLM2, USAGE, GyreTest, run


def instruction_sets():
    """What this machine has, from the refusal of an unknown name."""
    done = run("score", "-m", SMOLLM2, "--ids", "1,2", env={"GYRE_ISA": "abacus"})
    assert done.code in (USAGE, FAILURE), done.err
    return re.findall(r"\b(scalar|avx2|avxvnni|avx512vnni|avx512|neon)\b", done.err)


class SameBits(GyreTest):
    def digest(self, *arguments, **options):
        out = self.ok_json("score", *arguments, **options)
        return out["digest"], tuple(out["logprobs"])

    def test_instruction_sets(self):
        sets = instruction_sets()
        self.assertIn("scalar", sets)
        self.assertGreaterEqual(len(sets), 2, sets)
        for model in (SMOLLM2, GEMMA):
            ids = ",".join(map(str, self.ok_json("tokenize", "-m", model, "--file", PASSAGE)["ids"][:24]))
            wanted = self.digest("-m", model, "--ids", ids)
            for name in sets:
                with self.subTest(model=model, isa=name):
                    self.assertEqual(self.digest("-m", model, "--ids", ids, env={"GYRE_ISA": name}), wanted)
                    self.assertEqual(self.digest("-m", model, "--ids", ids, "--isa", name), wanted)

    def test_forcing_is_real(self):
        for name in instruction_sets():
            if name == "scalar":
                continue  # right, but slow in a benchmark
            with self.subTest(isa=name):
                out = self.ok_json("bench", "-m", SMOLLM2, "--prompt", 16, "--gen", 4, "--batch", "1",
                                   env={"GYRE_ISA": name})
                self.assertEqual(out["isa"], name)

    def test_threads(self):
        for model in (SMOLLM2, GEMMA):
            wanted = self.digest("-m", model, "--file", PASSAGE)
            for threads in (1, 2, 3, 7):
                with self.subTest(model=model, threads=threads):
                    self.assertEqual(self.digest("-m", model, "--file", PASSAGE, "--threads", threads), wanted)

    def test_chunks(self):
        for model in (SMOLLM2, GEMMA):
            wanted = self.digest("-m", model, "--file", PASSAGE)
            for chunk in (1, 3, 64, 65, 511, 512):
                with self.subTest(model=model, chunk=chunk):
                    self.assertEqual(self.digest("-m", model, "--file", PASSAGE, "--chunk", chunk), wanted)

    def test_past_two_windows(self):
        """Gemma's sliding window is 512: a text of more than 1,100 tokens, in chunks that straddle it."""
        ids = self.ok_json("tokenize", "-m", GEMMA, "--file", PASSAGE)["ids"]
        text = ",".join(map(str, (ids * (1100 // len(ids) + 1))[:1101]))
        wanted = self.digest("-m", GEMMA, "--ids", text)
        for chunk in (100, 300):
            with self.subTest(chunk=chunk):
                self.assertEqual(self.digest("-m", GEMMA, "--ids", text, "--chunk", chunk), wanted)

    def test_drawn_tokens(self):
        arguments = ("generate", "-m", SMOLLM2, "-p", "Tell me a story.", "-n", 24, "--temp", 1, "--seed", 11)
        wanted = self.ok_json(*arguments)["ids"]
        for name in instruction_sets():
            with self.subTest(isa=name):
                self.assertEqual(self.ok_json(*arguments, "--isa", name)["ids"], wanted)
        for threads in (1, 3):
            with self.subTest(threads=threads):
                self.assertEqual(self.ok_json(*arguments, "--threads", threads)["ids"], wanted)


if __name__ == "__main__":
    unittest.main()
