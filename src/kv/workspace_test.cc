// The score matrix of unfused prefill: one table of fused head sizes, vectors worked out by hand.
#include "kv/workspace.h"

#include <gtest/gtest.h>

#include <vector>

namespace gyre::kv {
namespace {

constexpr LayerType F = LayerType::full, S = LayerType::sliding, L = LayerType::linear;
constexpr uint32_t kSizes[] = {64, 72, 80, 96, 128};
constexpr FusedAttention kTable{.head_sizes = kSizes};
using Types = std::vector<LayerType>;

const Types kSix = {S, S, S, S, S, F};

struct Row {
  uint64_t heads;
  uint32_t head_dim, global_head_dim;
  uint64_t window;
  size_t layers;
  Types types;
  uint64_t chunk, context, bytes;
};

std::vector<Row> rows() {
  Types eighteen(18, S);
  for (size_t i = 15; i < 18; ++i) eighteen[i] = F;
  return {
      {8, 256, 512, 1024, 6, kSix, 2048, 32768, 1'073'741'824},
      {8, 256, 128, 1024, 6, kSix, 2048, 32768, 100'663'296},
      {8, 128, 128, 1024, 6, kSix, 2048, 32768, 0},
      {8, 256, 512, 1024, 6, kSix, 2048, 8, 0},
      {8, 256, 512, 1024, 6, kSix, 2048, 9, 1296},
      {8, 256, 512, 1024, 6, kSix, 8, 32768, 0},
      {8, 256, 512, 1024, 6, kSix, 9, 32768, 4'718'592},
      {8, 64, 512, 0, 6, kSix, 2048, 4096, 134'217'728},
      {8, 256, 64, 0, 6, kSix, 2048, 4096, 0},
      {8, 256, 256, 1024, 2, {}, 2048, 4096, 134'217'728},
      {8, 256, 256, 1024, 0, {}, 2048, 4096, 0},
      {4, 256, 256, 512, 18, eighteen, 2048, 32768, 536'870'912},
      {4, 256, 256, 512, 18, Types(18, S), 2048, 32768, 41'943'040},
      // Ours: no head count; layers from the list's length; recurrent layers have no scores.
      {0, 256, 512, 1024, 6, kSix, 2048, 32768, 0},
      {8, 256, 512, 1024, 0, kSix, 2048, 32768, 1'073'741'824},
      {8, 256, 512, 1024, 2, {S, L}, 2048, 32768, 100'663'296},
      {8, 256, 512, 1024, 2, {L, L}, 2048, 32768, 0},
  };
}

TEST(AttentionWorkspace, VectorsOfTheTable) {
  int index = 0;
  for (const Row& row : rows()) {
    const AttentionShape shape{row.heads,  row.head_dim, row.global_head_dim,
                               row.window, row.layers,   row.types};
    EXPECT_EQ(attention_workspace(shape, kTable, row.chunk, row.context), row.bytes)
        << "row " << index;
    EXPECT_EQ(attention_workspace(shape, kOwnAttention, row.chunk, row.context), 0u);
    ++index;
  }
}

TEST(AttentionWorkspace, TheTableIsAParameter) {
  const AttentionShape shape{8, 256, 256, 0, 1, {}};
  constexpr uint32_t with_256[] = {256};
  EXPECT_EQ(attention_workspace(shape, FusedAttention{.head_sizes = with_256}, 2048, 4096), 0u);
  EXPECT_EQ(attention_workspace(shape, FusedAttention{.score_bytes = 4}, 2048, 4096), 268'435'456u);
  EXPECT_EQ(attention_workspace(shape, FusedAttention{.decode_queries = 2048}, 2048, 4096), 0u);
}

TEST(AttentionWorkspace, HugeNumbersSaturate) {
  const Types two(2, S);
  const AttentionShape shape{UINT64_MAX, 256, 256, UINT64_MAX, 2, two};
  EXPECT_EQ(attention_workspace(shape, kTable, UINT64_MAX, UINT64_MAX), UINT64_MAX);
}

}  // namespace
}  // namespace gyre::kv
