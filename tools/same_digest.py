"""Scores the same token ids with several builds of gyre and demands one digest.

    same_digest.py -m MODEL --file TEXT --tokens 64 NAME=COMMAND NAME=COMMAND ...

The first command also tokenizes the text. Exit 1 when two digests differ.
"""

import argparse
import json
import shlex
import subprocess
import sys


def run_json(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"same_digest: {shlex.join(command[:4])} ...: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("builds", nargs="+", metavar="NAME=COMMAND")
    arguments = parser.parse_args()
    builds = {}
    for build in arguments.builds:
        name, _, command = build.partition("=")
        builds[name] = shlex.split(command)
    first = next(iter(builds.values()))
    ids = run_json([*first, "tokenize", "-m", arguments.model, "--file", arguments.file, "--json"])["ids"]
    if len(ids) < arguments.tokens:
        sys.exit(f"same_digest: {arguments.file}: {len(ids)} tokens, expected at least {arguments.tokens}")
    text = ",".join(str(i) for i in ids[: arguments.tokens])
    digests = {}
    for name, command in builds.items():
        scored = run_json([*command, "score", "-m", arguments.model, "--ids", text, "--json"])
        digests[name] = scored["digest"]
        print(f"same_digest: {scored['digest']}  {name}", flush=True)
    if len(set(digests.values())) != 1 or not all(digests.values()):
        sys.exit(f"same_digest: {len(set(digests.values()))} digests, expected one")


if __name__ == "__main__":
    main()
