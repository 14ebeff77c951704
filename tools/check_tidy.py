"""Runs clang-tidy over the sources that a build folder compiles, each once.

    check_tidy.py BUILD [FILE ...]

A file that was clean is not read again until it, a header it includes or the configuration changes:
BUILD/tidy.json remembers their hashes (the headers come from ninja's own dependency log).
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDY = "clang-tidy-14"


def hash_files(paths, known):
    digest = hashlib.sha256()
    for path in paths:
        if path not in known:
            known[path] = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"gone"
        digest.update(str(path).encode() + known[path])
    return digest.hexdigest()


def dependencies(build):
    """{source: set of files of this tree it includes}, as the last build saw them."""
    listing = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True).stdout
    found = {}
    for block in listing.split("\n\n"):
        lines = [line.strip() for line in block.splitlines()[1:]]
        paths = [(build / line).resolve() for line in lines]
        paths = [p for p in paths if p.is_relative_to(ROOT) and not p.is_relative_to(build)]
        if paths:
            found.setdefault(paths[0], set()).update(paths)
    return found


def sources(build):
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {pathlib.Path(entry["file"]) for entry in entries}
    # Unit tests are left out: GoogleTest's macros make them slow to read, and they run anyway.
    return sorted(f for f in files if f.is_relative_to(ROOT) and not f.name.endswith("_test.cc"))


def tidy(build, path):
    command = [TIDY, "--quiet", "-p", str(build), "--extra-arg=-Wno-everything", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    return path, done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main():
    build = (ROOT / sys.argv[1]).resolve()
    wanted = [pathlib.Path(p).resolve() for p in sys.argv[2:]] or sources(build)
    started, cache_path, hashes = time.monotonic(), build / "tidy.json", {}
    clean = json.loads(cache_path.read_text()) if cache_path.is_file() else {}
    included = dependencies(build)
    keys = {p: hash_files([ROOT / ".clang-tidy", *sorted(included.get(p, {p}))], hashes) for p in wanted}
    todo = [p for p in wanted if clean.get(str(p)) != keys[p]]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, code, text in pool.map(lambda p: tidy(build, p), todo):
            if code == 0:
                clean[str(path)] = keys[path]
            else:
                failed += 1
                print(text.strip())
    cache_path.write_text(json.dumps(clean))
    print(f"check_tidy: {len(wanted)} files, {len(todo)} read, {failed} with problems, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
