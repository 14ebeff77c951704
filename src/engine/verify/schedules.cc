// The axes that every engine should pass: chunks, neighbours, threads, instruction sets, where
// pages and weights lie.
#include <algorithm>

#include "engine/verify/verifier.h"
#include "numerics/philox.h"
#include "os/temporary.h"

namespace gyre::engine::verification {
namespace {
constexpr uint32_t kScalarPositions = 24, kQuickScalarPositions = 8;
}  // namespace

// Prefill chunks: the same text in steps of 1, 3, 64, 511 tokens, and whole.
Status Verifier::chunks() {
  VerifyAxis axis{.name = "chunk"};
  std::vector<uint32_t> chunks{3, 64, 511, size()};
  if (!settings_.quick) chunks.insert(chunks.begin(), 1);
  GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*loaded_, size(), 1));
  for (const uint32_t most : chunks) {
    const uint32_t chunk = std::min(most, size());
    GYRE_TRY(compare(axis, std::to_string(chunk),
                     digest_of(*run, first_scheme().scheme, ids_, chunk),
                     report_.digests[0].second));
  }
  if (settings_.quick) {  // decode token by token over the first positions only
    const std::span<const TokenId> head(ids_.data(), 48);
    GYRE_TRY(compare(axis, "1 (48 positions)", digest_of(*run, first_scheme().scheme, head, 1),
                     digest_of(*run, first_scheme().scheme, head, 48)));
  }
  axis.exercised = axis.cases >= 4 && ids_.size() > kChunk;
  finish(std::move(axis));
  return {};
}

// Rows of different lengths side by side in one step, each fed at its own pace.
Status Verifier::neighbours() {
  VerifyAxis axis{.name = "neighbours"};
  size_t largest_step = 0;
  for (const uint32_t rows : {2u, 7u, 33u}) {
    if (settings_.quick && rows == 33) continue;
    GYRE_ASSIGN(const std::unique_ptr<Runner> run, runner(*loaded_, 1024, rows));
    std::vector<TestRow> tests;  // row r holds ids[r ..] with its own length; row 0 is the longest
    const uint32_t longest = rows > 7 ? 96 : size() / 2;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t length = std::max<uint32_t>(20, longest - r * (longest / (rows + 1)));
      GYRE_ASSIGN(TestRow row, open_test_row(*run, first_scheme().scheme, text(r, length)));
      tests.push_back(std::move(row));
    }
    std::vector<Feed> step;
    for (uint32_t round = 0; round == 0 || !step.empty(); ++round) {
      step.clear();
      for (uint32_t r = 0; r < rows; ++r) {
        // A different number of tokens for each row and round, 1 to 24.
        const uint32_t pace = 1 + static_cast<uint32_t>(numerics::random_bits(2, r, round, 0) % 24);
        if (tests[r].left() > 0) step.push_back({&tests[r], std::min(pace, tests[r].left())});
      }
      largest_step = std::max(largest_step, step.size());
      if (!step.empty()) GYRE_TRY(feed(*run, step));
    }
    // Every row of the small groups, a sample of the large one, against the row alone.
    for (uint32_t r = 0; r<rows; r += rows> 7 ? 8 : 1)
      GYRE_TRY(compare(axis, "row " + std::to_string(r) + " of " + std::to_string(rows),
                       tests[r].digest.hex(),
                       expected(first_scheme(), r, static_cast<uint32_t>(tests[r].text.size()))));
  }
  axis.exercised = largest_step >= (settings_.quick ? 7u : 33u);
  finish(std::move(axis));
  return {};
}

Status Verifier::threads() {
  VerifyAxis axis{.name = "threads"};
  for (int threads : {1, 2, 3}) {
    LoadSettings load = settings_.load;
    load.threads = threads;
    GYRE_TRY(
        compare(axis, std::to_string(threads), digest_with(load, ids_), report_.digests[0].second));
  }
  axis.exercised = axis.cases == 3;
  finish(std::move(axis));
  return {};
}

Status Verifier::isas() {
  VerifyAxis axis{.name = "isa"};
  const uint32_t scalar_positions = settings_.quick ? kQuickScalarPositions : kScalarPositions;
  const std::span<const TokenId> head(ids_.data(), scalar_positions);
  for (kernels::Isa isa : kernels::available_isas()) {
    LoadSettings load = settings_.load;
    load.isa = std::string(kernels::isa_name(isa));
    if (isa == kernels::Isa::scalar) {
      GYRE_TRY(compare(axis, load.isa + " (" + std::to_string(head.size()) + " positions)",
                       digest_with(load, head), digest_with(settings_.load, head)));
    } else {
      GYRE_TRY(compare(axis, load.isa, digest_with(load, ids_), report_.digests[0].second));
    }
  }
  axis.exercised = axis.cases >= 2;
  finish(std::move(axis));
  return {};
}

Status Verifier::placement() {
  VerifyAxis axis{.name = "placement"};
  for (uint64_t seed : {1u, 2u}) {
    GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*loaded_, kChunk, 2, seed));
    GYRE_ASSIGN(kv::Sequence other, run->open_row());  // takes pages in between
    const RowTokens first{&other, std::span<const TokenId>(ids_).subspan(0, 65)};
    GYRE_TRY(run->step({&first, 1}));
    GYRE_TRY(compare(axis, "seed " + std::to_string(seed),
                     digest_of(*run, first_scheme().scheme, ids_, 64), report_.digests[0].second));
  }
  axis.exercised = axis.cases == 2 && ids_.size() > 2 * kernels::kPagePositions;
  finish(std::move(axis));
  return {};
}

// Weights packed at load, then written to and mapped from a pack cache.
Status Verifier::packing() {
  VerifyAxis axis{.name = "pack"};
  GYRE_ASSIGN(const os::TemporaryFolder folder, os::TemporaryFolder::make("gyre-verify"));
  LoadSettings load = settings_.load;
  load.pack_cache = folder.path();
  bool mapped = false;
  for (const char* what : {"written", "mapped"}) {
    GYRE_ASSIGN(std::unique_ptr<Loaded> other, Loaded::open(load));
    mapped = other->model().weights().from_cache();
    GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*other, kChunk, 1));
    GYRE_TRY(compare(axis, what, digest_of(*run, first_scheme().scheme, ids_, kChunk),
                     report_.digests[0].second));
  }
  axis.exercised = mapped;
  finish(std::move(axis));
  return {};
}

}  // namespace gyre::engine::verification
