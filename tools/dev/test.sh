# Sourced by ./dev: the test verb, in timed stages. Stops at the first stage that fails.

STAGES=()

stage() {  # NAME command ...
  local name=$1 started=$SECONDS
  shift
  say "test: $name"
  "$@"
  STAGES+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
}

run_ctest() {  # PRESET [ctest arguments]; adds what ran to PASSED
  local preset=$1 log
  shift
  log=build/$preset/ctest.log
  local status=0
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@" |
    tee "$log" || status=$?
  PASSED=$((PASSED + $(sed -n 's/.*tests passed, [0-9]* tests failed out of \([0-9]*\)/\1/p' "$log")))
  return "$status"
}

# The sanitizer builds run the unit tests, but for the widest sweeps: those compare values over and
# over along paths that the rest walks too. The digests pinned in engine_test tie all builds together.
SANITIZED_WITHOUT='*AllInputs*:Functions.ErrorsStay*:Verify.Llama:Verify.Gemma3*'
SANITIZED_WITHOUT+=':Attention.*EveryHeadDim:Attention.*WideScores:Attention.QueriesGet*:Attention.SplitOver*'
SANITIZED_WITHOUT+=':CodedAttention.EveryInstructionSet*:KvPage.WhatIsNotFinite*:SchemeTest.DigestsOn*'
SANITIZED_WITHOUT+=':*EveryIsaEqualsTheReference/*F32:*EveryIsaEqualsTheReference/*F16:*/Q4_0:*/Q5_1:*/Q2_K:*/Q5_K:*/IQ4_XS'

run_sanitized() {  # PRESET [more tests to leave out]
  compile "$1" unit_tests
  GTEST_FILTER="-$SANITIZED_WITHOUT${2:+:$2}" GYRE_HISTORIES=300 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1 run_ctest "$1" -L unit
}

verb_test() {
  PASSED=0
  need build
  case ${1:-} in
    --quick)
      compile release
      run_ctest release -L unit
      return
      ;;
    '') ;;
    *) die "test: $1, expected --quick or nothing" ;;
  esac
  stage setup need build python format
  stage models verb_models
  stage 'release: build' compile release
  stage 'release: tests' run_ctest release
  stage 'asan-ubsan: build and unit tests' run_sanitized asan-ubsan
  stage 'tsan: build and unit tests' run_sanitized tsan 'Recurrent*:SavedRow*:StateFile*:CodedAttention.EveryNumberOf*:KvPage.EveryByte*:KvPage.Converting*:CodedAttention.TheReference*:CodedAttention.ANonFinite*:SequenceCodes.EveryFailed*'
  stage 'check: format, rooms, sizes, tree, KV names' verb_check --quick
  printf '%s\n' "${STAGES[@]}" "$(printf '%5d s  all' $SECONDS)"
  echo "tests: $PASSED passed, 0 failed"
}
