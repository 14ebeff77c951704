"""Wrong command lines and requests: one line on stderr, exit 2 for usage and 1 otherwise, no signal."""

import os
import resource
import subprocess
import unittest

from harness import FAILURE, GEMMA, GYRE, SMOLLM2, USAGE, GyreTest, run


class Usage(GyreTest):
    def test_commands_and_flags(self):
        for pattern, arguments in (
                ("sing", ("sing",)),
                ("--loud", ("generate", "-m", SMOLLM2, "-p", "a", "--loud")),
                ("-m", ("generate", "-p", "a")),
                ("-m", ("score", "--ids", "1,2")),
                ("-p", ("generate", "-m", SMOLLM2)),
                ("-n", ("generate", "-m", SMOLLM2, "-p", "a", "-n")),
                ("extra", ("generate", "-m", SMOLLM2, "-p", "a", "extra")),
                ("model", ("inspect",)),
        ):
            with self.subTest(arguments=arguments):
                self.refused(USAGE, pattern, *arguments)

    def test_no_command_shows_the_usage(self):
        done = run()
        self.assertEqual((done.code, done.out), (USAGE, ""))
        self.assertIn("generate", done.err)

    def test_values(self):
        start = ("generate", "-m", SMOLLM2, "-p", "a")
        for flag, values in (("-n", ("x", "-1", "1e3", "", "99999999999999999999")),
                             ("--temp", ("hot", "-1", "nan", "inf")),
                             ("--top-k", ("-1", "x", "1.5")),
                             ("--top-p", ("-0.1", "1.1", "nan")),
                             ("--min-p", ("-0.1", "2")),
                             ("--seed", ("-1", "x", "18446744073709551616")),
                             ("--threads", ("0", "-1", "x", "100000")),
                             ("--kv", ("kv99", "")),
                             ("--isa", ("abacus",))):
            for value in values:
                with self.subTest(flag=flag, value=value):
                    self.refused(USAGE, flag.lstrip("-") + ".*expected", *start, flag, value)
        self.refused(USAGE, "--chunk.*expected", "score", "-m", SMOLLM2, "--ids", "1,2", "--chunk", "0")

    def test_environment(self):
        self.refused(USAGE, "abacus.*expected.*scalar", "score", "-m", SMOLLM2, "--ids", "1,2",
                     env={"GYRE_ISA": "abacus"})

    def test_either_text_or_file(self):
        self.refused(USAGE, "--text", "tokenize", "-m", SMOLLM2, "--json")
        self.refused(USAGE, "--text", "tokenize", "-m", SMOLLM2, "--text", "a", "--file", "b", "--json")
        self.refused(USAGE, "--ids", "score", "-m", SMOLLM2, "--json")
        self.refused(USAGE, "--ids", "score", "-m", SMOLLM2, "--ids", "1,2", "--text", "a")


class Requests(GyreTest):
    def test_ids(self):
        for ids in ("49152", "-1", "2147483648", "99999999999999999999", "1,x", "a", "1;2", ""):
            for command in ("score", "detokenize"):
                if (command, ids) != ("detokenize", ""):  # nothing is the text of no tokens
                    with self.subTest(command=command, ids=ids):
                        self.refused(USAGE, "expected", command, "-m", SMOLLM2, "--ids", ids)

    def test_empty_prompt(self):
        self.refused(USAGE, "prompt.*empty|prompt.*expected", "generate", "-m", SMOLLM2, "-p", "", "--raw")

    def test_nothing_to_score(self):
        self.refused(USAGE, "expected", "score", "-m", SMOLLM2, "--file", self.file("empty", b""))

    def test_prompt_longer_than_the_context(self):
        self.refused(FAILURE, "expected at most 819[12]", "generate", "-m", SMOLLM2, "-p", "a b " * 5000, "-n", 1)

    def test_missing_files(self):
        self.refused(FAILURE, "nowhere.gguf.*No such file", "generate", "-m", self.folder / "nowhere.gguf", "-p", "a")
        self.refused(FAILURE, "nowhere.txt.*No such file", "score", "-m", SMOLLM2, "--file", self.folder / "nowhere.txt")
        self.refused(FAILURE, "expected|directory", "inspect", self.folder)


class Surroundings(GyreTest):
    def test_out_of_memory(self):
        # Little address space: something fails, and says so.
        for megabytes in (64, 160, 260):
            with self.subTest(megabytes=megabytes):
                limit = megabytes << 20
                done = run("generate", "-m", GEMMA, "-p", "a", "-n", 1, "--threads", 1,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                self.assertEqual(done.code, FAILURE, done.err)
                self.assertRegex(done.err, r"\Agyre: [^\n]+\n\Z")

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([GYRE, "generate", "-m", SMOLLM2, "-p", "a", "-n", "4"], stdin=subprocess.DEVNULL,
                                  stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, FAILURE)
        self.assertRegex(done.stderr.decode().splitlines()[-1], r"^gyre: ")

    def test_reader_that_leaves(self):
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run([GYRE, "generate", "-m", SMOLLM2, "-p", "a", "-n", "4"], stdin=subprocess.DEVNULL,
                                  stdout=write, stderr=subprocess.PIPE)
        finally:
            os.close(write)
        self.assertEqual(done.returncode, FAILURE, done.stderr)


if __name__ == "__main__":
    unittest.main()
