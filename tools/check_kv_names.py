"""Checks the concept map of docs/formats/kv.md: every file, symbol and test that it names exists.

Section "Names": rows `| in the documents | here | test | note |`. `here` holds symbols and, behind
them in brackets, the file that has them: `Sequence::clone` (`kv/sequence.h`). A file is under src/
or, where it begins with tests/, bench/ or tools/, under the root. Each part of a symbol must stand
in its file as a word. `test` holds `Suite.Name` or `Suite.*` of a GoogleTest file. Every name of
DOCUMENT_NAMES must have a row.

Section "Acceptance": rows `| item | what | test |`, one for each of the items 1 to 16.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = "docs/formats/kv.md"
ITEMS = range(1, 17)

# What the two documents declare, import or call.
DOCUMENT_NAMES = set("""
AlignedRotatingCache RotatingKvPositions RotatingAffineLayout SpeculativeRotatingAffineLayout
RotatingKVCache RotatingQuantizedKVCache BatchedRotatingCache BatchedRotatingQuantCache
BatchedRotatingState RotatingPositionSnapshot Ring inner ring
rotatingSourcePosition alignRotatingRows adoptRotatingRow adoptPhysical combinedPosition
positionSnapshot snapshot restore filter activeLength hasPendingPadding batchSize validOffset
maxSize offset offsets offsetArr rowOffsets leftPad totalOffset ringIndex ringIdx rotated prefillEnds
sync makeMask buildBatchedRotatingMask Mask AttentionMasks masks affineCausalLease window
preparePrefill finalizePrefill PrefillPadding PaddedPrefillCache
isTrimmable trim rollback rollbackRotatingRing preserveColumns specRoundBegin specRoundCommit
specRoundRollback before minimumReusableOffset minimum
toQuantized affineConversion quantizedAttention TransitioningKvPositions TransitionedKvLayout
AttentionRead appendDecode appendWindow appendWindowUnder appendCommitted decodeByPosition
updateAndFetch CommittedAttentionCache captureRotatingDonorAttention captureDonorAttention
KvDonorAttention mergeRows adoptAlignedRows filterRows extractRow extract makeEmptyBatch
BatchableCache cloneKvCaches composed storage dispose state maxTokens
ropeOffsetArr releaseRopeArr ropeForOffset fromInt32
plainRowStorage quantizedRowStorage temporalStorageView padLeft slice fields packed scales biases
keys values emptyPlane prototype zeros concatAxis nbytes
quantize QuantizedTensor AffineKernels AffineKernelSet kernels groupSize bits MlxArray dtype Cache
bytesPerToken projectedBytes signature keep limit arr mode
PrefillPolicy chunkSize promptTokens PrefillPosition length position
SpeculativeTransaction Acceptance canBegin begin resolve drafts accepted
FUSED_SDPA_HEAD_DIMS SDPA_SCORES_BYTES SDPA_FUSED_MAX_QUERIES sdpaFallbackBytes ModelConfig
layerTypes slidingWindow headDim globalHeadDim numAttentionHeads numHiddenLayers
KvScheme KvSchemeKind ResolvedKvSchemeOptions kind options generationOptions cacheKey label describe
attention layers global sliding_window recurrent_layers capabilities isSafeInteger kvBytesAt bytesAt linearStateBytes batchable canConvert cacheLayerCount
delayedAffine resolveKvScheme override turboQuant TurboQuantScheme kBits vBits kvBits kvGroupSize
KvQuantSpec kvConfig layerIdx missingConfig quantizedKvStart
""".split())

TICKED = re.compile(r"`([^`]+)`")
PLACE = re.compile(r"\(`([^`]+)`\)")
TEST = re.compile(r"^\s*TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M)


def section(text, title):
    """The table rows of a section, as lists of cells; heads and rules left out."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    rows = []
    for line in (found[1] if found else "").splitlines():
        if line.startswith("|") and not re.match(r"\|[-| :]+\|?$", line):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return [row for row in rows if row[0] not in ("in the documents", "item")]


def places(cell):
    """A `here` cell -> [(symbol, file)]; symbols without a file behind them have None."""
    out, at = [], 0
    for place in PLACE.finditer(cell):
        out += [(symbol, place[1]) for symbol in TICKED.findall(cell[at:place.start()])]
        at = place.end()
    return out + [(symbol, None) for symbol in TICKED.findall(cell[at:])]


def has_symbol(text, symbol):
    return all(re.search(rf"\b{re.escape(part)}\b", text) for part in symbol.split("::"))


def check_here(where, cell, files):
    problems = []
    for symbol, file in places(cell):
        if file is None:
            problems.append(f"{where}: `{symbol}`, expected its file in brackets behind it")
        elif file not in files:
            problems.append(f"{where}: {file}, expected a file")
        elif not has_symbol(files[file], symbol):
            problems.append(f"{where}: `{symbol}`, expected in {file}")
    if not places(cell):
        problems.append(f"{where}: nothing, expected a symbol and its file")
    return problems


def check_tests(where, cell, tests):
    names = TICKED.findall(cell)
    problems = [] if names else [f"{where}: no test, expected one"]
    for name in names:
        suite, _, test = name.partition(".")
        if suite not in tests or (test != "*" and test not in tests[suite]):
            problems.append(f"{where}: test {name}, expected one that exists")
    return problems


def check(text, files, tests, names=frozenset(DOCUMENT_NAMES)):
    """text: the page; files: {path as the page writes it: text}; tests: {suite: {names}}."""
    problems, mapped = [], set()
    for row in section(text, "Names"):
        where = f"{PAGE}: {row[0]}"
        if len(row) != 4:
            problems.append(f"{where}: {len(row)} cells, expected 4")
            continue
        mapped.update(re.findall(r"\w+", row[0]))
        problems += check_here(where, row[1], files) + check_tests(where, row[2], tests)
    problems += [f"{PAGE}: {name}, expected a row in Names" for name in sorted(names - mapped)]
    problems += [f"{PAGE}: {name}, expected a name of the documents" for name in sorted(mapped - names)]
    items = section(text, "Acceptance")
    if [row[0] for row in items] != [str(i) for i in ITEMS]:
        problems.append(f"{PAGE}: items {', '.join(row[0] for row in items)}, expected 1 to 16 in Acceptance")
    for row in items:
        problems += check_tests(f"{PAGE}: item {row[0]}", row[-1], tests)
    return problems


def main():
    files, tests = {}, {}
    for folder in ("src", "tests", "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".inl", ".py"):
                continue
            name = str(path.relative_to(ROOT)).removeprefix("src/")
            files[name] = path.read_text()
            if path.name.endswith("_test.cc"):
                for suite, test in TEST.findall(files[name]):
                    tests.setdefault(suite, set()).add(test)
    problems = check((ROOT / PAGE).read_text(), files, tests)
    for problem in problems:
        print(f"check_kv_names: {problem}")
    print(f"check_kv_names: {len(DOCUMENT_NAMES)} names, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
