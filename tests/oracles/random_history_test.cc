// Random histories show the visible sets of the documents' arithmetic, and that it needs the
// corrected block mask.
#include "oracles/random_history.h"

#include <gtest/gtest.h>

#include <string>

namespace gyre::oracles {
namespace {

constexpr int kHistories = 6000;

TEST(RandomHistories, EveryQuerySeesTheNewestWindow) {
  Counts counts;
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed, counts);
    for (int step = 0; step < 12 && !testing::Test::HasFailure(); ++step) history.step();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(counts.queries, 100'000);
  EXPECT_GT(counts.rotated_block_queries, 5'000);
  for (const char* operation :
       {"join", "adopt", "realign", "filter", "convert", "decode", "block", "committed",
        "rollback of a ring", "rollback of aligned rows", "padded prefill", "trim"})
    EXPECT_GT(counts.operations[operation], 500) << operation;
  // The rule that the correction replaces would have hidden keys here: so this test can fail.
  EXPECT_GT(counts.ancestor_wrong, 100);
  EXPECT_LT(counts.ancestor_wrong, counts.rotated_block_queries);
  RecordProperty("queries", std::to_string(counts.queries));
  RecordProperty("block_queries", std::to_string(counts.block_queries));
  RecordProperty("rotated_block_queries", std::to_string(counts.rotated_block_queries));
  RecordProperty("ancestor_wrong", std::to_string(counts.ancestor_wrong));
}

}  // namespace
}  // namespace gyre::oracles
