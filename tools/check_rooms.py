"""Checks that the rooms of src/ include only what docs/rooms.md allows.

Three things must agree: the table in docs/rooms.md, DEPS in src/CMakeLists.txt, and the #include
lines. A room includes only rooms that stand above it in the table. Also: only os/ includes the
system's headers, and only the places named below include intrinsics.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

SYSTEM_HEADERS = re.compile(
    r"(sys|linux|arpa|net|netinet|asm)/.*|unistd\.h|fcntl\.h|sched\.h|pthread\.h|poll\.h|signal\.h|"
    r"csignal|termios\.h|dirent\.h|dlfcn\.h|netdb\.h|cpuid\.h")
INTRINSICS = re.compile(r"(imm|xmm|emm|x86|arm_neon|arm_acle).*\.h")
# Path prefix under src/ -> why it may include intrinsics.
INTRINSICS_ALLOWED = {
    "kernels/": "the instruction sets' vocabularies",
    "base/fp_env.h": "MXCSR",
    "base/thread_pool.cc": "the spin loop's pause",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]', re.M)


def read_table(text):
    """docs/rooms.md: rows `| room | job | may include |` -> {room: set of rooms}, in order."""
    rooms = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`(\w+)`", cells[0]) if len(cells) == 3 else None
        if name:
            rooms[name[1]] = set(re.findall(r"`(\w+)`", cells[2]))
    return rooms


def read_cmake(text):
    """src/CMakeLists.txt -> {room: DEPS}; apps gets all that its linked rooms bring along."""
    text = re.sub(r"#.*", "", text)
    rooms = {}
    for name, rest in re.findall(r"gyre_room\((\w+)([^)$]*)\)", text):
        deps = re.search(r"DEPS([\w\s]*?)(?:LIBS|$)", rest)
        rooms[name] = set(deps[1].split()) if deps else set()
    linked = re.search(r"target_link_libraries\(gyre PRIVATE([^)]*)\)", text)
    if linked:
        apps = set(re.findall(r"gyre_(\w+)", linked[1]))
        rooms["apps"] = apps.union(*(rooms.get(room, set()) for room in apps))
    return rooms


def check_order(table):
    problems, above = [], set()
    for room, allowed in table.items():
        for other in sorted(allowed - above):
            problems.append(f"docs/rooms.md: {room} may include {other}, expected a room above it")
        above.add(room)
    return problems


def check_same(table, cmake):
    problems = []
    for room in sorted(table.keys() | cmake.keys()):
        if room not in table:
            problems.append(f"src/CMakeLists.txt: {room}, expected a row in docs/rooms.md")
        elif room not in cmake:
            problems.append(f"docs/rooms.md: {room}, expected a gyre_room in src/CMakeLists.txt")
        elif table[room] != cmake[room]:
            problems.append(f"{room}: docs/rooms.md {sorted(table[room])}, "
                            f"src/CMakeLists.txt {sorted(cmake[room])}, expected the same rooms")
    return problems


def check_includes(files, table):
    """files: {path under src/: text}. Every quoted include names an allowed room's existing file."""
    problems = []
    for path, text in files.items():
        room = path.split("/")[0]
        if room not in table:
            problems.append(f"src/{path}: room {room}, expected a row in docs/rooms.md")
            continue
        for kind, name in INCLUDE.findall(text):
            if kind == "<":
                if SYSTEM_HEADERS.fullmatch(name) and room != "os":
                    problems.append(f"src/{path}: <{name}>, expected system headers only in os/")
                if INTRINSICS.fullmatch(name) and not path.startswith(tuple(INTRINSICS_ALLOWED)):
                    problems.append(f"src/{path}: <{name}>, expected intrinsics only in kernels/")
                continue
            other = name.split("/")[0]
            if other != room and other not in table[room]:
                problems.append(f"src/{path}: \"{name}\", expected one of {sorted(table[room] | {room})}")
            elif name not in files:
                problems.append(f"src/{path}: \"{name}\", expected a file under src/")
    return problems


def main():
    source = ROOT / "src"
    files = {str(p.relative_to(source)): p.read_text()
             for pattern in ("*.h", "*.cc", "*.inl") for p in sorted(source.rglob(pattern))}
    table = read_table((ROOT / "docs/rooms.md").read_text())
    cmake = read_cmake((source / "CMakeLists.txt").read_text())
    problems = check_order(table) + check_same(table, cmake) + check_includes(files, table)
    for problem in problems:
        print(f"check_rooms: {problem}")
    print(f"check_rooms: {len(files)} files in {len(table)} rooms, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
