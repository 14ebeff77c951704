#!/usr/bin/env python3
"""Writes tests/golden/chat/expected.txt: what jinja2, set up as transformers does for chat
templates, renders for every tests/golden/chat/*.jinja and every conversation there.

One line for each case: template, conversation, then the JSON text of the output, or "error". Needs: jinja2 3.1.
With --check PROGRAM FOLDER it compares PROGRAM (a JSON request a line, a JSON answer a line) with
jinja2 over the templates in FOLDER; for templates that a repository cannot hold."""
import argparse
import datetime
import json
import pathlib
import subprocess

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

CHAT = pathlib.Path(__file__).parents[1] / "golden/chat"
NOW = datetime.datetime(2026, 11, 3, 14, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %}: its body, called like a macro's caller."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment(kind=ImmutableSandboxedEnvironment):
    env = kind(trim_blocks=True, lstrip_blocks=True,
               extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, source, context):
    """The text, or None for any error."""
    names = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None,
             "add_generation_prompt": False, **context}
    try:
        return env.from_string(source).render(**names), None
    except Exception as error:  # pylint: disable=broad-except
        return None, f"{type(error).__name__}: {error}"


def load(folder):
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.jinja"))}


def check(program, folder, conversations):
    # Our two extensions, so that templates which need them can be compared as well.
    loose = environment(SandboxedEnvironment)
    loose.filters["from_json"] = json.loads
    strict = environment()
    cases = [(t, source, c, context) for t, source in load(folder).items()
             for c, context in conversations.items()]
    lines = "".join(json.dumps({"source": s, "context": k}) + "\n" for _, s, _, k in cases)
    done = subprocess.run([program], input=lines.encode(), capture_output=True, check=True)
    same = errors = bad = beyond = 0
    for (name, source, talk, context), line in zip(cases, done.stdout.decode().splitlines()):
        ours = json.loads(line)
        want, why = render(loose, source, context)
        beyond += render(strict, source, context)[0] != want
        if want is None and "text" not in ours:
            errors += 1
        elif want is not None and ours.get("text") == want:
            same += 1
        else:
            bad += 1
            print(f"DIFFERS {name} / {talk}\n  jinja2: {(want if why is None else why)!r}\n"
                  f"  ours:   {ours.get('text', ours.get('error'))!r}")
    print(f"{len(load(folder))} templates, {len(cases)} cases: {same} texts equal, {errors} errors "
          f"in both, {bad} differ; {beyond} cases need what transformers' sandbox refuses")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", nargs=2, metavar=("PROGRAM", "FOLDER"))
    args = parser.parse_args()
    conversations = json.loads((CHAT / "conversations.json").read_text(encoding="utf-8"))
    if args.check:
        raise SystemExit(check(args.check[0], pathlib.Path(args.check[1]), conversations) > 0)
    env, out, failed = environment(), [], 0
    for name, source in load(CHAT).items():
        for talk, context in conversations.items():
            text, _ = render(env, source, context)
            failed += text is None
            out.append(f"{name} {talk} {'error' if text is None else json.dumps(text, ensure_ascii=False)}\n")
    (CHAT / "expected.txt").write_text("".join(out), encoding="utf-8")
    print(len(out), "cases,", failed, "of them errors,", sum(map(len, out)), "characters")


if __name__ == "__main__":
    main()
