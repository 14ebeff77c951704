"""Checks that the tree holds only what belongs there.

No paths of one machine, no package registry's host names, no secrets, no weights, no built
binaries, no file over a megabyte. Looks at what git tracks or would add.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIZE_LIMIT = 1_000_000
TINY = 65_536  # tests may hold model files of this size

# Written so that no pattern matches its own text.
TEXT_RULES = {
    "machine path": re.compile(
        r"(?<![\w.$}~-])/(?:work|farm|root|mnt|opt/(?:ref|wheels)|(?:home|Users|tmp)/[a-z]\w*)/\w"),
    "planning folder": re.compile(r"\bshared/(?:design|research|prototypes|seeds|semantics)"),
    "registry host": re.compile(
        r"pypi\.org|pythonhosted\.org|(?:deb|security|snapshot)\.debian\.org|registry\.npmjs|"
        r"proxy\.golang\.org|static\.crates\.io", re.I),
    "secret": re.compile(
        r"BEGIN (?:[A-Z]+ )*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{30,}|\bxox[abp]-\w{10,}|"
        r"(?i:password|secret|api_?key|access_?token)\s*[=:]\s*[\"'][^\"'\s]{12,}[\"']"),
}
WEIGHT_SUFFIXES = (".gguf", ".safetensors", ".whl", ".npz", ".pt", ".onnx")
BINARY_STARTS = {b"\x7fELF": "built binary", b"!<arch>\n": "built library", b"PK\x03\x04": "archive",
                 b"\x1f\x8b": "archive"}


def check_file(path, data):
    """The problems of one file, as a list of texts."""
    if len(data) > SIZE_LIMIT:
        return [f"{path}: {len(data)} bytes, expected at most {SIZE_LIMIT}"]
    tiny = path.startswith("tests/") and len(data) <= TINY
    problems = []
    if not tiny and (path.endswith(WEIGHT_SUFFIXES) or data.startswith(b"GGUF")):
        problems.append(f"{path}: model weights or package, expected none in the tree")
    for start, what in BINARY_STARTS.items():
        if data.startswith(start):
            problems.append(f"{path}: {what}, expected none in the tree")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return problems
    for number, line in enumerate(text.splitlines(), 1):
        for what, rule in TEXT_RULES.items():
            found = rule.search(line)
            if found:
                problems.append(f"{path}:{number}: {what}: {found[0]}, expected none in the tree")
    return problems


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                            capture_output=True, check=True).stdout.decode().split("\0")
    paths = [p for p in sorted(set(listed)) if p and (ROOT / p).is_file()]
    problems = [problem for p in paths for problem in check_file(p, (ROOT / p).read_bytes())]
    problems += [f"{p}: a link, expected none in the tree" for p in listed if p and (ROOT / p).is_symlink()]
    for problem in problems:
        print(f"check_tree: {problem}")
    print(f"check_tree: {len(paths)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
