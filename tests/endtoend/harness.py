"""Runs the gyre binary as a user does. GYRE names the binary (default: the release build's)."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GYRE = os.environ.get("GYRE", str(ROOT / "build/release/gyre"))
SMOLLM2 = str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
GEMMA = str(ROOT / "models/gemma-3-270m-q4_k_m.gguf")
PASSAGE = str(pathlib.Path(__file__).with_name("passage.txt"))
USAGE, FAILURE = 2, 1
ERROR_LINE = re.compile(r"gyre: [^\n]+\n")


class Done:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


def run(*arguments, env=None, stdin=None, timeout=600, **popen):
    """stdout and stderr as text; bytes that are not UTF-8 become lone surrogates."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GYRE_")}
    environment.update(env or {})
    done = subprocess.run([GYRE, *map(str, arguments)], capture_output=popen.pop("capture", True), env=environment,
                          stdin=subprocess.DEVNULL if stdin is None else stdin, timeout=timeout, **popen)
    text = [s.decode("utf-8", "surrogateescape") if s is not None else "" for s in (done.stdout, done.stderr)]
    return Done(done.returncode, *text)


class GyreTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for path, remedy in ((GYRE, "./dev build"), (SMOLLM2, "./dev models"), (GEMMA, "./dev models")):
            if not os.path.exists(path):
                raise AssertionError(f"{path}: missing, expected after {remedy}")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gyre-endtoend-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def ok(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.code, 0, f"gyre {' '.join(map(str, arguments))}\n{done.err}")
        return done

    def ok_json(self, *arguments, **options):
        return self.ok(*arguments, "--json", **options).json

    def refused(self, code, pattern, *arguments, **options):
        """Exit status, and one line `gyre: ...` on stderr that matches; nothing on stdout."""
        done = run(*arguments, **options)
        self.assertEqual(done.code, code, f"gyre {' '.join(map(str, arguments))}\n{done.out[:500]}{done.err}")
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, ERROR_LINE)
        self.assertEqual(done.err.count("\n"), 1, done.err)
        self.assertRegex(done.err, pattern)
        return done
