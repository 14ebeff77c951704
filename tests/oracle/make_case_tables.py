#!/usr/bin/env python3
"""Writes src/text/jinja/case_tables.inl: the case mappings of Python's str, full and not only
simple ones, as runs {first, last, stride, delta} and as single entries {code point, up to three}."""
import pathlib


def mapping(change):
    single, full = {}, {}
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        to = change(chr(c))
        if to != chr(c):
            if len(to) == 1:
                single[c] = ord(to) - c
            else:
                full[c] = [ord(x) for x in to]
    return single, full


def runs(single):
    out, codes, i = [], sorted(single), 0
    while i < len(codes):
        first = last = codes[i]
        delta, stride, j = single[first], 1, i + 1
        if j < len(codes) and codes[j] - first in (1, 2) and single[codes[j]] == delta:
            stride = codes[j] - first
            while j < len(codes) and codes[j] == last + stride and single[codes[j]] == delta:
                last, j = codes[j], j + 1
        out.append("{0x%X,0x%X,%d,%d}," % (first, last, stride, delta))
        i = j
    return out


def wrap(items):
    text, line = "", ""
    for item in items:
        if len(line) + len(item) > 100:
            text, line = text + line + "\n", ""
        line += item
    return text + line + "\n"


text = "// Made by tests/oracle/make_case_tables.py.\n"
for name, change in (("Upper", str.upper), ("Lower", str.lower), ("Title", str.title)):
    single, full = mapping(change)
    if name == "Title":  # only where it differs from upper
        up_single, up_full = mapping(str.upper)
        single = {c: single.get(c, 0) for c in {*single, *up_single}
                  if c not in full and (single.get(c, 0) != up_single.get(c, 0) or c in up_full)}
        full = {c: to for c, to in full.items() if up_full.get(c) != to}
    text += "constexpr CaseRun k%sRuns[] = {\n" % name + wrap(runs(single)) + "};\n"
    text += "constexpr CaseFull k%sFull[] = {\n" % name
    text += wrap(["{0x%X,{%s}}," % (c, ",".join("0x%X" % x for x in to))
                  for c, to in sorted(full.items())] or ["{0,{0}},"]) + "};\n"
path = pathlib.Path(__file__).parents[2] / "src/text/jinja/case_tables.inl"
path.write_text(text)
print(path.stat().st_size, "bytes,", text.count("\n"), "lines")
