"""Runs clang-tidy over the sources that a build folder compiles, each once.

    check_tidy.py BUILD [FILE ...]

A file that was clean is not read again until its text, a header of ours that it includes, its compiler flags,
the configuration or clang-tidy's version changes. Their hash is remembered in the user's cache folder, as ccache
remembers objects: clones and work trees share it.

Unit tests are left out: GoogleTest's macros make them slow to read, and they run anyway. A kernel text is read
for one instruction set, not for each.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDY = "clang-tidy-14"
KERNEL_TARGET = "avx512"
REMEMBERED = 20_000  # hashes; a whole tree takes some 150
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)


def included(path, root, known):
    """The files of this tree that `path` includes, itself among them. Quoted includes start at src/ or tests/."""
    found, todo = set(), [path]
    while todo:
        here = todo.pop()
        if here in found:
            continue
        found.add(here)
        if here not in known:
            text = here.read_bytes()
            names = [root / base / name.decode() for name in INCLUDE.findall(text) for base in ("src", "tests")]
            known[here] = hashlib.sha256(text).digest(), [p for p in names if p.is_file()]
        todo.extend(known[here][1])
    return found


def key_of(entry, root, common, known):
    """What a file's result depends on, as one hash that is the same in every clone."""
    digest = hashlib.sha256(common)
    command = entry["command"]
    for name in (entry["directory"], str(root)):
        command = command.replace(name, "")
    digest.update(command.encode())
    for path in sorted(included(pathlib.Path(entry["file"]), root, known)):
        digest.update(str(path.relative_to(root)).encode() + known[path][0])
    return digest.hexdigest()


def choose_entries(entries, root):
    """One compiler call for each source of the tree, unit tests aside."""
    chosen = {}
    for entry in entries:
        path = pathlib.Path(entry["file"])
        if not path.is_relative_to(root) or path.name.endswith("_test.cc"):
            continue
        if str(path) not in chosen or f"GYRE_TARGET={KERNEL_TARGET} " in entry["command"]:
            chosen[str(path)] = entry
    return [chosen[path] for path in sorted(chosen)]


def cache_file():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "gyre" / "tidy"


def tidy(folder, path):
    started = time.monotonic()
    command = [TIDY, "--quiet", "-p", str(folder), "--extra-arg=-Wno-everything", path]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout + (done.stderr if done.returncode else ""), time.monotonic() - started


def read_all(folder, todo):
    """Runs clang-tidy on {path: key}; yields (path, key) of clean files, prints the rest."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {pool.submit(tidy, folder, path): path for path in todo}
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            path = futures[future]
            code, text, seconds = future.result()
            if sys.stderr.isatty():
                print(f"\rcheck_tidy: {count} of {len(todo)}", end="" if count < len(todo) else "\n", file=sys.stderr)
            if os.environ.get("GYRE_TIDY_TIMES"):
                print(f"{seconds:6.1f} s  {path}", file=sys.stderr)
            if code == 0:
                yield path
            else:
                print(text.strip() or f"{path}: {TIDY}: exit {code}, expected 0", flush=True)


def main():
    build = (ROOT / sys.argv[1]).resolve()
    started = time.monotonic()
    entries = choose_entries(json.loads((build / "compile_commands.json").read_text()), ROOT)
    wanted = {str(pathlib.Path(p).resolve()) for p in sys.argv[2:]}
    entries = [e for e in entries if not wanted or e["file"] in wanted]
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))

    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    common, known = hashlib.sha256(version + (ROOT / ".clang-tidy").read_bytes()).digest(), {}
    keys = {e["file"]: key_of(e, ROOT, common, known) for e in entries}
    cache = cache_file()
    clean = set(cache.read_text().split()) if cache.is_file() else set()
    todo = [path for path, key in keys.items() if key not in clean]

    cache.parent.mkdir(parents=True, exist_ok=True)
    passed = 0
    with cache.open("a") as out:
        for path in read_all(folder, todo):
            passed += 1
            out.write(keys[path] + "\n")
            out.flush()
    if len(clean) > REMEMBERED:
        cache.write_text("\n".join(cache.read_text().split()[-REMEMBERED // 2:]) + "\n")
    print(f"check_tidy: {len(entries)} files, {len(todo)} read, {len(todo) - passed} with problems, "
          f"{time.monotonic() - started:.0f} s, {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.0f} s of CPU")
    return 0 if entries and passed == len(todo) else 1


if __name__ == "__main__":
    sys.exit(main())
