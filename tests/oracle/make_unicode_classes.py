#!/usr/bin/env python3
"""Writes src/text/unicode_classes.inl: Unicode 15.1 general categories reduced to what the
pre-tokenizers ask for. Needs: pip install unicodedata2==15.1.0 (the version is checked)."""
import pathlib
import unicodedata2 as ucd

assert ucd.unidata_version == "15.1.0", ucd.unidata_version
# White_Space of PropList.txt.
SPACE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
         0x205F, 0x3000}
CLASS = {"L": 1, "N": 2, "M": 3, "P": 4, "S": 5}  # 0: everything else, 6: white space


def char_class(c):
    return 6 if c in SPACE else CLASS.get(ucd.category(chr(c))[0], 0)


out, start, last = [], 0, char_class(0)
for c in range(1, 0x110001):
    k = char_class(c) if c < 0x110000 else -1
    if k != last:
        if last:
            out.append("{0x%X,0x%X,%d}," % (start, c, last))
        start, last = c, k
text = "// Made by tests/oracle/make_unicode_classes.py from Unicode 15.1: {first, end, class}.\n"
line = ""
for item in out:
    if len(line) + len(item) > 100:
        text, line = text + line + "\n", ""
    line += item
path = pathlib.Path(__file__).parents[2] / "src/text/unicode_classes.inl"
path.write_text(text + line + "\n")
print(len(out), "ranges,", path.stat().st_size, "bytes")
