"""Checks the size budgets: files of at most 800 lines, functions of at most 120.

C++ functions are found by their braces: a `{` at namespace or class level whose head has a
parameter list. Comments and literals are blanked first. Python functions come from its own parser.
Prints the longest of each, and the line counts of src/.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE_LIMIT, FUNCTION_LIMIT = 800, 120
FOLDERS = ("src", "bench", "tests", "tools")
SUFFIXES = {".cc", ".h", ".inl", ".py", ".sh", ".cmake"}

TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NOT_A_FUNCTION = re.compile(r"\s*(?:inline\s+)?(?:namespace|class|struct|enum|union|extern)\b")


def blank(text):
    """Comments, literals and preprocessor lines as spaces; line breaks stay."""
    def spaces(match):
        # 1'000'000 is a number: a quote inside it never matches, since no character literal fits.
        return re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r"(?<=\w)'(?=\w)", " ", text)
    text = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", spaces, text)
    text = TOKENS.sub(spaces, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.M)


def is_function(head):
    head = re.sub(r"\[\[.*?\]\]", "", head)
    return "(" in head and not NOT_A_FUNCTION.match(head) and not re.search(r"=\s*$", head)


def cpp_functions(text):
    """Yields (first line, lines, name) of each function body outside other functions."""
    text = blank(text)
    scopes, head_start, line, inside = [], 0, 1, None
    for position, character in enumerate(text):
        if character == "\n":
            line += 1
        elif character == "{":
            head = text[head_start:position]
            starts = inside is None and is_function(head)
            if starts:
                skipped = len(head) - len(head.lstrip())
                first = line - head[skipped:].count("\n")
                inside = (len(scopes), first, head.split("(")[0].split()[-1])
            scopes.append(position)
            head_start = position + 1
        elif character == "}" and scopes:
            scopes.pop()
            if inside and len(scopes) == inside[0]:
                yield inside[1], line - inside[1] + 1, inside[2]
                inside = None
            head_start = position + 1
        elif character == ";":
            head_start = position + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def check(files):
    """files: {path: text} -> (problems, longest file, longest function)."""
    problems, longest_file, longest_function = [], (0, ""), (0, "")
    for path, text in files.items():
        lines = text.count("\n")
        longest_file = max(longest_file, (lines, path))
        if lines > FILE_LIMIT:
            problems.append(f"{path}: {lines} lines, expected at most {FILE_LIMIT}")
        if path.endswith((".cc", ".h", ".inl")):
            functions = cpp_functions(text)
        else:
            functions = python_functions(text) if path.endswith(".py") else ()
        for first, length, name in functions:
            longest_function = max(longest_function, (length, f"{path}:{first} {name}"))
            if length > FUNCTION_LIMIT:
                problems.append(f"{path}:{first}: {name}: {length} lines, expected at most {FUNCTION_LIMIT}")
    return problems, longest_file, longest_function


def main():
    paths = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*"))
             if p.suffix in SUFFIXES and p.is_file()] + [ROOT / "dev"]
    files = {str(p.relative_to(ROOT)): p.read_text() for p in paths}
    problems, longest_file, longest_function = check(files)
    for problem in problems:
        print(f"check_sizes: {problem}")
    source = [t.count("\n") for p, t in files.items() if p.startswith("src/") and not p.endswith("_test.cc")]
    tests = [t.count("\n") for p, t in files.items() if p.startswith("tests/") or p.endswith("_test.cc")]
    print(f"check_sizes: src/ {sum(source):,} lines in {len(source)} files, tests {sum(tests):,} in {len(tests)}; "
          f"longest file {longest_file[0]} ({longest_file[1]}), function {longest_function[0]} ({longest_function[1]}); "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
