// Groups: positions while rows differ in storage, one ring once they agree, speculative masks.
#include "oracles/layouts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oracles/require.h"
#include "oracles/test_tokens.h"

namespace gyre::oracles {
namespace {

constexpr RowKind kCoded = {RowKind::Form::quantized, 4, 64};

SoloRing solo(int64_t window, const std::vector<Tokens>& writes, RowKind kind = kCoded,
              int64_t minimum = 0) {
  SoloRing ring(window, kind);
  for (const Tokens& write : writes) ring.append(write);
  ring.minimum_reusable_offset = minimum;
  return ring;
}

template <class Layout = RotatingLayout>
Layout layout_of(int64_t window, const std::vector<SoloRing>& rows) {
  Layout out(window, 64, 4);
  std::vector<RotatingLayout::Source> sources;
  for (const SoloRing& row : rows) sources.emplace_back(&row);
  out.merge_rows(sources);
  return out;
}

TEST(RotatingPositions, StateWithoutRows) {
  RotatingPositions positions(4);
  EXPECT_TRUE(positions.row_offsets().empty());
  EXPECT_TRUE(positions.left_pad().empty());
  EXPECT_EQ(positions.offset(), 0);
  EXPECT_FALSE(positions.batch_size());
  EXPECT_EQ(positions.rope_offsets(), nullptr);
  EXPECT_EQ(positions.make_mask(1).kind, MaskKind::array);
  positions.sync({});
  EXPECT_EQ(positions.position().max_size, 4);
}

TEST(RotatingPositions, FollowTheRowsAndFilter) {
  std::vector<SoloRing> sources = {solo(4, {run(1, 3)}, {}), solo(4, {run(11, 1)})};
  auto rows = align_rotating_rows(sources);
  RotatingPositions positions(4);
  positions.sync(rows);
  EXPECT_EQ(positions.batch_size(), 2u);
  EXPECT_EQ(positions.offset(), 3);
  EXPECT_EQ(*positions.rope_offsets(), (Numbers{3, 1}));
  EXPECT_EQ(positions.make_mask(1).kind, MaskKind::array);  // never abbreviated
  for (AlignedRow& row : rows) row.append({99});
  EXPECT_EQ(positions.offset(), 3);  // the rows advance, not this object
  positions.sync(rows);
  EXPECT_EQ(positions.row_offsets(), (Numbers{4, 2}));
  positions.filter_rows({1, 0});
  EXPECT_EQ(positions.row_offsets(), (Numbers{2, 4}));
  EXPECT_EQ(positions.left_pad(), (Numbers{2, 0}));
  positions.dispose();
  EXPECT_FALSE(positions.batch_size());
}

// Rows convert one by one; masks do not notice, and adoption moves no column.
TEST(RotatingLayout, ConversionAndAdoptionChangeNoMask) {
  std::vector<SoloRing> sources = {solo(4, {run(1, 6)}, {}), solo(4, {run(11, 2)}, {})};
  auto rows = align_rotating_rows(sources);
  RotatingPositions positions(4);
  RotatingLayout layout(4, 64, 4);
  for (size_t converted = 0; converted < 2; ++converted) {
    positions.sync(rows);
    const Mask before = positions.make_mask(2);
    rows[converted] = rows[converted].to_quantized(64, 4);
    positions.sync(rows);
    EXPECT_EQ(positions.make_mask(2), before);
    if (converted == 0) {
      EXPECT_THROW(layout.adopt_aligned_rows(rows), PreconditionError);
    }
    for (AlignedRow& row : rows) row.append({50});
  }
  positions.sync(rows);
  layout.adopt_aligned_rows(rows);
  for (const int64_t queries : {1, 2, 5})
    EXPECT_EQ(layout.make_mask(queries), positions.make_mask(queries));
  for (size_t row = 0; row < 2; ++row)
    EXPECT_EQ(layout.ring()->columns().row(row), rows[row].ring().columns().row(0));
}

TEST(RotatingLayout, StateWithoutRows) {
  RotatingLayout layout(4, 64, 4);
  EXPECT_EQ(layout.signature(), "kv:rotating-affine:4:64:4");
  EXPECT_EQ(layout.max_tokens(), 4);
  EXPECT_EQ(layout.offset(), 0);
  EXPECT_FALSE(layout.batch_size());
  EXPECT_EQ(layout.minimum_reusable_offset(), 0);
  EXPECT_TRUE(layout.row_offsets().empty());
  EXPECT_THROW(layout.make_mask(1), PreconditionError);
  EXPECT_THROW(layout.append_decode({}), PreconditionError);
  EXPECT_THROW(layout.is_trimmable(), PreconditionError);
  EXPECT_THROW(layout.prepare_prefill({}), PreconditionError);
  layout.dispose();
  EXPECT_EQ(layout.make_empty_batch()->signature(), layout.signature());
}

TEST(RotatingLayout, CommittedSpansAreDecodes) {
  RotatingLayout a = layout_of(4, {solo(4, {run(1, 3)}), solo(4, {run(11, 1)})}), b = a;
  const auto reads = a.append_committed({run(4, 3), run(12, 3)});
  ASSERT_EQ(reads.size(), 3u);
  for (int64_t i = 0; i < 3; ++i) {
    const AttentionRead one = b.append_decode({{4 + i}, {12 + i}});
    EXPECT_EQ(reads[static_cast<size_t>(i)].keys, one.keys);
    EXPECT_EQ(reads[static_cast<size_t>(i)].mask, one.mask);
  }
  EXPECT_EQ(a.ring()->position(), b.ring()->position());
}

TEST(RotatingLayout, ARoundOfFiveRolledBackByRow) {
  // Keeps of 0, 2 and 5 out of 5, then on; against rows that only ever saw what was kept.
  const std::vector<SoloRing> start = {solo(6, {run(1, 9)}), solo(6, {run(101, 2)}),
                                       solo(6, {run(201, 4), {205}})};
  std::vector<SoloRing> kept = start;
  RotatingLayout layout = layout_of(6, start);
  const Numbers keep = {0, 2, 5};
  EXPECT_THROW(layout.spec_round_rollback(keep), PreconditionError);  // none begun
  layout.spec_round_begin();
  layout.append_window({run(10, 5), run(103, 5), run(206, 5)});
  layout.spec_round_rollback(keep);
  for (size_t row = 0; row < 3; ++row)
    for (int64_t i = 0; i < keep[row]; ++i)
      kept[row].append({kept[row].offset() + 1 + 100 * static_cast<Token>(row)});
  EXPECT_EQ(layout.row_offsets(), (Numbers{9, 4, 10}));
  for (int step = 0; step < 14; ++step) {
    std::vector<Tokens> tokens = {{1000 + step}, {2000 + step}, {3000 + step}};
    const AttentionRead read = layout.append_decode(tokens);
    for (size_t row = 0; row < 3; ++row) {
      Tokens seen = read.visible(row, 0), expected = kept[row].append(tokens[row]).visible(0, 0);
      std::sort(seen.begin(), seen.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(text(seen), text(expected)) << "step " << step << " row " << row;
    }
  }
}

TEST(RotatingLayout, CommitAndDisposeForgetARound) {
  RotatingLayout layout = layout_of(4, {solo(4, {run(1, 3)})});
  layout.spec_round_begin();
  layout.append_window({run(4, 2)});
  layout.spec_round_commit();
  EXPECT_THROW(layout.spec_round_rollback({0}), PreconditionError);
  layout.spec_round_begin();
  layout.dispose();
  EXPECT_THROW(layout.spec_round_rollback({0}), PreconditionError);
}

TEST(RotatingLayout, FloorsSurviveEveryOperation) {
  std::vector<SoloRing> sources = {solo(4, {run(1, 6)}, {}, 5), solo(4, {run(11, 2)}, {}, 0),
                                   solo(4, {run(21, 3)}, {}, 2)};
  auto rows = align_rotating_rows(sources);
  for (AlignedRow& row : rows) row = row.to_quantized(64, 4);
  RotatingLayout layout(4, 64, 4);
  layout.adopt_aligned_rows(rows);
  EXPECT_EQ(layout.minimum_reusable_offset(), 5);
  layout.filter_rows({2, 0, 2});
  EXPECT_EQ(layout.minimum_reusable_offset(), 5);
  EXPECT_EQ(layout.extract_row(0).minimum_reusable_offset, 2);
  EXPECT_EQ(layout.extract_row(1).minimum_reusable_offset, 5);
  layout.spec_round_begin();
  layout.append_window({run(50, 3), run(50, 3), run(50, 3)});
  layout.spec_round_rollback({1, 0, 2});
  layout.append_committed({run(60, 2), run(60, 2), run(60, 2)});
  layout.filter_rows({0, 2});
  EXPECT_EQ(layout.minimum_reusable_offset(), 2);
  RotatingLayout merged(4, 64, 4);
  const AlignedRow& aligned = rows[0];
  const SoloRing alone = solo(4, {run(31, 2)}, kCoded, 9);
  merged.merge_rows(std::vector<RotatingLayout::Source>{&layout, &aligned, &alone});
  EXPECT_EQ(merged.batch_size(), 4u);
  EXPECT_EQ(merged.minimum_reusable_offset(), 9);
  EXPECT_EQ(merged.extract_row(2).minimum_reusable_offset, 5);
  merged.dispose();
  EXPECT_EQ(merged.minimum_reusable_offset(), 0);
}

TEST(RotatingLayout, MergingNothingEmptiesAndMergingItselfWorks) {
  RotatingLayout layout = layout_of(4, {solo(4, {run(1, 6)}), solo(4, {run(11, 2)})});
  layout.append_decode({{7}, {13}});
  const RotatingLayout copy = layout;
  layout.merge_rows(std::vector<RotatingLayout::Source>{&layout, &layout});
  EXPECT_EQ(layout.row_offsets(), (Numbers{7, 3, 7, 3}));
  EXPECT_EQ(text(layout.extract_row(2).temporal()), "4 5 6 7");
  EXPECT_EQ(text(layout.extract_row(3).temporal()), "11 12 13");
  layout.merge_rows({});
  EXPECT_EQ(layout.ring(), nullptr);
  layout.merge_rows(std::vector<RotatingLayout::Source>{&copy});
  EXPECT_EQ(layout.batch_size(), 2u);
  const RotatingLayout none(4, 64, 4);
  layout.merge_rows(std::vector<RotatingLayout::Source>{&none});
  EXPECT_EQ(layout.ring(), nullptr);
}

TEST(RotatingLayout, RowsThatHoldNothingStillHaveAPlace) {
  RotatingLayout layout = layout_of(4, {solo(4, {}), solo(4, {})});
  EXPECT_EQ(layout.batch_size(), 2u);
  EXPECT_EQ(layout.extract_row(1).offset(), 0);
  EXPECT_EQ(layout.extract_row(1).kind(), kCoded);
  EXPECT_EQ(text(layout.append_window({run(1, 2), run(11, 2)}).visible(1, 0)), "11");
}

TEST(RotatingLayout, APaddedPrefillThroughTheLayout) {
  RotatingLayout layout = layout_of(4, {solo(4, {}), solo(4, {run(11, 2)})});
  layout.prepare_prefill({3, 1});
  layout.append_window({run(1, 3), {13, kNoToken, kNoToken}});
  layout.finalize_prefill();
  EXPECT_EQ(layout.row_offsets(), (Numbers{3, 3}));
  const AttentionRead read = layout.append_decode({{4}, {14}});
  EXPECT_EQ(read.visible(0, 0).size(), 4u);
  EXPECT_EQ(read.visible(1, 0).size(), 4u);
  EXPECT_TRUE(layout.ring()->position().rotated);
}

TEST(SpeculativeRotatingLayout, MaskNamesAtTheBoundaries) {
  SpeculativeRotatingLayout layout(6, 64, 4);
  EXPECT_EQ(layout.make_mask(1).kind, MaskKind::none);  // without rows: vacuously unpadded
  EXPECT_EQ(layout.make_mask(6).kind, MaskKind::causal);
  EXPECT_THROW(layout.make_mask(7), PreconditionError);
  layout = layout_of<SpeculativeRotatingLayout>(6, {solo(6, {run(1, 4)}), solo(6, {run(11, 4)})});
  EXPECT_STREQ(name_of(layout.make_mask(1).kind), "");
  EXPECT_STREQ(name_of(layout.make_mask(2).kind), "causal");  // total + N = window
  EXPECT_STREQ(name_of(layout.make_mask(3).kind), "array");   // window + 1
  EXPECT_STREQ(name_of(layout.make_mask(1, 5).kind), "");
  EXPECT_STREQ(name_of(layout.make_mask(1, 4).kind), "array");
  EXPECT_STREQ(name_of(layout.make_mask(2, 5).kind), "array");
  EXPECT_STREQ(name_of(layout.make_mask(2, 9).kind), "causal");
  const auto padded =
      layout_of<SpeculativeRotatingLayout>(6, {solo(6, {run(1, 4)}), solo(6, {run(11, 3)})});
  EXPECT_STREQ(name_of(padded.make_mask(1).kind), "array");
  EXPECT_STREQ(name_of(padded.make_mask(2).kind), "array");
}

TEST(SpeculativeRotatingLayout, NamedMasksSelectWhatTheArraysDo) {
  auto layout =
      layout_of<SpeculativeRotatingLayout>(8, {solo(8, {run(1, 3)}), solo(8, {run(11, 3)})});
  for (const int64_t queries : {1, 2, 5}) {
    const Mask named = layout.make_mask(queries), array = layout.RotatingLayout::make_mask(queries);
    EXPECT_NE(named.kind, array.kind);
    for (int64_t i = 0; i < queries; ++i) EXPECT_EQ(named.text(1, i), array.text(1, i));
  }
  EXPECT_EQ(layout.append_window({run(4, 3), run(14, 3)}).kernel, ReadKernel::causal_window);
  EXPECT_EQ(layout.append_decode({{7}, {17}}).kernel, ReadKernel::decode);
  // 7 + 2 > 8: the base path, under an array
  const AttentionRead read = layout.append_window({run(8, 2), run(18, 2)});
  EXPECT_EQ(read.kernel, ReadKernel::masked_window);
  EXPECT_EQ(read.mask.kind, MaskKind::array);
  EXPECT_EQ(text(read.visible(1, 1)), "12 13 14 15 16 17 18 19");
}

// The documents' two predicates differ when a window is smaller than the ring: give them the same.
TEST(SpeculativeRotatingLayout, AppendWindowDoesNotLookAtASmallerWindow) {
  auto layout = layout_of<SpeculativeRotatingLayout>(8, {solo(8, {run(1, 4)})});
  EXPECT_EQ(layout.make_mask(2, 3).kind, MaskKind::array);
  EXPECT_EQ(layout.append_window({run(5, 2)}).mask.kind, MaskKind::causal);
}

TEST(SpeculativeRotatingLayout, CheckpointsHoldTheWindowOnly) {
  auto layout = layout_of<SpeculativeRotatingLayout>(4, {solo(4, {run(1, 4)})});
  layout.append_window({run(5, 3)});
  EXPECT_EQ(text(layout.extract_row(0).stored()), "4 5 6 7");
  EXPECT_EQ(text(layout.RotatingLayout::extract_row(0).stored()), "2 3 4 5 6 7");
  EXPECT_EQ(layout.extract_row(0).offset(), 7);
  EXPECT_NE(dynamic_cast<SpeculativeRotatingLayout*>(layout.make_empty_batch().get()), nullptr);
}

}  // namespace
}  // namespace gyre::oracles
