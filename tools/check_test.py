"""Unit tests of the checks: python3 -m unittest discover -s tools -p '*_test.py'."""

import pathlib
import tempfile
import unittest

import check_kv_names
import check_rooms
import check_sizes
import check_tidy
import check_tree

TABLE = """
| room | job | may include |
|---|---|---|
| `base` | words | |
| `os` | the system | `base` |
| `apps` | wiring | `base`, `os` |
"""
CMAKE = """
function(gyre_room name)
endfunction()
gyre_room(base)
gyre_room(os DEPS base LIBS z)  # a comment with gyre_room(x DEPS y)
target_link_libraries(gyre PRIVATE gyre_os)
"""


class Rooms(unittest.TestCase):
    def setUp(self):
        self.table = check_rooms.read_table(TABLE)

    def test_reads_table_and_cmake_alike(self):
        self.assertEqual(self.table, {"base": set(), "os": {"base"}, "apps": {"base", "os"}})
        self.assertEqual(check_rooms.read_cmake(CMAKE), self.table)

    def test_a_room_may_not_include_one_below(self):
        self.assertEqual(check_rooms.check_order(self.table), [])
        self.assertEqual(len(check_rooms.check_order({"base": {"os"}, "os": set()})), 1)

    def test_table_and_cmake_must_agree(self):
        self.assertEqual(check_rooms.check_same(self.table, check_rooms.read_cmake(CMAKE)), [])
        other = dict(self.table, os=set())
        self.assertEqual(len(check_rooms.check_same(self.table, other)), 1)
        self.assertEqual(len(check_rooms.check_same(self.table, {"base": set(), "os": {"base"}})), 1)
        self.assertEqual(len(check_rooms.check_same({}, {"base": set()})), 1)

    def problems(self, path, text):
        return check_rooms.check_includes({"base/a.h": "", "os/b.h": "", path: text}, self.table)

    def test_includes(self):
        self.assertEqual(self.problems("os/c.cc", '#include "base/a.h"\n#include <unistd.h>\n'), [])
        self.assertEqual(len(self.problems("base/c.cc", '#include "os/b.h"\n')), 1)
        self.assertEqual(len(self.problems("os/c.cc", '  #  include "base/none.h"\n')), 1)
        self.assertEqual(len(self.problems("base/c.cc", "#include <sys/mman.h>\n")), 1)
        self.assertEqual(len(self.problems("os/c.cc", "#include <immintrin.h>\n")), 1)
        self.assertEqual(len(self.problems("attic/c.cc", "")), 1)


class Sizes(unittest.TestCase):
    def functions(self, text):
        return list(check_sizes.cpp_functions(text))

    def test_finds_functions_not_scopes(self):
        text = ('namespace a {\nclass B {\n public:\n  int c() const {\n    if (x) {\n    }\n    return 1;\n  }\n'
                '};\nint table[] = {1, 2};\nB::B(int x)\n    : y_(x) {\n}\n}  // {\n')
        self.assertEqual(self.functions(text), [(4, 5, "c"), (11, 3, "B::B")])

    def test_is_not_misled_by_literals_and_comments(self):
        text = 'void f() {\n  char a = \'{\'; auto b = "{"; auto c = R"({)"; int d = 1\'000\'000;  // {\n}\nvoid g() {}\n'
        self.assertEqual(self.functions(text), [(1, 3, "f"), (4, 1, "g")])

    def test_lambdas_belong_to_their_function(self):
        self.assertEqual(self.functions("void f() {\n  auto g = [&](int x) {\n  };\n}\n"), [(1, 4, "f")])

    def test_limits(self):
        long_function = "void f() {\n" + "x();\n" * 119 + "}\n"
        self.assertEqual(len(check_sizes.check({"a.cc": long_function})[0]), 1)
        self.assertEqual(check_sizes.check({"a.cc": long_function.replace("x();\n", "", 1)})[0], [])
        self.assertEqual(len(check_sizes.check({"a.h": "\n" * 801})[0]), 1)
        self.assertEqual(check_sizes.check({"a.h": "\n" * 800})[0], [])
        self.assertEqual(len(check_sizes.check({"a.py": "def f():\n" + "  x()\n" * 120})[0]), 1)


