# Sourced by ./dev: one digest from every build, random histories, and the fuzz targets.

same_digest() {  # NAME=COMMAND ...: the digest of SmolLM2 over 64 tokens, from each
  python3 tools/same_digest.py -m "$SMOLLM2" --file tests/endtoend/passage.txt --tokens 64 "$@"
}

verb_clang() {
  need build clang
  verb_models --smollm2
  compile release gyre
  compile release-clang gyre
  same_digest release=build/release/gyre clang=build/release-clang/gyre
}

verb_arm64() {
  need build arm64
  verb_models --smollm2
  compile release gyre
  # Sweeps over all inputs would take hours under emulation; the kernels' self check compares every
  # operator with the reference.
  local rooms='base quant loaders kv sampling'
  # shellcheck disable=SC2046,SC2086  # words on purpose
  compile arm64 gyre kernel_selfcheck $(printf '%s_test ' $rooms)
  ctest --test-dir build/arm64 --output-on-failure --no-tests=error -j "$(nproc)" \
    -R "^(${rooms// /|}|kernel_selfcheck)\$"
  same_digest x86-64=build/release/gyre 'arm64=qemu-aarch64 build/arm64/gyre'
}

verb_histories() {  # [COUNT]
  local count=${1:-100000} cores each i first failed=0 pids=()
  [[ $count =~ ^[1-9][0-9]*$ ]] || die "histories: $count, expected a number"
  need build
  compile release kv_histories_test
  cores=$(nproc)
  each=$(((count + cores - 1) / cores))
  for ((i = 0; i < cores; ++i)); do
    first=$((i * each))
    GYRE_HISTORIES=$each GYRE_HISTORIES_FIRST=$first build/release/tests/kv_histories_test \
      >"build/histories.$i.log" 2>&1 </dev/null &
    pids+=($!)
  done
  for ((i = 0; i < cores; ++i)); do
    wait "${pids[i]}" || { failed=1; tail -n 40 "build/histories.$i.log" >&2; }
  done
  [ "$failed" = 0 ] || die "histories: failed, logs build/histories.*.log"
  say "histories: $((cores * each)) passed"
}

verb_fuzz() {  # [SECONDS] [TARGET]
  local seconds=${1:-600} only=${2:-} target name ran=0
  [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "fuzz: $seconds, expected a number of seconds"
  need build clang
  compile fuzz
  mkdir -p build/fuzz-corpus
  for target in build/fuzz/tests/fuzz/*_fuzz; do
    name=$(basename "$target")
    [ -z "$only" ] || [ "$only" = "$name" ] || continue
    mkdir -p "build/fuzz-corpus/$name"
    say "fuzz: $name for $seconds s, log build/fuzz/$name.log"
    # New inputs go to build/; the checked-in corpus is only read.
    "$target" "build/fuzz-corpus/$name" "tests/fuzz/corpus/$name" -max_total_time="$seconds" \
      -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
      >"build/fuzz/$name.log" 2>&1 </dev/null ||
      { tail -n 40 "build/fuzz/$name.log" >&2; die "fuzz: $name found a failure"; }
    grep -E 'stat::number_of_executed_units' "build/fuzz/$name.log" | sed "s/^/dev: fuzz: $name: /" >&2
    ran=$((ran + 1))
  done
  [ "$ran" -gt 0 ] || die "fuzz: ${only:-no target}, expected one of tests/fuzz/*_fuzz.cc"
}