class Tree(unittest.TestCase):
    def problems(self, text, path="a.md"):
        return check_tree.check_file(path, text if isinstance(text, bytes) else text.encode())

    def test_refuses(self):
        slash = "/"
        for text in ("see " + slash + "work/main/x", slash + "home/ann/x", "in " + slash + "tmp/a/b",
                     "https:" + slash * 2 + "py" + "pi.org/simple", "shared" + slash + "design.md",
                     "-----BEGIN PRIVATE" + " KEY-----", "api_" + 'key = "0123456789abcdef"',
                     b"GGUF\x03\0\0\0", b"\x7f" + b"ELF...", b"x" * (check_tree.SIZE_LIMIT + 1)):
            with self.subTest(text=text[:40]):
                self.assertEqual(len(self.problems(text)), 1)

    def test_accepts(self):
        slash = "/"
        for text in ("#!/usr/bin/env bash", "/proc/self/maps", "${ROOT}" + slash + "work/x", "src" + slash + "work/a", "key = value"):
            with self.subTest(text=text):
                self.assertEqual(self.problems(text), [])

    def test_tests_may_hold_tiny_models(self):
        self.assertEqual(self.problems(b"GGUF\x03", "tests/golden/a.gguf"), [])
        self.assertEqual(len(self.problems(b"GGUF\x03", "src/a.gguf")), 1)
        self.assertEqual(len(self.problems(b"GGUF" + b"\0" * 65536, "tests/golden/a.gguf")), 1)


class KvNames(unittest.TestCase):
    FILES = {"kv/a.h": "struct Row { int length() const; };", "tests/b.h": "lengths"}
    TESTS = {"Suite": {"Name"}}

    def problems(self, *rows, items=16):
        text = "# x\n## Names\n| in the documents | here | test | note |\n|---|---|---|---|\n" + "\n".join(rows)
        text += "\n\n## Acceptance\n| item | what | test |\n|---|---|---|\n"
        text += "".join(f"| {i} | x | `Suite.Name` |\n" for i in range(1, items + 1))
        return check_kv_names.check(text, self.FILES, self.TESTS, {"theirs", "other"})

    def test_a_row_names_what_exists(self):
        good = "| theirs, `other` | `Row::length`, `Row` (`kv/a.h`); `lengths` (`tests/b.h`) | `Suite.Name`, `Suite.*` | |"
        self.assertEqual(self.problems(good), [])
        for old, new in (("a.h", "c.h"), ("Row::length", "Row::size"), ("`lengths`", "`length`"), ("Suite.Name", "Suite.No"),
                         ("Suite.*", "Other.*"), ("other", "another"), (" (`tests/b.h`)", ""), ("| |", "|")):
            with self.subTest(old=old):
                self.assertTrue(self.problems(good.replace(old, new)))

    def test_every_name_and_item_has_a_row(self):
        self.assertEqual(len(self.problems()), 2)
        good = "| theirs, other | `Row` (`kv/a.h`) | `Suite.Name` | |"
        self.assertEqual(self.problems(good), [])
        self.assertEqual(len(self.problems(good, items=15)), 1)
        self.assertEqual(len(self.problems(good.replace("`Suite.Name`", ""))), 1)


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/a/one.cc", '#include "a/one.h"\n#include <vector>\n')
        self.write("src/a/one.h", '  #  include "a/deep.inl"\n#include "b/two.h"\n#include "a/one.h"\n')
        self.write("tests/b/two.h", "")
        self.write("src/a/deep.inl", "int x;\n")
        self.write("src/a/other.h", "int y;\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def entry(self, path="src/a/one.cc", flags="-O2"):
        return {"file": str(self.root / path), "directory": str(self.root / "build"),
                "command": f"c++ -I{self.root}/src {flags} -c {self.root}/{path}"}

    def key(self, entry=None, common=b"14"):
        return check_tidy.key_of(entry or self.entry(), self.root, common, {})

    def test_headers_of_headers_are_found(self):
        found = check_tidy.included(self.root / "src/a/one.cc", self.root, {})
        self.assertEqual({p.name for p in found}, {"one.cc", "one.h", "two.h", "deep.inl"})

    def test_the_key_follows_what_matters_and_nothing_else(self):
        before = self.key()
        self.write("src/a/other.h", "int z;\n")
        self.assertEqual(self.key(), before)
        self.assertNotEqual(self.key(self.entry(flags="-O3")), before)
        self.assertNotEqual(self.key(common=b"15"), before)
        self.write("src/a/deep.inl", "int w;\n")
        self.assertNotEqual(self.key(), before)

    def test_clones_share_keys(self):
        first, first_root = self.key(), self.root
        self.setUp()
        self.assertNotEqual(self.root, first_root)
        self.assertEqual(self.key(), first)

    def test_one_entry_a_source_and_no_unit_test(self):
        entries = [self.entry("src/a/one.cc", f"-DGYRE_TARGET={t} -g") for t in ("avx2", "avx512vnni", "avx512", "avxvnni")]
        entries += [self.entry("src/a/one_test.cc"), self.entry("src/a/two.cc")]
        entries += [dict(self.entry(), file="/usr/src/outside.cc")]
        chosen = check_tidy.choose_entries(entries, self.root)
        self.assertEqual(chosen, [entries[2], entries[5]])


if __name__ == "__main__":
    unittest.main()
